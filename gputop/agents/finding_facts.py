"""A finding as a fact: what proves it, what would disprove it, and what helps."""

from __future__ import annotations

from gputop.agents.told import AgentFact, FactKind
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import Basis

_BASES = {
    Basis.MEASURED: FactKind.MEASURED,
    Basis.SIMULATED: FactKind.SIMULATED,
    Basis.ASSUMED: FactKind.OPEN,
}


def told_finding(finding: Finding) -> AgentFact:
    """A finding as a fact."""
    bases = {fact.basis for fact in finding.evidence}
    kind = next((_BASES[basis] for basis in _BASES if basis in bases), FactKind.CONCLUDED)
    evidence = tuple(f"{fact.what}: {fact.value} ({fact.source})" for fact in finding.evidence)
    open_ = tuple(
        f"possible: {one.cause}{f' (decides: {one.needs})' if one.needs else ''}"
        for one in finding.candidates
    )
    lines = [fact for fact in finding.evidence if fact.line is not None]
    return AgentFact(
        f"finding {finding.id}: {finding.severity.word}",
        finding.title,
        FactKind.OPEN if finding.candidates else kind,
        ", ".join(finding.sources),
        sureness=finding.sureness,
        disproof=finding.disproof,
        why=(*filter(None, (finding.said_cause,)), *open_, *(() if lines else evidence)),
        impact=finding.impact,
        do=(*finding.look, *(line for fix in finding.fix for line in fix.lines)),
        quoted=tuple(f"line {fact.line}: {fact.value}" for fact in lines),
    )
