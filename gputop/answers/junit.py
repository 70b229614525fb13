"""Writes a diagnosis as a JUnit file for CI systems, with one test case for each rule.

The format is that of Ant's JUnit task as Jenkins documents it (jenkinsci/xunit-plugin,
junit-10.xsd): testsuites > testsuite > testcase with at most one of skipped, error and failure.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as Xml

from gputop import __version__
from gputop.answers.check import CheckAnswer, SilencedFinding
from gputop.printing.finding_blocks import finding_blocks
from gputop.printing.junit import save, xml_text
from gputop.printing.render import texts
from gputop.topology.diagnosis.rule import Rule
from gputop.topology.hardware.terms import terms_of
from gputop.topology.model.finding import Finding
from gputop.topology.model.gathered import gathered_by
from gputop.topology.model.severity import BROKEN, CANNOT_TELL, SLOW

_SUITE = "gputop check"
_CLASS = "gputop.check"


def write(answer: CheckAnswer, rules: Sequence[Rule], path: str) -> None:
    """Write the file; raises Exit when that fails."""
    save(suites(answer, rules), path)


def suites(answer: CheckAnswer, rules: Sequence[Rule]) -> Xml.Element:
    """Build the document; `rules` name the test cases and say what unexamined ones lack."""
    known = {rule.id: rule for rule in rules}
    words = terms_of(answer.snapshot.machine.gpus)
    loud = gathered_by(answer.findings, lambda finding: finding.id)
    silent = gathered_by(answer.silenced, lambda silenced: silenced.id)
    unasked = answer.not_examined
    order = dict.fromkeys((*answer.examined, *unasked, *loud, *silent))
    suite = Xml.Element(
        "testsuite",
        name=_SUITE,
        id="0",
        package=_CLASS,
        hostname=xml_text(answer.node or "unknown"),
        timestamp=_moment(answer.taken_at),
    )
    _properties(suite, answer)
    for name in order:
        case = Xml.SubElement(suite, "testcase", classname=_CLASS, name=xml_text(name), time="0")
        _outcome(
            case,
            loud.get(name, []),
            silent.get(name, []),
            name in unasked,
            words.fill(known[name].evidence) if name in known else "",
        )
    counts = {kind: len(suite.findall(f"testcase/{kind}")) for kind in _KINDS}
    seconds = f"{answer.elapsed_seconds:.3f}"
    tests = str(len(order))
    suite.attrib.update(
        tests=tests,
        failures=str(counts["failure"]),
        errors=str(counts["error"]),
        skipped=str(counts["skipped"]),
        time=seconds,
    )
    root = Xml.Element(
        "testsuites",
        name=_SUITE,
        tests=tests,
        failures=suite.attrib["failures"],
        errors=suite.attrib["errors"],
        time=seconds,
    )
    root.append(suite)
    Xml.SubElement(suite, "system-out").text = xml_text(f"verdict: {answer.verdict}")
    Xml.SubElement(suite, "system-err").text = xml_text("\n".join(answer.assumptions))
    return root


_KINDS = ("failure", "error", "skipped")


def _properties(suite: Xml.Element, answer: CheckAnswer) -> None:
    facts: Mapping[str, str] = {
        "gputop": __version__,
        "source": ", ".join(answer.source),
        "mode": answer.mode,
        "expect": answer.expect or "",
        "gpus": " ".join(answer.gpus),
        "measured": " ".join(answer.probes),
    }
    properties = Xml.SubElement(suite, "properties")
    for name, value in facts.items():
        Xml.SubElement(properties, "property", name=name, value=xml_text(value))


def _outcome(
    case: Xml.Element,
    findings: Sequence[Finding],
    silenced: Sequence[SilencedFinding],
    unexamined: bool,
    evidence: str,
) -> None:
    """Add the worst outcome of a rule, with the text of all its findings.

    `evidence` is what the rule needs, in words.
    """
    worst = {finding.severity for finding in findings}
    if worst & {BROKEN, SLOW}:
        _say(case, "failure", BROKEN if BROKEN in worst else SLOW, findings)
    elif CANNOT_TELL in worst:
        _say(case, "error", CANNOT_TELL, findings)
    elif findings:
        Xml.SubElement(case, "system-out").text = xml_text("\n\n".join(map(_whole, findings)))
    elif silenced:
        why = silenced[0].reason or "no reason given"
        skipped = Xml.SubElement(case, "skipped", message=xml_text(f"silenced: {why}"))
        skipped.text = xml_text("\n\n".join(map(_whole, silenced)))
    elif unexamined:
        needs = f": {evidence}" if evidence else ""
        Xml.SubElement(case, "skipped", message=xml_text(f"data unavailable{needs}"))


def _say(case: Xml.Element, kind: str, severity: str, findings: Sequence[Finding]) -> None:
    first = next(finding for finding in findings if finding.severity == severity)
    element = Xml.SubElement(case, kind, type=severity, message=xml_text(first.title))
    element.text = xml_text("\n\n".join(map(_whole, findings)))


def _whole(finding: Finding) -> str:
    """A whole finding as plain text."""
    head = f"{finding.severity}: {finding.title}"
    return "\n".join([head, *texts(finding_blocks(finding), None, 2)])


def _moment(at: float) -> str:
    """Time in UTC as the schema requires it; the epoch where a file holds no date."""
    try:
        date = time.gmtime(at)
    except (OverflowError, ValueError, OSError):
        date = time.gmtime(0)
    if not 1 <= date.tm_year <= 9999:
        date = time.gmtime(0)
    return f"{date.tm_year:04}-{time.strftime('%m-%dT%H:%M:%S', date)}"
