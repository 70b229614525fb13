"""Variables that cost something here, compared with the same node without them."""

from collections.abc import Mapping

from ....model import quantities
from ....model.finding import Finding
from ....model.page import Fix
from ....model.severity import BROKEN, NOTICE, SLOW
from ....model.surroundings import RdmaKind
from ....nccl.settings import strtoll
from ...case import ENVIRONMENT, Case
from ...rule import Found, Rule, Step
from ...shared.flag_costs import LARGE_BYTES, LIBRARY, VariableCost, cost_of
from ...shared.near import called, jobs

LIMIT_JOBS = 4
"""How many running jobs are predicted with their own variables."""
UNSET = "unset {:variable}"


def _costs(case: Case) -> Found:
    if case.prediction is None or not case.variables_read:
        return None
    here = {name: value for name, (value, _) in case.variables.items()}
    files = {name: origin for name, (_, origin) in case.variables.items() if origin != ENVIRONMENT}
    ours = (here, tuple(gpu.address for gpu in case.gpus), "")
    findings = []
    for values, gpus, who in (ours, *_running(case, here)):
        cost = cost_of(case, values, gpus)
        if cost is not None:
            origins = dict.fromkeys(values, who or ENVIRONMENT) | files
            findings.append(_finding(case, cost, origins, len(gpus), who))
    return [*findings, *_networks(case)]


def _running(
    case: Case, here: Mapping[str, str]
) -> list[tuple[dict[str, str], tuple[str, ...], str]]:
    """Variables of running jobs that differ from ours, with the job's GPUs and name."""
    files = {n: v for n, (v, origin) in case.variables.items() if origin != ENVIRONMENT}
    ours = {name: value for name, value in here.items() if name.startswith(LIBRARY)}
    found: dict[tuple[str | None, tuple[tuple[str, str], ...]], tuple[list[str], list[str]]] = {}
    for process, gpus in jobs(case):
        named = [
            variable for variable in process.variables or () if variable[0].startswith(LIBRARY)
        ]
        values = files | dict(named)
        if named and values != ours:
            key = (process.job or str(process.parent), tuple(sorted(values.items())))
            who, on = found.setdefault(key, ([], []))
            who.append(called(process))
            on += [gpu.address for gpu in gpus if gpu.address not in on]
    return [
        (
            dict(values),
            tuple(sorted(on)),
            who[0] if len(who) == 1 else f"{who[0]} and {len(who) - 1} more",
        )
        for (_, values), (who, on) in list(found.items())[:LIMIT_JOBS]
    ]


def _finding(
    case: Case, cost: VariableCost, origins: Mapping[str, str], count: int, who: str = ""
) -> Finding:
    given = " and ".join(f"{name}={value}" for name, value in cost.names)
    measured = None if who else _measured(case)
    drop = _drop(cost, measured, count)
    title = f"{given}: {drop}" if drop else f"{given} {_verb(cost)} bandwidth"
    if cost.fails:
        title = f"with {given} {_library(case)} does not start"
    evidence = [(name, value, origins.get(name, ENVIRONMENT)) for name, value in cost.names]
    evidence.append(
        ("the same node predicted without and with it", cost.fails or cost.text, "prediction")
    )
    if measured is not None:
        evidence.append(
            ("all-reduce with it", f"{measured:.3g} GB/s busbw measured", "probe collectives")
        )
    if cost.figures_from:
        evidence.append(("bandwidths", cost.figures_from, "table"))
    says = cost.fails or (f"{drop[0].upper()}{drop[1:]}: {cost.text}." if drop else f"{cost.text}.")
    if not cost.sure:
        says += " Through shared memory a byte is copied twice; on some hosts that is still faster."
    names = [name for name, _ in cost.names]
    return COSTS.finding(
        BROKEN if cost.fails else SLOW if cost.sure else NOTICE,
        f"{who} with {title}" if who and not cost.fails else title,
        evidence=evidence,
        impact=says,
        fix=[Fix.of("Start the next job without it.", UNSET, names)]
        if who
        else take_away(case, names),
    )


def _drop(cost: VariableCost, measured: float | None, count: int) -> str:
    """The figures of all-reduce without and with the variables; "" where they are not known."""
    after = cost.after_gbs if measured is None else measured
    if cost.before_gbs is None or after is None or cost.fails:
        return ""
    exact = "about " if measured is None else ""
    return (
        f"all-reduce over {count} GPUs drops from about {cost.before_gbs:.3g} to {exact}"
        f"{after:.3g} GB/s busbw"
    )


def _verb(cost: VariableCost) -> str:
    if not cost.sure:
        return "may cost"
    return "costs" if len(cost.names) == 1 else "cost"


def _library(case: Case) -> str:
    return case.prediction.library.name.upper() if case.prediction is not None else "NCCL"


def _measured(case: Case) -> float | None:
    """The all-reduce of the largest message that was measured over these GPUs, GB/s busbw.

    Only with the variables that this environment has: another shell may have had others.
    """
    here = {name: value for name, (value, _) in case.variables.items()}
    fit = [
        figure
        for figure in case.figures(quantities.ALL_REDUCE)
        if figure.value
        and (figure.bytes_per_copy or 0) >= LARGE_BYTES
        and figure.details.get("ranks", len(case.gpus)) == len(case.gpus)
        and isinstance(had := figure.details.get("variables", {}), Mapping)
        and all(here.get(str(name)) == value for name, value in had.items())
        and (not had or all(name in had for name in here if name.startswith("NCCL_")))
        and had
    ]
    return max(fit, key=lambda figure: figure.bytes_per_copy or 0).value if fit else None


def _networks(case: Case) -> list[Finding]:
    """RDMA devices that a variable shuts out of jobs over several nodes."""
    active = [
        device.name
        for device in case.machine.rdma
        if device.kind in (RdmaKind.INFINIBAND, RdmaKind.ROCE)
        and any(port.active for port in device.ports)
    ]
    if not active:
        return []
    value, origin = case.variables.get("NCCL_IB_DISABLE", ("", ""))
    name = ""
    if value and number_of(value) not in (None, 0):
        name = "NCCL_IB_DISABLE"
    elif "NCCL_IB_HCA" in case.variables:
        from ....flags.values.fits import matching

        value, origin = case.variables["NCCL_IB_HCA"]
        name = "" if not value or matching(value, active) else "NCCL_IB_HCA"
    if not name:
        return []
    return [
        COSTS.finding(
            SLOW,
            f"{name}={value} leaves none of {len(active)} RDMA devices",
            evidence=[
                (name, value, origin),
                ("RDMA devices with an active port", ", ".join(active), "/sys/class/infiniband"),
            ],
            impact="Jobs over several nodes go by TCP (NET/Socket). Jobs inside this node "
            "do not change.",
            fix=take_away(case, [name]),
        )
    ]


def take_away(case: Case, names: list[str]) -> list[Step]:
    """How to get rid of variables, by where they are set."""
    fixes: list[Step] = []
    own = [name for name in names if case.variables[name][1] == ENVIRONMENT]
    if own:
        fixes.append(Fix.of("Start the job without it.", UNSET, own))
    for name in names:
        origin = case.variables[name][1]
        if origin != ENVIRONMENT:
            fixes.append(
                Fix.of(
                    f"Delete the line of {name} from {origin}.",
                    "grep -n {:variable} {:path}",
                    name,
                    origin,
                    root=origin.startswith("/etc/"),
                )
            )
    return fixes


def number_of(text: str) -> int | None:
    """The number that C reads at the head of a text; None where there is none."""
    value, used = strtoll(text)
    return value if used else None


COSTS = Rule(
    id="flag-costs",
    family="D28",
    title="variables that make {libraries} slower here",
    evidence="variables of the environment and of configuration files, prediction of this node",
    disproof="the same all-reduce with and without the variable in `gputop probe collectives`",
    sources=("NVIDIA/nccl-tests#166", "NVIDIA/nccl#360", "NCCL graph/paths.cc, graph/tuning.cc"),
    check=_costs,
)
RULES = (COSTS,)
