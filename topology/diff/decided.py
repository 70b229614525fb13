"""What the library decides on both, and whether variables, its version or the node make it so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from ..diagnosis.case import Case
from ..expectation.cost.costs import costs_of
from ..expectation.links import SAME
from ..flags.what_if.effects import BIG, Comparison, Effect, compare
from ..flags.what_if.study import Study
from ..flags.what_if.wording import brief
from ..fleet.facts import OWN_VARIABLES
from ..model.english import listing, plural
from ..model.severity import BROKEN, NOTICE, SLOW, FigureBasis, Severity
from ..model.units import figure as three
from ..nccl.decide.summary import library_name
from ..nccl.prediction import Prediction
from ..nccl.versions import preferred
from ..node import Node
from ..upgrade.known_defects import differing
from ..upgrade.text import cost_line
from ..upgrade.upgrade import upgrade
from .record import ChangedPart, NodeChange, Uncompared

SLOWER = 1.005
"""A predicted time beyond this multiple of the other is longer, as in a what-if."""
DIRECT = "GPUDirect RDMA on -> off"


def variable_changes(before: Node, now: Node) -> Iterator[NodeChange]:
    """Variables with another value, each with what it alone changes on the second."""
    old, new = _variables(before), _variables(now)
    study = None
    if now.prediction is not None:
        study = Study(now.snapshot, made=now.prediction)
    for name in sorted(old.keys() | new.keys()):
        then, value = old.get(name), new.get(name)
        if then == value:
            continue
        severity, gain = NOTICE, False
        clauses: tuple[str, ...] = ()
        if study is not None:
            found = study.compare({name: then}, {name: value})
            severity, gain = _harm(found.effect)
            clauses = brief(found)
        yield NodeChange(
            part=ChangedPart.ENVIRONMENT,
            what=name,
            before="not set" if then is None else then,
            now="not set" if value is None else value,
            severity=severity,
            gain=gain,
            meaning="; ".join(clauses),
            brief=clauses[0] if clauses else "",
        )


def named_variables(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[NodeChange]:
    """Variables with another value, where no snapshot is there to predict with."""
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield NodeChange(
                part=ChangedPart.ENVIRONMENT,
                what=name,
                before=old.get(name, "not set"),
                now=new.get(name, "not set"),
            )


def uncompared_decisions(before: Node, now: Node) -> Iterator[Uncompared]:
    """What keeps the decisions of the two from being compared."""
    for side in (before, now):
        if side.prediction is None:
            yield _unknown("what the library decides", side.why_no_prediction)
        elif assumed := preferred(side.machine)[1]:
            yield _unknown("the version of the library", assumed)
        if not Case(side).on_node:
            yield _unknown("what a program does not print", "it is assumed, and proves no harm")
        if not Case(side).variables_read:
            yield _unknown("variables", "a text of another program has none")


def _unknown(what: str, why: str) -> Uncompared:
    return Uncompared(part=ChangedPart.DECISIONS, what=(what,), why=why)


def decision_changes(before: Node, now: Node) -> Iterator[NodeChange]:
    """The library's version with what it changes; what the node itself changes; what that costs.

    Where a text of another program is one of the two, what it leaves out is assumed: then nothing
    of this is proof of harm.
    """
    asked = all(Case(side).on_node for side in (before, now))
    for change in _decided(before, now, asked=asked):
        yield change if asked else replace(change, severity=NOTICE, gain=False)


def _decided(before: Node, now: Node, *, asked: bool) -> Iterator[NodeChange]:
    old, new = before.prediction, now.prediction
    if old is None or new is None:
        return
    told = all(preferred(side.machine)[1] is None for side in (before, now))
    if told and old.library != new.library:
        yield _version(old, new, now)
    yield from _by_the_node(before, old, new, asked=asked)
    yield from _cost(before, now)


def _variables(node: Node) -> dict[str, str]:
    found: dict[str, str] = {}
    for variable in node.snapshot.environment:
        if variable.name not in OWN_VARIABLES:
            found.setdefault(variable.name, variable.value)
    return found


def _version(old: Prediction, new: Prediction, now: Node) -> NodeChange:
    names = [library_name(side) for side in (old, new)]
    if old.library.name != new.library.name:
        return NodeChange(
            part=ChangedPart.LIBRARY, what="library", before=names[0], now=names[1],
            meaning="another library: nothing of what it decides is alike",
        )  # fmt: skip
    ids = [f"{side.library.name}-{side.library.version}" for side in (old, new)]
    found = upgrade(now.snapshot, *ids, figures=False)
    severity, gain = _harm(found.comparison.effect) if found.topics else (NOTICE, False)
    topics = f"{listing(found.topics)} change{'s' * (len(found.topics) == 1)}"
    parts = [topics if found.topics else "no decision changes here"]
    brought = differing(now.snapshot, new.library, old.library)
    left = differing(now.snapshot, old.library, new.library)
    if brought:
        parts.append(f"{plural(len(brought), 'known defect')} that may be met here "
                     f"come{'s' * (len(brought) == 1)} with it")  # fmt: skip
    told = [*parts, cost_line(found, now.snapshot, whole=True)]
    if left:
        told.append(f"{plural(len(left), 'known defect')} left behind")
    told.append(f"see `gputop explain --nccl {ids[0]} --against {ids[1]}`")
    return NodeChange(
        part=ChangedPart.LIBRARY,
        what=names[0].split()[0],
        before=old.library.version,
        now=new.library.version,
        severity=severity,
        gain=gain,
        meaning="; ".join(filter(None, told)),
        brief=", ".join(parts),
    )


def _of_nics_alone(effect: Effect) -> bool:
    """Whether nothing else differs: a text that lists no NIC does not say that there is none."""
    return replace(effect, nets=()).nothing


def _by_the_node(
    before: Node, old: Prediction, new: Prediction, *, asked: bool
) -> Iterator[NodeChange]:
    """What differs though variables and version are those of the second on both."""
    if old.library.name != new.library.name:
        return
    values = {name: new.environment.get(name) for name in {*old.environment, *new.environment}}
    library = {new.library.name.upper(): new.library.version}
    same = old.environment == new.environment and old.library == new.library
    then = old if same else Study(before.snapshot, made=old).predict({**values, **library})
    found = compare(then, new, {})
    if found.effect.nothing or (not asked and _of_nics_alone(found.effect)):
        return
    severity, gain = _harm(found.effect)
    yield NodeChange(
        part=ChangedPart.DECISIONS,
        what=f"what {library_name(new)} decides",
        before="",
        now="",
        severity=severity,
        gain=gain,
        meaning=_in_short(found),
    )


def _in_short(found: Comparison) -> str:
    return "; ".join(brief(found))


def _harm(effect: Effect) -> tuple[Severity, bool]:
    """How harmful an effect is, and whether it is a gain."""
    failed = [why is not None for why in effect.failure]
    if failed[0] != failed[1]:
        return (BROKEN, False) if failed[1] else (NOTICE, True)
    time = next((one for one in effect.times if one.bytes == BIG), None)
    share = None if time is None else time.share
    direct = any(DIRECT in what for what, _ in effect.nets)
    if effect.p2p_gained < 0 or direct or (share or 0.0) > SLOWER:
        return SLOW, False
    return NOTICE, effect.p2p_gained > 0 or (share is not None and share * SLOWER < 1.0)


def _cost(before: Node, now: Node) -> Iterator[NodeChange]:
    """An all-reduce over all GPUs, where nobody measured it: its figure is told as such."""
    found = [costs_of(side).all_reduce for side in (before, now)]
    old, new = found
    if old is None or new is None or old.here is None or new.here is None:
        return
    measured = (FigureBasis.MEASURED, FigureBasis.SIMULATED)
    if (new.basis in measured and old.basis in measured) or old.here == new.here:
        return
    less, more = new.here < SAME * old.here, old.here < SAME * new.here
    if not less and not more:
        return
    alike = old.basis == new.basis
    yield NodeChange(
        part=ChangedPart.DECISIONS,
        what=new.what,
        before=f"{three(old.here)} GB/s ({old.basis})",
        now=f"{three(new.here)} GB/s ({new.basis})",
        severity=SLOW if less and alike else NOTICE,
        gain=more and alike,
        meaning="; ".join(new.missing) or new.because,
    )
