"""Findings as the screen prints them."""

from __future__ import annotations

import msgspec

from gputop.pages.screen import finding_lines
from gputop.topology.model.page import Evidence
from gputop.widgets.spans import text_of
from tests.support.findings_made import finding


def test_what_comes_in_a_row_from_one_source_names_it_once() -> None:
    proof = tuple(
        Evidence(what=f"on GPU{number}", value="busy", source=source)
        for number, source in enumerate(("nvml", "nvml", "proc"))
    )
    made = msgspec.structs.replace(finding("gpu-busy", "notice", "busy"), evidence=proof)
    lines = [text_of(line).strip() for line in finding_lines(made, 80)]
    start = lines.index("• on GPU0: busy")
    assert lines[start : start + 5] == [
        "• on GPU0: busy", "• on GPU1: busy", "nvml", "• on GPU2: busy", "proc"
    ]  # fmt: skip


def test_what_to_do_comes_first_and_commands_are_ink() -> None:
    made = finding("link", "slow", "a link is down", disproof="all is up in `smi -s`, or by design")
    lines = finding_lines(made, 80)
    told = [text_of(line).strip() for line in lines]
    places = [
        next(number for number, text in enumerate(told) if text.startswith(lead))
        for lead in (
            "Fix: mend link",
            "fix --link",
            "• what link read:",
            "Impact:",
            "Ruled out if:",
        )
    ]
    assert places == sorted(places)
    assert told[places[-1]] == "Ruled out if: all is up in smi -s, or by design"
    inks = {text: ink for text, ink in lines[places[-1]] if text.strip()}
    assert inks["smi"] == inks["-s"] == "key"
    assert inks["all"] == inks["design"] == ""
