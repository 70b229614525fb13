"""Findings, and rules whose evidence is missing, as pages."""

from __future__ import annotations

from gputop.pages.severity import SIGNS
from gputop.terminal.clean import clean
from gputop.topology.diagnosis.engine import Diagnosis, load
from gputop.topology.diagnosis.finding import Finding
from gputop.topology.model.page import Fact, Page


def explanation(finding: Finding) -> Page:
    """Explain a finding: its evidence, rule, consequence and fix."""
    _, _, word = SIGNS[finding.severity]
    facts = [
        Fact(question=f"{proof.what}:", answer=proof.value, source=proof.source)
        for proof in finding.evidence
    ]
    rule = next((rule for rule in load() if rule.id == finding.id), None)
    if rule is not None:
        facts.append(
            Fact(
                question="Which rule says so?",
                answer=f"{rule.title}, from {rule.evidence}",
                source=", ".join(finding.sources),
                basis="",
                decides=True,
            )
        )
    if finding.disproof:
        facts.append(Fact(question="What would disprove it?", answer=finding.disproof, basis=""))
    number = f" · {finding.peers}" if finding.peers else ""
    return Page(
        title=f"{finding.id}{number} · {word}",
        claim=finding.title,
        facts=tuple(facts),
        consequence=finding.consequence,
        fix=finding.fix,
    )


def unexamined(diagnosis: Diagnosis) -> Page:
    """List the rules without evidence on this node, and what each needs."""
    missing = [rule for rule in load() if rule.id in diagnosis.unexamined]
    return Page(
        title="Rules without their evidence",
        claim=(
            f"{len(missing)} of {len(missing) + len(diagnosis.examined)} rules could not be "
            "asked here: what they need was not read or not measured. They say nothing, "
            "neither good nor bad."
        ),
        facts=tuple(
            Fact(question=f"{clean(rule.id)}:", answer=f"needs {rule.evidence}", basis="")
            for rule in missing
        ),
    )
