"""The lines for people: width, signs with words, ids whole, the verdict last."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gputop.answers.check import CheckAnswer, CheckLevel, page
from gputop.checking.measure import ProbeEnd
from gputop.printing.render import texts
from gputop.probes.protocol.status import Status
from gputop.topology.diagnosis.engine import Diagnosis, Silenced
from gputop.topology.model.finding import Candidate, Finding
from gputop.topology.model.page import Fact, Fix
from gputop.topology.model.severity import Severity, Verdict
from gputop.topology.model.snapshot import NodeSnapshot

LONG = "GPU0, GPU1, GPU2 and GPU3 have fewer links than the others of this board by far, really"


def finding(severity: Severity, name: str = "made-up-rule", title: str = LONG) -> Finding:
    return Finding.of(
        id=name,
        severity=severity,
        title=title,
        evidence=(Fact(what="links " * 30, value="16 of 18", source="NVML"),),
        disproof="a look",
        impact="It is slow. " * 20,
        fix=(
            Fix(text="Do it " * 30, command="sudo " + "x" * 100, needs_root=True),
            Fix(text="Or that."),
        ),
    )


def everything() -> Diagnosis:
    return Diagnosis(
        findings=tuple(finding(severity, f"rule-{severity}") for severity in Severity),
        silenced=(Silenced(finding=finding(Severity.SLOW, "silent-rule"), reason="because " * 30),),
        examined=("a", "b"),
        unexamined=("c",),
        verdict=Verdict.BROKEN,
    )


def lines(
    diagnosis: Diagnosis,
    width: int | None,
    *,
    verbose: bool = False,
    measured: Sequence[str] = (),
    source: str = "live",
) -> list[str]:
    runs = tuple(ProbeEnd(name, Status.FINISHED, "", 1) for name in measured)
    node = NodeSnapshot(taken_at=1.0, source=(source,))
    answer = CheckAnswer.of(diagnosis, node, mode=CheckLevel.FULL, measured=runs, verbose=verbose)
    return texts(page(answer).blocks, width)


def test_a_file_gets_one_whole_line_a_finding() -> None:
    verdict, *shown = lines(everything(), None, measured=("p2p", "host", "memory", "gemm"))
    shown = [line for line in shown if not line.startswith("    ")]
    assert len(shown) == len(Severity) + 1
    for severity, line in zip(Severity, shown, strict=False):
        word = severity.replace("-", " ")
        assert line == f"{severity.sign} {word:<11} {LONG} [rule-{severity}]"
    assert "[silent-rule] (because because" in shown[-1]
    assert verdict.startswith("✗ broken: rule-broken, rule-slow")
    assert "2 checks done, 1 skipped" in verdict
    assert verdict.endswith("measured p2p, host, memory, gemm")


@pytest.mark.parametrize("width", [60, 80, 160])
def test_a_terminal_gets_the_same_wrapped(width: int) -> None:
    shown = list(lines(everything(), width))
    assert max(len(line) for line in shown if "sudo" not in line) <= width
    whole = " ".join(" ".join(shown).split())
    for line in lines(everything(), None):
        assert " ".join(line.split()) in whole


def test_a_title_that_fits_stays_whole() -> None:
    shown = list(lines(Diagnosis(findings=(finding(Severity.NOTICE, title="GPU0 sleeps"),)), 80))
    assert shown[1] == "• notice      GPU0 sleeps [made-up-rule]"


def test_many_ids_are_all_named() -> None:
    many = tuple(finding(Severity.SLOW, f"a-rule-with-a-name-{number}") for number in range(30))
    verdict, *_ = lines(Diagnosis(findings=many, verdict=Verdict.SLOW), None)
    assert all(finding.id in verdict for finding in many)


def test_verbose_says_all_of_it_and_leaves_commands_whole() -> None:
    diagnosis = Diagnosis(findings=(finding(Severity.BROKEN),), verdict=Verdict.BROKEN)
    shown = list(lines(diagnosis, 80, verbose=True))
    text = "\n".join(shown)
    assert "16 of 18 (NVML)" in " ".join(text.split())
    assert f"{LONG} [made-up-rule]" in " ".join(text.split())
    assert "Ruled out if: a look" in text
    assert "(needs root)" in " ".join(text.split())
    assert any(line.strip() == "sudo " + "x" * 100 for line in shown)
    assert all(len(line) <= 80 for line in shown if "sudo" not in line)


@pytest.mark.parametrize(("verdict", "sign"), [(verdict, verdict.sign) for verdict in Verdict])
def test_the_verdict_has_its_sign(verdict: Verdict, sign: str) -> None:
    (line,) = lines(Diagnosis(verdict=verdict, examined=("a",)), 80)
    assert line == f"{sign} {verdict}; 1 check done, nothing measured"


def test_control_characters_do_not_pass() -> None:
    shown = "\n".join(
        lines(Diagnosis(findings=(finding(Severity.SLOW, title="\x1b[31m\u202e\n✓ healthy"),)), 80)
    )
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert all(line.startswith("    ") for line in shown.splitlines()[2:])


STEP = (Fix(text="Power it off and on.", command="gputop check"), Fix(text="Then replace it."))


def _told(*findings: Finding, verdict: Verdict, source: str = "live") -> str:
    return "\n".join(lines(Diagnosis(findings=findings, verdict=verdict), 80, source=source))


def test_the_worst_findings_tell_their_cause_and_first_step() -> None:
    found = [
        Finding.of(f"rule-{at}", Severity.BROKEN, f"GPU{at} is gone", fix=STEP, impact=f"Why {at}.")
        for at in range(5)
    ]
    notice = Finding.of("busy", Severity.NOTICE, "GPU7 is busy", fix=STEP, cause="A job runs.")
    told = _told(*found, notice, verdict=Verdict.BROKEN)
    assert told.count("    Fix: Power it off and on.\n         gputop check\n") == 3
    assert [f"Why {at}." in told for at in range(5)] == [True, True, True, False, False]
    assert told.count("Then replace it.") == 1
    assert told.index("Then replace it.") < told.index("GPU1 is gone")
    assert "A job runs." not in told


def test_a_step_that_several_findings_share_is_told_once() -> None:
    found = [Finding.of("rule", Severity.BROKEN, f"GPU{at} is gone", fix=STEP) for at in range(3)]
    assert _told(*found, verdict=Verdict.BROKEN).count("Fix:") == 1


def test_a_possible_cause_is_told_with_what_decides() -> None:
    guess = Candidate(cause="The IOMMU is on.", needs="cat /proc/cmdline", fix=STEP)
    other = Candidate(cause="A riser is bad.", needs="lspci -vvv")
    found = Finding.of("slow", Severity.SLOW, "Copies are slow", candidates=(guess, other, guess))
    told = _told(found, verdict=Verdict.SLOW)
    assert "    Possibly: The IOMMU is on.\n    Decides: cat /proc/cmdline" in told
    assert "    Or: A riser is bad.\n    Decides: lspci -vvv" in told
    assert told.count("IOMMU") == 1
    worse = Finding.of("gone", Severity.BROKEN, "GPU7 is gone", fix=STEP)
    assert "Or: A riser is bad." not in _told(worse, found, verdict=Verdict.BROKEN)


def test_a_text_without_a_fault_tells_what_its_notices_mean() -> None:
    seen = Finding.of("seen", Severity.CANNOT_TELL, "no GPU to examine", impact="Nothing is known.")
    notice = Finding.of("pcie-corrected", Severity.NOTICE, "PCIe sent again", fix=STEP)
    told = _told(seen, notice, verdict=Verdict.CANNOT_TELL, source="dmesg.txt")
    assert "Fix: Power it off and on." in told
    assert "Nothing is known." not in told
    assert "Fix" not in _told(seen, notice, verdict=Verdict.CANNOT_TELL)
    assert "Fix" not in _told(notice, verdict=Verdict.HEALTHY, source="node.json")
