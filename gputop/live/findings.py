"""Findings as the app shows them: what was silenced here, their signs, the sign of a device."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from gputop.terminal.clean import clean
from gputop.topology.diagnosis.engine import VERDICTS, Diagnosis, Silenced, load
from gputop.topology.diagnosis.finding import (
    BROKEN,
    BY_DESIGN,
    CANNOT_TELL,
    NOTICE,
    SEVERITIES,
    SLOW,
    Finding,
)
from gputop.topology.explain.fact import Explanation, Fact

if TYPE_CHECKING:
    from gputop.topology.report import Report

Key = tuple[str, tuple[str, ...], str]
"""Finding.key."""
SIGNS = {
    BROKEN: ("✗", "bad", "broken"),
    SLOW: ("▼", "warn", "slow"),
    CANNOT_TELL: ("?", "warn", "cannot tell"),
    NOTICE: ("•", "muted", "notice"),
    BY_DESIGN: ("○", "muted", "by design"),
}
"""Severity -> sign, ink and word."""
VERDICT_SIGNS = dict(
    zip(
        VERDICTS,
        (("✓", "good"), ("▼", "warn"), ("✗", "bad"), ("?", "warn")),
        strict=True,
    )
)
LOUD = (BROKEN, SLOW, CANNOT_TELL)
"""Severities that devices are marked for."""
HERE = "in this session"


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules said, less what somebody at this screen does not want to hear of."""

    diagnosis: Diagnosis
    findings: tuple[Finding, ...] = ()
    silenced: tuple[Silenced, ...] = ()
    """Those of the site, and those of this session."""

    @property
    def verdict(self) -> str:
        """The verdict on the findings that are left: silencing is a person's decision."""
        worst = min((SEVERITIES.index(one.severity) for one in self.findings), default=-1)
        return {BROKEN: BROKEN, SLOW: SLOW, CANNOT_TELL: "cannot tell"}.get(
            SEVERITIES[worst] if worst >= 0 else "", VERDICTS[0]
        )

    def about(self, *nodes: str) -> tuple[Finding, ...]:
        """Loud findings on one of these devices; a part of a GPU has its GPU's."""
        wanted = {*nodes, *(node.partition("/")[0] for node in nodes)}
        return tuple(
            one
            for one in self.findings
            if one.severity in LOUD and not wanted.isdisjoint(one.devices)
        )

    def mark(self, *nodes: str) -> tuple[str, str] | None:
        """Sign and ink of the worst loud finding on one of these devices."""
        found = self.about(*nodes)
        return SIGNS[found[0].severity][:2] if found else None


def shown(report: Report | None, quiet: frozenset[Key] = frozenset()) -> Shown | None:
    """The findings of a report; None where the rules were not asked yet."""
    if report is None or report.diagnosis is None:
        return None
    diagnosis = report.diagnosis
    here = tuple(one for one in diagnosis.findings if one.key in quiet)
    return Shown(
        diagnosis=diagnosis,
        findings=tuple(one for one in diagnosis.findings if one.key not in quiet),
        silenced=(
            *diagnosis.silenced,
            *(Silenced(finding=one, reason=HERE) for one in here),
        ),
    )


def counted(findings: tuple[Finding, ...]) -> str:
    """How many there are of each severity: "1 broken, 2 notices"."""
    count = Counter(one.severity for one in findings)
    words = []
    for severity in SEVERITIES:
        if number := count[severity]:
            plural = "s" if severity == NOTICE and number > 1 else ""
            words.append(f"{number} {SIGNS[severity][2]}{plural}")
    return ", ".join(words)


def commands(finding: Finding) -> tuple[str, ...]:
    """Its commands, which are copied one by one: pasted together, a reset would run unread."""
    return tuple(fix.command for fix in finding.fix if fix.command)


def explanation(finding: Finding) -> Explanation:
    """Evidence, rule, consequence and fix of a finding, for the panel that says why."""
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
    return Explanation(
        title=f"{finding.id}{number} · {word}",
        claim=finding.title,
        facts=tuple(facts),
        consequence=finding.consequence,
        fix="\n".join(_fix_lines(finding)),
        to_copy=commands(finding),
    )


def explained_with(why: Explanation, shown: Shown, *nodes: str) -> Explanation:
    """An explanation of these devices, led by the findings about them.

    Where nothing else is to be mended it ends with the cure of the worst one that is harmful.
    """
    wanted = {*nodes, *(node.partition("/")[0] for node in nodes)}
    found = [one for one in shown.findings if not wanted.isdisjoint(one.devices)]
    worst = next((one for one in found if one.severity in LOUD and not why.fix), None)
    facts = (
        Fact(
            question=f"{SIGNS[one.severity][2]}:",
            answer=one.title,
            because=one.consequence,
            source=f"rule {one.id}",
            basis="",
            decides=one.severity in LOUD,
        )
        for one in found
    )
    return msgspec.structs.replace(
        why,
        facts=(*facts, *why.facts),
        fix=why.fix if worst is None else "\n".join(_fix_lines(worst)),
        to_copy=why.to_copy if worst is None else commands(worst),
    )


def _fix_lines(finding: Finding) -> list[str]:
    lines: list[str] = []
    for fix in finding.fix:
        lines.append(fix.text + (" (needs root)" if fix.needs_root else ""))
        lines += [line for line in fix.command.split("\n") if line]
    return lines


def unexamined(diagnosis: Diagnosis) -> Explanation:
    """Which rules had no evidence here, and what each would need."""
    missing = [rule for rule in load() if rule.id in diagnosis.unexamined]
    return Explanation(
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
