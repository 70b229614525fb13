"""Runs a check: reads the node, measures if requested, and asks every rule."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from gputop.checking import measure as check_measure
from gputop.checking.answer import CheckAnswer
from gputop.checking.measure import Measured
from gputop.checking.node import Examined, examined, reference, selected
from gputop.checking.origin import plain
from gputop.checking.runs import run_rules
from gputop.measuring.selection import hidden_note, measurable
from gputop.reading import SETTLE_SECONDS
from gputop.terminal.lines import warn
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose, load
from gputop.topology.diagnosis.policy import Policy
from gputop.topology.diagnosis.rule import Rule
from gputop.topology.flags.values.predicting import predict_with_flags
from gputop.topology.fleet.section import FleetSection, NodeOrigin
from gputop.topology.hardware.unconfirmed import sentence
from gputop.topology.model.finding import Finding
from gputop.topology.nccl.decide.predict import NoGpusError
from gputop.topology.nccl.prediction import Prediction
from gputop.topology.node import Node

READING, MEASURING = "reading the node", "measuring"
AGAIN, JUDGING = "reading the node again", "judging"
AGAIN_SECONDS = 3.0
"""How long the second reading may take before a deadline: the driver is awake by then."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to check, and how."""

    sources: tuple[str, ...] = ()
    demo: str | None = None
    since: str | None = None
    expect: str = ""
    gpus: str | None = None
    mode: str = "quick"
    """"quick", "default" or "full"."""
    force: bool = False
    python: str | None = None
    policy: Policy = Policy()
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    """The probes to run, where the user names them."""
    until: float | None = None
    """When measuring is to be over, by the monotonic clock."""
    origin: NodeOrigin | None = None
    """Which node this is; with it the answer holds what a fleet compares."""
    with_snapshot: bool = False


def check(
    wanted: Wanted, started: float, say_stage: Callable[[str], None] | None = None
) -> CheckAnswer:
    """Examine a node; `started`: monotonic time of the start. Raises Exit.

    `say_stage` hears what is begun.
    """
    begin = say_stage or (lambda text: None)
    held_against = reference(wanted.expect) if wanted.expect else None
    begin(READING)
    found = examined(wanted.sources, wanted.demo, wanted.since, _patience(wanted.until))
    before = found.node
    addresses = selected(wanted.gpus, before)
    measured = Measured()
    rules: tuple[Rule, ...] = load()
    if wanted.mode != "quick" and before.machine.gpus:
        begin(MEASURING)
        found, measured = _measured(wanted, found, addresses, begin)
        rules = (*rules, *run_rules(measured))
    begin(JUDGING)
    node, prediction, failed = _predict(Node(found.node), addresses)
    case = Case(
        node,
        earlier=found.earlier,
        reference=held_against,
        policy=wanted.policy,
        gpus=addresses,
        prediction=prediction,
    )
    doubts = () if held_against is None else held_against.unconfirmed
    notes = [*wanted.notes, *found.notes, *measured.notes, *found.node.assumptions]
    if held_against is not None and doubts:
        # A demo that is held against its own kind of node has the same doubts.
        notes = [note for note in notes if not note.endswith(sentence(doubts))]
        notes.append(f"{held_against.name}: {sentence(doubts)}; not compared")
    return CheckAnswer(
        diagnosis=diagnose(case, (*rules, *failed)),
        node=found.node,
        mode=wanted.mode,
        gpus=tuple(gpu.address for gpu in case.gpus),
        measured=measured,
        expect="" if held_against is None else held_against.name,
        unconfirmed=doubts,
        policy=wanted.files,
        assumptions=tuple(dict.fromkeys(notes)),
        fleet=_section(wanted, node, prediction),
        elapsed_seconds=time.monotonic() - started,
    )


def _patience(until: float | None, *, once_more: bool = False) -> float:
    """How long the sources are waited for: at most half of what is left until measuring ends.

    `once_more`: behind it; then as long as a driver takes that has just answered.
    """
    if until is None:
        return SETTLE_SECONDS
    if once_more:
        return AGAIN_SECONDS
    return min(SETTLE_SECONDS, max(0.2, (until - time.monotonic()) / 2))


def _section(wanted: Wanted, node: Node, prediction: Prediction | None) -> FleetSection | None:
    """What a fleet compares, where somebody asked for it."""
    if wanted.origin is None:
        return None
    from gputop.topology.fleet.making import section_of

    host = node.snapshot.machine.host
    name = None if host is None else host.hostname
    of = wanted.origin
    if name and (wanted.sources or wanted.demo) and not of.named:
        # A recording tells about the node that it was read on.
        of = NodeOrigin(host=plain(name.split(".")[0]) or of.host)
    return section_of(
        node,
        of,
        prediction=prediction,
        written_at=time.time(),
        with_snapshot=wanted.with_snapshot,
    )


def _measured(
    wanted: Wanted,
    found: Examined,
    addresses: tuple[str, ...],
    begin: Callable[[str], None],
) -> tuple[Examined, Measured]:
    """Measure, then read again; without an older reading the first one counts as earlier."""
    before = found.node
    if not addresses and (note := hidden_note(before)):
        warn(note)
    measured = check_measure.measure(
        before,
        addresses or measurable(before),
        full=wanted.mode == "full",
        force=wanted.force,
        python=wanted.python,
        names=wanted.probes,
        until=wanted.until,
    )
    if not measured.runs:
        return found, measured
    begin(AGAIN)
    now, gone = check_measure.after(before, seconds=_patience(wanted.until, once_more=True))
    measured = msgspec.structs.replace(measured, gone=gone)
    node = msgspec.structs.replace(now, measurements=(*now.measurements, *measured.measurements))
    return msgspec.structs.replace(found, node=node, earlier=found.earlier or before), measured


def _predict(
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
