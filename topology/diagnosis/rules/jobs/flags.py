"""Variables that cost something here, compared with the same node without them."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from ....model import quantities
from ....model.finding import FLAG_COSTS, Finding, Kind, Subject
from ....model.page import NEXT_START, UNSET, Fix
from ....model.readings import ProcessReading
from ....model.severity import BROKEN, NOTICE, SLOW
from ....model.surroundings import RdmaKind
from ....nccl.settings import strtoll
from ...case import ENVIRONMENT, Case
from ...rule import Found, Rule, Step
from ...shared.flag_costs import LARGE_BYTES, LIBRARY, VariableCost, cost_of
from ...shared.near import called, jobs

LIMIT_JOBS = 4
"""How many running jobs are predicted with their own variables."""


def _costs(case: Case) -> Found:
    if case.prediction is None or not case.variables_read:
        return None
    here = {name: value for name, (value, _) in case.variables.items()}
    files = {name: origin for name, (_, origin) in case.variables.items() if origin != ENVIRONMENT}
    gpus = tuple(gpu.address for gpu in case.gpus)
    findings = []
    cost = cost_of(case, here, gpus)
    if cost is not None:
        origins = dict.fromkeys(here, ENVIRONMENT) | files
        findings.append(_finding(case, cost, origins, len(gpus)))
    for job in _running(case, here):
        cost = cost_of(case, job.values, job.gpus)
        if cost is not None:
            origins = dict.fromkeys(job.values, job.who) | files
            found = _finding(case, cost, origins, len(job.gpus), job.who)
            findings.append(msgspec.structs.replace(found, about=_subjects(job, cost)))
    return [*findings, *_networks(case)]


class _RunningJob(NamedTuple):
    """Processes of one job that were started with the same variables."""

    values: dict[str, str]
    gpus: tuple[str, ...]
    processes: tuple[ProcessReading, ...]

    @property
    def who(self) -> str:
        first, more = called(self.processes[0]), len(self.processes) - 1
        return f"{first} and {more} more" if more else first


def _subjects(job: _RunningJob, cost: VariableCost) -> tuple[Subject, ...]:
    """The variables and processes, by which a job that says it itself is known."""
    flags = (Subject(Kind.FLAG, name) for name, _ in cost.names)
    pids = (Subject(Kind.PROCESS, str(process.pid)) for process in job.processes)
    return *flags, *pids


def _running(case: Case, here: Mapping[str, str]) -> list[_RunningJob]:
    """The running jobs whose variables differ from ours."""
    files = {n: v for n, (v, origin) in case.variables.items() if origin != ENVIRONMENT}
    ours = {name: value for name, value in here.items() if name.startswith(LIBRARY)}
    found: dict[
        tuple[str | None, tuple[tuple[str, str], ...]], tuple[list[ProcessReading], list[str]]
    ] = {}
    for process, gpus in jobs(case):
        named = [
            variable for variable in process.variables or () if variable[0].startswith(LIBRARY)
        ]
        values = files | dict(named)
        if named and values != ours:
            key = (process.job or str(process.parent), tuple(sorted(values.items())))
            who, on = found.setdefault(key, ([], []))
            who.append(process)
            on += [gpu.address for gpu in gpus if gpu.address not in on]
    return [
        _RunningJob(dict(values), tuple(sorted(on)), tuple(who))
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
        fix=[Fix.of(NEXT_START, UNSET, names)] if who else take_away(case, names),
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
    id=FLAG_COSTS,
    family="D28",
    title="variables that make {libraries} slower here",
    evidence="variables of the environment and of configuration files, prediction of this node",
    disproof="the same all-reduce with and without the variable in `gputop probe collectives`",
    sources=("NVIDIA/nccl-tests#166", "NVIDIA/nccl#360", "NCCL graph/paths.cc, graph/tuning.cc"),
    check=_costs,
)
RULES = (COSTS,)
