"""NCCL's own diagnostics as lines of a page."""

from __future__ import annotations

from gputop.pages.log.own_diagnostics import MOST_SHOWN, own_diagnostics_lines
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
