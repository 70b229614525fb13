"""Two nodes, or one node at two times: what differs, most harmful first, and what it means."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from ..diagnosis.case import Case
from ..diagnosis.engine import diagnose, load
from ..fleet.fleet import family_of
from ..fleet.section import CATEGORIES
from ..model.english import first, listing, plural
from ..model.finding import UNSEEN, Finding
from ..model.gathered import gathered
from ..model.severity import BY_DESIGN, Severity, Verdict
from ..model.units import seconds
from .decided import decision_changes, named_variables, uncompared_decisions, variable_changes
from .devices import counter_changes, device_changes, figure_changes, unmeasured
from .facts import ENVIRONMENT, fact_changes, uncompared_facts
from .record import (
    PARTS,
    ChangedPart,
    DiffRelation,
    DiffSide,
    DiffVerdict,
    NodeChange,
    Uncompared,
)

MOST_CLAUSES = 3
HARMFUL = (Severity.BROKEN, Severity.SLOW)
WORDS = {
    DiffVerdict.WORSE: "Worse",
    DiffVerdict.BETTER: "Better",
    DiffVerdict.OTHER: "Other, and nothing shows harm",
}
NAMED_BY_TITLE = (ChangedPart.ENVIRONMENT, ChangedPart.LIBRARY)
"""Changes that a finding about them names in its title."""
VERSIONS = (ChangedPart.LIBRARY, ChangedPart.DRIVER, ChangedPart.FIRMWARE)
_FINDINGS = PARTS.index(ChangedPart.LIBRARY) + 0.5
"""The place of findings among equally harmful changes: after devices, variables and versions."""
_LEAST_SECONDS = 1.0


class NodeDiff(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison of two sides."""

    before: DiffSide
    now: DiffSide
    relation: DiffRelation
    came: tuple[Finding, ...]
    """Findings that only the second has, the most harmful first."""
    gone: tuple[Finding, ...]
    """Findings that only the first has, and that the second was asked for."""
    changes: tuple[NodeChange, ...]
    """The most harmful first."""
    uncompared: tuple[Uncompared, ...]
    unproven: tuple[Finding, ...] = ()
    """Findings of the second about what the first does not tell: they may be old."""

    @property
    def verdict(self) -> DiffVerdict:
        """What it comes to for the second."""
        found = [one.severity for one in self.came] + [one.severity for one in self.changes]
        if any(one in HARMFUL for one in found):
            return DiffVerdict.WORSE
        silent = Severity.CANNOT_TELL in found
        if silent or not self._in_common or any(one.severity in HARMFUL for one in self.unproven):
            return DiffVerdict.CANNOT_TELL
        better = any(one.gain for one in self.changes)
        if better or any(one.severity in HARMFUL for one in self.gone):
            return DiffVerdict.BETTER
        return DiffVerdict.OTHER if self.changes or self.came or self.gone else DiffVerdict.SAME

    @property
    def _in_common(self) -> bool:
        """Whether anything of the hardware is told by both."""
        old, new = self.before.facts, self.now.facts
        return any(
            old.get(category, {}).keys() & new.get(category, {}).keys()
            for category in ("hardware", "wiring")
        )

    @property
    def causes(self) -> tuple[str, ...]:
        """What is harmful, or else better, or else other, a clause each; consequences left out."""
        told = [*self._clauses(harmful=True)]
        if not told:
            told += [f"no longer {one.title}" for one in self.gone if one.severity in HARMFUL]
            told += [_clause(one) for one in self.changes if one.gain and self._own(one)]
        told = told or [*self._clauses(harmful=False)]
        return tuple(dict.fromkeys(told or [f"no longer {one.title}" for one in self.gone]))

    def _clauses(self, *, harmful: bool) -> Iterator[str]:
        """Findings and changes in one order: by harm, changes of devices and variables first."""
        rows = [
            (one.severity.order, _FINDINGS, one.title)
            for one in self.came
            if (one.severity in HARMFUL) is harmful
        ]
        rows += [
            (one.severity.order, float(PARTS.index(one.part)), _clause(one))
            for one in self.changes
            if (one.severity in HARMFUL) is harmful and self._own(one)
        ]
        return (text for _, _, text in sorted(rows, key=lambda row: row[:2]))

    def _own(self, one: NodeChange) -> bool:
        """Whether a change says more than the harmful findings, and is no consequence."""
        told = [finding for finding in (*self.came, *self.gone) if finding.severity in HARMFUL]
        if one.part in NAMED_BY_TITLE:
            return not any(one.what in finding.title for finding in told)
        return one.part is ChangedPart.DEVICES or (
            one.part is not ChangedPart.DECISIONS and not told
        )

    @property
    def beside(self) -> tuple[str, ...]:
        """Versions that changed too, where something else is told first: possible causes."""
        told = self.causes[:MOST_CLAUSES]
        rows = (_clause(one) for one in self.changes if one.part in VERSIONS)
        return tuple(text for text in rows if text not in told)

    @property
    def consequence(self) -> str:
        """What follows for a job: an all-reduce, or what else is decided; "" where nothing does."""
        follows = [one for one in self.changes if one.part is ChangedPart.DECISIONS]
        worse = self.verdict is DiffVerdict.WORSE
        follows = [one for one in follows if not (worse and one.gain)]
        follows = [one for one in follows if one.severity in HARMFUL or one.gain or one.before]
        valued = [one for one in follows if one.before] or follows
        return _clause(valued[0]) if valued else ""

    def _consequence_beside(self, head: str) -> str:
        """The consequence, unless the causes give both of its figures."""
        said = self.consequence
        known = set(re.findall(r"\d+(?:\.\d+)? GB/s", said.replace(" busbw", "")))
        figures = {one.partition(" ")[0] for one in known}
        return "" if figures and figures <= set(head.split()) else said

    @property
    def answer(self) -> tuple[str, str]:
        """The two lines that answer: what it comes to, and what was compared."""
        return self._first, self._second

    @property
    def _first(self) -> str:
        verdict = self.verdict
        if verdict is DiffVerdict.SAME:
            return f"Nothing that both tell differs: {listing([*self._compared])}"
        if verdict is DiffVerdict.CANNOT_TELL:
            if open_ := [one.title for one in self.came if one.severity is Severity.CANNOT_TELL]:
                return f"Whether it is worse cannot be told: {first(open_, MOST_CLAUSES, '; ')}"
            seen = first([one.title for one in self.unproven], MOST_CLAUSES, "; ")
            seen = f"{self.now.name} has what {self.before.name} does not tell of: {seen}"
            why = seen if self._in_common else "they have nothing of the hardware in common"
            return f"Whether it is worse cannot be told: {why}"
        head = first(self.causes, MOST_CLAUSES, "; ")
        if self.relation is DiffRelation.OTHER:
            head = f"another kind of machine, {self.now.product} in place of {self.before.product}"
        said = "; ".join(filter(None, (head, self._consequence_beside(head))))
        return (
            f"{WORDS[verdict]}: {said or first([*map(_clause, self.changes)], MOST_CLAUSES, '; ')}"
        )

    @property
    def _compared(self) -> Iterator[str]:
        old, new = self.before, self.now
        for category in CATEGORIES:
            if old.facts.get(category, {}).keys() & new.facts.get(category, {}).keys():
                yield category
        nodes = (old.node, new.node)
        if all(node is not None and node.prediction is not None for node in nodes):
            yield "what the library decides"
        if old.figures and new.figures:
            yield "measured figures"

    @property
    def _second(self) -> str:
        old, new = self.before, self.now
        apart = new.taken_at - old.taken_at
        when = ""
        known = self.relation is DiffRelation.SAME and old.taken_at and new.taken_at
        if known and abs(apart) >= _LEAST_SECONDS:
            later = f"{seconds(abs(apart))} {'later' if apart >= 0 else 'EARLIER'}"
            when = f", {later}"
        parts = [f"{old.name} → {new.name}: {self.relation}{when}", self._kinds]
        parts.append(f"{old.verdict} → {self.verdict_now}")
        if self.relation is not DiffRelation.OTHER and self.beside:
            parts.append(f"changed too: {first(self.beside, MOST_CLAUSES)}")
        if self.uncompared:
            what = sum(len(one.what) for one in self.uncompared)
            parts.append(f"{plural(what, 'thing')} cannot be compared")
        return "; ".join(filter(None, parts))

    @property
    def verdict_now(self) -> Verdict:
        """The verdict on the second, with what only both readings together show."""
        return min(
            self.now.verdict,
            Verdict.of(one.severity for one in self.came),
            key=lambda one: one.order,
        )

    @property
    def _kinds(self) -> str:
        old, new = self.before.product or "no GPU told", self.now.product or "no GPU told"
        return old if old == new else f"{old} → {new}"


def diff(before: DiffSide, now: DiffSide) -> NodeDiff:
    """Hold the second beside the first. Pure: nothing is asked and nothing is measured."""
    relation = _relation(before, now)
    came, gone, unproven = _findings(before, now, relation)
    if relation is not DiffRelation.SAME or None in (before.node, now.node):
        # Of two machines only what matters is told, and a saved check is read for that alone.
        came = tuple(one for one in came if one.severity.counts)
        gone = tuple(one for one in gone if one.severity in HARMFUL)
    changes = sorted(
        _changes(before, now, relation),
        key=lambda one: (one.severity.order, not one.gain, PARTS.index(one.part)),
    )
    return NodeDiff(
        before=before,
        now=now,
        relation=relation,
        came=came,
        gone=gone,
        changes=tuple(changes),
        uncompared=tuple(dict.fromkeys(_uncompared(before, now, relation))),
        unproven=unproven,
    )


def _relation(before: DiffSide, now: DiffSide) -> DiffRelation:
    if before.node is not None and now.node is not None:
        old, new = (
            {(gpu.uuid, gpu.name) for gpu in side.machine.gpus if gpu.uuid}
            for side in (before.node, now.node)
        )
        if old & new:
            return DiffRelation.SAME
    if None in (before.machine, now.machine):
        return DiffRelation.UNKNOWN
    if before.machine == now.machine and before.product == now.product:
        return DiffRelation.SAME
    alike = family_of(before.product) == family_of(now.product)
    return DiffRelation.SISTER if alike else DiffRelation.OTHER


def _changes(before: DiffSide, now: DiffSide, relation: DiffRelation) -> Iterator[NodeChange]:
    yield from fact_changes(before, now, relation)
    yield from figure_changes(before, now)
    old, new = before.node, now.node
    if old is None or new is None:
        facts = (side.facts.get(ENVIRONMENT, {}) for side in (before, now))
        yield from named_variables(*facts)
        return
    if relation is DiffRelation.SAME:
        yield from device_changes(old, new)
        yield from counter_changes(old, new)
    if all(Case(side).variables_read for side in (old, new)):
        yield from variable_changes(old, new)
    yield from decision_changes(old, new)


def _findings(
    before: DiffSide, now: DiffSide, relation: DiffRelation
) -> tuple[tuple[Finding, ...], tuple[Finding, ...], tuple[Finding, ...]]:
    """What came, what went, and what the first does not tell of."""
    old, alone = _standing(before, relation), _standing(now, relation)
    came: list[Finding] = []
    unproven: list[Finding] = []
    for finding in _over_time(before, now, relation):
        if (
            finding.severity is BY_DESIGN
            or finding.id in UNSEEN
            or _has(old, finding, now, relation)
        ):
            continue
        told = finding.id in before.examined or finding.id in old
        proven = told or finding.id not in alone or finding.severity not in HARMFUL
        (came if proven else unproven).append(finding)
    gone = [
        finding
        for finding in before.findings
        if finding.severity is not BY_DESIGN
        and finding.id not in UNSEEN
        and finding.id in now.examined
        and not _has(alone, finding, before, relation, whole=False)
    ]
    return tuple(came), tuple(gone), tuple(unproven)


def _over_time(before: DiffSide, now: DiffSide, relation: DiffRelation) -> tuple[Finding, ...]:
    """The findings of the second, with what only both readings together show."""
    old, new = before.node, now.node
    if relation is not DiffRelation.SAME or old is None or new is None:
        return now.findings
    if new.snapshot.taken_at <= old.snapshot.taken_at:
        return now.findings
    both = diagnose(Case(new, earlier=old.snapshot)).findings
    known = {one.id for one in both}
    return (
        *both,
        *(one for one in now.findings if one.id not in known and one.severity in HARMFUL),
    )


Standing = dict[str, dict[str, Severity]]
"""Id -> place -> how harmful; the place "" is the whole node, or one that is not told."""


def _standing(side: DiffSide, relation: DiffRelation) -> Standing:
    found: Standing = {}
    for finding in side.findings:
        places = found.setdefault(finding.id, {})
        for place in _places(finding, side, relation):
            places[place] = min(
                places.get(place, finding.severity), finding.severity, key=lambda one: one.order
            )
    return found


def _places(finding: Finding, side: DiffSide, relation: DiffRelation) -> tuple[str, ...]:
    """Where it is: by address on one machine, by name where another machine is beside it."""
    if side.node is None or not finding.devices:
        return ("",)
    if relation is DiffRelation.SAME:
        return finding.devices
    return tuple(map(side.node.devices.name, finding.devices))


def _has(
    standing: Standing,
    finding: Finding,
    side: DiffSide,
    relation: DiffRelation,
    *,
    whole: bool = True,
) -> bool:
    """Whether the other side has this finding, as harmful.

    `whole`: at all of its places, else at one. A place that one of the two does not tell stands
    for any.
    """
    places = standing.get(finding.id, {})
    as_harmful = {place for place, found in places.items() if found.order <= finding.severity.order}
    wanted = set(_places(finding, side, relation))
    if "" in wanted | as_harmful:
        return bool(as_harmful)
    return wanted <= as_harmful if whole else bool(wanted & as_harmful)


def _uncompared(before: DiffSide, now: DiffSide, relation: DiffRelation) -> Iterator[Uncompared]:
    yield from uncompared_facts(before, now, relation)
    if before.node is not None and now.node is not None:
        yield from uncompared_decisions(before.node, now.node)
    if saved := [side.name for side in (before, now) if side.node is None]:
        why = (
            f"{listing(saved)} holds no snapshot; `gputop check --json --snapshot -o FILE` keeps it"
        )
        what = ("what the library decides", "counters", "devices by their UUIDs")
        yield Uncompared(part="decisions", what=what, why=why)
    missing = gathered((side.name, name) for name, side in unmeasured(before, now))
    for name, kinds in missing.items():
        yield Uncompared(part="figures", what=tuple(kinds), why=f"{name} has not measured it")
    if relation is DiffRelation.OTHER:
        return
    rules = {rule.id for rule in load()}
    for has, lacks in ((before, now), (now, before)):
        if ids := tuple(sorted(rules & has.examined - lacks.examined)):
            yield Uncompared(part="findings", what=ids, why=f"{lacks.name} lacks their evidence")


def _clause(one: NodeChange) -> str:
    """One change in a clause: "driver 570.86 → 580.95", "NIC mlx5_3 gone"."""
    if not one.before and not one.now:
        return f"{one.what}: {one.meaning}"
    if one.what.endswith((" gone", " new")):
        return one.what
    if not one.before:
        return f"{one.what}: {one.now}"
    return f"{one.what} {one.moved}{f' ({one.brief})' * bool(one.brief)}"
