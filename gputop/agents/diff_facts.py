"""What the tool `compare` tells of two nodes, or of one node at two times."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gputop.agents.finding_facts import told_finding
from gputop.agents.told import AgentFact, FactKind
from gputop.answers.diff import DiffAnswer
from gputop.topology.diff.record import ChangedPart, DiffVerdict, NodeChange
from gputop.topology.model.finding import Finding

_KINDS = {
    ChangedPart.DECISIONS: FactKind.PREDICTED,
    ChangedPart.FIGURES: FactKind.CONCLUDED,  # the values say which are predicted
}
"""How changes are known that nobody reads as they are."""


def facts(found: DiffAnswer) -> Iterator[AgentFact]:
    """The verdict, what came, what changed and what is gone; then what nobody can tell."""
    said, compared = found.answer
    both = ", ".join(found.source)
    kind = FactKind.OPEN if found.verdict is DiffVerdict.CANNOT_TELL else FactKind.CONCLUDED
    yield AgentFact(f"verdict: {found.verdict}", said, kind, both, why=(compared,))
    yield from _findings(f"in {found.now.name} alone", found.came)
    yield from (_change(one, both) for one in found.changes)
    yield from _findings(f"in {found.before.name} alone", found.gone)
    unproven = f"in {found.now.name}, where {found.before.name} does not tell"
    yield from _findings(unproven, found.unproven)
    for lack in found.uncompared:
        what = f"cannot be compared: {lack.part}"
        yield AgentFact(what, None, FactKind.OPEN, both, why=(", ".join(lack.what), lack.why))


def _findings(where: str, findings: tuple[Finding, ...]) -> Iterator[AgentFact]:
    for one in map(told_finding, findings):
        yield msgspec.structs.replace(one, what=f"{one.what}, {where}")


def _change(one: NodeChange, both: str) -> AgentFact:
    told = {"before": one.before, "now": one.now}
    value = {name: text for name, text in told.items() if text}
    harm = "" if one.gain else one.severity.word
    return AgentFact(
        f"{one.part}: {one.what}: {'better' if one.gain else harm}",
        value or one.meaning or None,
        _KINDS.get(one.part, FactKind.READ),
        both,
        why=(one.meaning,) if one.meaning and value else (),
    )
