"""NCCL's own diagnostics as lines of a page."""

from __future__ import annotations

from io import BytesIO

from gputop.live.log_reading import read_stream
from gputop.pages.log.own_diagnostics import MOST_SHOWN, own_diagnostics_lines, verdict_lines
from gputop.pages.log.sections import plain_text
from gputop.topology.diagnosis.symptoms.log import examine
from gputop.topology.logs.report.own_diagnostics import OwnCheck, OwnDiagnostics
from gputop.widgets.spans import text_of


def shown(*checks: OwnCheck, ended: int = 1) -> list[str]:
    report = OwnDiagnostics(
        report="ranks", host="n\x1b1", pid=7, line=1, begun=1, ended=ended, checks=checks
    )
    return [text_of(line).rstrip() for line in own_diagnostics_lines([report], 78)]


def check(tag: str, text: str, **more: int) -> OwnCheck:
    return OwnCheck(tag=tag, about="ECC", text=text, line=2, **more)


def test_what_asks_to_be_looked_at_comes_first() -> None:
    head, first, second = shown(check("OK", "fine"), check("INFO", "2 errors", count=3))
    assert head == "! ranks compared: 1 [OK], 1 [INFO] (n\ufffd1:7)"
    assert first == "  [INFO] ECC: 2 errors (3 times)"
    assert second == "  [OK]   ECC: fine"


def test_an_end_that_is_missing_is_no_pass() -> None:
    head, _ = shown(check("OK", "fine"), ended=0)
    assert head.startswith("· ranks compared: 1 [OK], and the end of the report is missing")


def test_long_reports_are_cut() -> None:
    lines = shown(*(check("OK", f"rank {n}") for n in range(MOST_SHOWN + 3)))
    assert lines[-1] == "  and 3 lines more"


def printed(*texts: str) -> list[str]:
    """The page of a log that holds these lines alone."""
    title, end = (
        "=== RAS Diagnostics ===",
        "RAS diagnostics completed in 12.3 ms across 8 RAS peers",
    )
    lines = [f"node042:12345 NCCL DIAG {text}\n".encode() for text in (title, *texts, end)]
    read = examine(read_stream(BytesIO(b"".join(lines)), "diag.txt"), None)
    return plain_text(read, 120).splitlines()


FINE = "[OK]   ECC: no uncorrected volatile errors across 8 ranks in comm 0x1234"
ODD = "[INFO] NCCL environment: mismatch across 8 ranks in comm 0x1234 for NCCL_DEBUG"


def test_a_log_of_diagnostics_alone_begins_with_what_they_found() -> None:
    title, first, second, *rest = printed(FINE)
    assert (title, first) == (
        "Log",
        "  ✓ NCCL's own diagnostics found no fault: ranks compared: 1 [OK] (node042:12345, 12 ms "
        "across 8 RAS peers)",
    )
    assert second.strip() == "NCCL 2.31 or later, as it prints diagnostics · 3 lines, 1 host"
    page = "\n".join(rest)
    assert "no rule finds a fault in these diagnostics" in page
    assert "none shown" not in page
    assert "nothing in the table of symptoms" not in page


def test_what_they_ask_to_look_at_comes_first_and_is_a_finding() -> None:
    _, first, *rest = printed(FINE, ODD)
    assert first.startswith(
        "  ! NCCL's own diagnostics ask to look: ranks compared: 1 [OK], 1 [INFO]"
    )
    assert any("ranks are not alike" in line for line in rest)


def test_several_reports_are_told_the_worst_first() -> None:
    reports = [
        OwnDiagnostics(
            report="ranks",
            host=f"n{number}",
            pid=7,
            line=number,
            begun=1,
            ended=1,
            checks=(check("INFO" if number == 5 else "OK", "text"),),
        )
        for number in range(1, 7)
    ]
    first, *others = [text_of(line) for line in verdict_lines(reports, 120)]
    assert first.startswith("! NCCL's own diagnostics ask to look")
    assert "(n5:7)" in first
    assert others[-1] == "  and 2 more reports, 0 of them with [INFO]"
    assert verdict_lines([], 120) == ()
