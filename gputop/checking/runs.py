"""Asks every rule about a node, and those about measuring it: a probe hangs, a GPU is gone."""

from __future__ import annotations

from collections.abc import Iterable

from gputop.checking.measure import Measured
from gputop.checking.node import Examined
from gputop.probes.protocol.status import Status
from gputop.terminal.clean import clean
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import Diagnosis, diagnose, load
from gputop.topology.diagnosis.policy import Policy
from gputop.topology.diagnosis.rule import Rule
from gputop.topology.flags.values.predicting import predict_with_flags
from gputop.topology.model.finding import Finding
from gputop.topology.model.severity import BROKEN, CANNOT_TELL, NOTICE
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.units import ranged
from gputop.topology.nccl.decide.predict import NoGpusError
from gputop.topology.nccl.prediction import Prediction
from gputop.topology.node import Node

HANGS, GONE, NOT_MEASURED = "probe-hangs", "gpu-gone", "not-measured"
OUT_OF_TIME = "The deadline of the check came before its end."
_WELL = (Status.FINISHED, Status.SKIPPED, Status.TIMED_OUT)
"""Ends that leave no question open, or that another rule reports."""
_AGAIN = "Let it run to its end $ gputop check"
_OTHER_PYTHON = (
    "Name a Python that has torch, such as that of the job "
    "$ gputop check --python /path/to/venv/bin/python"
)
_SOURCES = ("gputop check; probes/README.md",)


def run_rules(measured: Measured) -> tuple[Rule, ...]:
    """Rules about one run of probes."""
    return (
        Rule(
            id=HANGS,
            title="probes that do not end",
            evidence="probes that ran to their end or to their deadline",
            disproof="the same probe ending in time",
            sources=_SOURCES,
            implied_by=("collective-fails", "p2p-data-wrong"),
            check=lambda case: _hangs(case, measured),
        ),
        Rule(
            id=GONE,
            title="GPUs that answered before they were measured and are gone since",
            evidence="the GPUs before and after the probes",
            disproof="the GPU in `nvidia-smi -L`",
            sources=_SOURCES,
            family="D33",
            implied_by=("gpu-lost", "gpu-without-driver"),
            check=lambda case: _gone(case, measured),
        ),
        Rule(
            id=NOT_MEASURED,
            title="what was to be measured and was not",
            evidence="a check that measures",
            disproof="a run of `gputop probe` that finishes",
            sources=_SOURCES,
            check=lambda case: _not_measured(case, measured),
        ),
    )


RUN_RULES = run_rules(Measured())
"""The rules without a run, so that a policy may name them when nothing is measured."""


def all_rules() -> tuple[Rule, ...]:
    """All rules of a check: those about the snapshot and those about measuring."""
    return (*load(), *RUN_RULES)


def judged(
    found: Examined, now: NodeSnapshot, measured: Measured | None, policy: Policy
) -> tuple[Case, Diagnosis]:
    """Ask every rule about the node as it is now; `measured` where it was to be measured."""
    node, prediction, failed = _predicted(Node(now), found.gpus)
    again = measured is not None and measured.runs
    case = Case(
        node,
        # Without an older reading the one before measuring counts as earlier.
        earlier=found.earlier or (found.node if found.node.is_live and again else None),
        reference=found.reference,
        policy=policy,
        gpus=found.gpus,
        prediction=prediction,
    )
    about_runs = () if measured is None else run_rules(measured)
    return case, diagnose(case, (*load(), *about_runs, *failed))


def _predicted(
    node: Node, addresses: tuple[str, ...]
) -> tuple[Node, Prediction | None, tuple[Rule, ...]]:
    """Predict what NCCL does with these GPUs; an error becomes a rule that reports it."""
    try:
        if not addresses:
            return node.decide(), None, ()
        try:
            return node, predict_with_flags(node.snapshot, gpus=addresses), ()
        except NoGpusError:
            return node, None, ()
    except Exception as error:  # noqa: BLE001 - as for a rule: a bug is reported and the check goes on
        return node, None, (_raising(error),)


def _raising(error: Exception) -> Rule:
    def check(case: Case) -> Iterable[Finding]:
        raise error

    return Rule(
        id="prediction",
        title="what NCCL or RCCL will do",
        evidence="the node",
        disproof="`gputop explain` on this node",
        sources=("gputop",),
        check=check,
    )


def _hangs(case: Case, measured: Measured) -> Iterable[Finding] | None:
    if not measured.runs:
        return None
    return [
        _rule(HANGS).finding(
            BROKEN,
            f"the probe {run.name} does not end",
            devices=measured.gpus,
            evidence=[(run.name, clean(run.text), f"probe {run.name}")],
            impact="A job that does the same waits for ever, with its GPUs busy.",
            fix=[
                (f"Run it alone, and look at the kernel's log meanwhile $ gputop probe {run.name}"),
                "Look for Xid messages # dmesg | grep -i xid",
            ],
        )
        for run in measured.runs
        if run.status is Status.TIMED_OUT
    ]


def _gone(case: Case, measured: Measured) -> Iterable[Finding] | None:
    if not measured.runs:
        return None
    if not measured.gone:
        return []
    names = ", ".join(clean(name, 40) for _, name in measured.gone)
    return [
        _rule(GONE).finding(
            BROKEN,
            f"gone since it was measured: {names}",
            devices=[address for address, _ in measured.gone],
            evidence=[
                (
                    f"{name} at {address}",
                    "answered before the probes, and neither driver nor PCI names it now",
                    ", ".join(case.snapshot.source),
                )
                for address, name in measured.gone
            ],
            impact="A job that loads this GPU loses it.",
            fix=[
                "Look for Xid 79 # dmesg | grep -i xid",
                "Take the node out of service, and power it off and on.",
            ],
        )
    ]


def _not_measured(case: Case, measured: Measured) -> Iterable[Finding] | None:
    found = [_left_out(case, measured)] if measured.left_out else []
    for (status, text), probes in _open_ends(measured).items():
        found.append(
            _rule(NOT_MEASURED).finding(
                CANNOT_TELL,
                f"not measured: {', '.join(probes)}",
                evidence=[(", ".join(probes), text, "gputop probe")],
                impact="What these probes measure was not examined.",
                fix=[
                    _AGAIN if status is Status.CANCELLED else _OTHER_PYTHON,
                    "Examine without measuring $ gputop check --quick",
                ],
            )
        )
    return found


def _left_out(case: Case, measured: Measured) -> Finding:
    """That GPUs were left out, which are busy or do not answer."""
    from gputop.measuring.guard import HANGS as SILENT  # spares --quick its imports

    all_of_them = not measured.gpus
    addresses = [address for address, _ in measured.left_out]
    silent = all(why == SILENT for _, why in measured.left_out)
    names = ranged(map(case.name, addresses))
    return _rule(NOT_MEASURED).finding(
        CANNOT_TELL if all_of_them else NOTICE,
        f"not measured: the driver did not answer for {names}"
        if silent
        else f"not measured: {names} busy",
        devices=addresses,
        evidence=[
            (case.name(address), clean(why.removeprefix(case.name(address)).lstrip(": ")), "NVML")
            for address, why in measured.left_out
        ],
        impact="Bandwidth and arithmetic of these GPUs were not examined.",
        fix=[
            "Examine without measuring $ gputop check --quick",
            "Measure beside whoever uses them $ gputop check --force",
        ],
    )


def _open_ends(measured: Measured) -> dict[tuple[Status, str], list[str]]:
    """The probes that did not end well, by how they ended and what is said of it."""
    open_ends: dict[tuple[Status, str], list[str]] = {}
    for run in measured.runs:
        if run.status not in _WELL:
            # Ctrl+C ends all remaining probes, each with its own message.
            text = "Cancelled." if run.status is Status.CANCELLED else clean(run.text)
            if run.status is Status.CANCELLED and measured.out_of_time:
                text = OUT_OF_TIME
            open_ends.setdefault((run.status, text), []).append(run.name)
    unheard = set(measured.planned) - {run.name for run in measured.runs}
    if measured.out_of_time and unheard:
        late = open_ends.setdefault((Status.CANCELLED, OUT_OF_TIME), [])
        late += [name for name in measured.planned if name in unheard]
    return open_ends


def _rule(name: str) -> Rule:
    return next(rule for rule in RUN_RULES if rule.id == name)
