"""A text that is pasted into the Log screen: the same findings as from a file."""

from __future__ import annotations

import pytest
from textual import events
from textual.widgets import Input

from gputop.app import GpuTop
from gputop.screens import NAMES
from gputop.widgets.typed_line import is_text
from tests.grid import share
from tests.support.app import demo_report, give, press, rounds, settle, text
from tests.support.places import RECORDINGS

from .test_log import finished, show

MIXED = (RECORDINGS / "pasted" / "mixed.txt").read_text()


@pytest.mark.parametrize("opened", [True, False], ids=["into-the-line", "without-a-line"])
async def test_a_pasted_text_is_read_whole(opened: bool) -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        screen = await show(pilot, None)
        if opened:
            await press(pilot, "o")
        where = screen.query_one(Input) if opened else screen
        where.post_message(events.Paste(MIXED))
        await pilot.pause()
        await finished(pilot, screen)
        assert not screen.query(Input)
        head, entries = text(pilot, "#log-head"), text(pilot, "#log-entries")
        assert "pasted text" in head
        assert "lspci (lines 8-87)" in head
        for title in ("ACS sends P2P", "PCIe of GPU1 has x8", "a collective does not do its work"):
            assert title in entries


@pytest.mark.parametrize("name", share(NAMES, 3))
async def test_a_paste_on_any_screen_is_read_on_log(name: str) -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, str(NAMES.index(name) + 1))
        pilot.app.post_message(events.Paste("one line alone"))
        await settle(pilot)
        assert pilot.app.screen.name == name
        pilot.app.post_message(events.Paste(MIXED))
        async for _ in rounds(pilot):
            on_log = pilot.app.screen.name == "log"
            if on_log and "ACS sends P2P" in text(pilot, "#log-entries"):
                break
        assert on_log


async def test_a_pasted_answer_of_ras_is_the_first_finding() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        screen = await show(pilot, None)
        screen.post_message(events.Paste((RECORDINGS / "ras" / "killed.txt").read_text()))
        await pilot.pause()
        await finished(pilot, screen)
        head = text(pilot, "#log-head")
        assert "RAS: 2 ranks, rank 1 (pid 624, GPU0 of 127.0.0.1) does not answer RAS" in head


async def test_pasted_diagnostics_begin_with_what_they_found() -> None:
    lines = (
        "=== RAS Diagnostics ===",
        "[OK]   ECC: no uncorrected volatile errors across 8 ranks in comm 0x1234",
        "RAS diagnostics completed in 12.3 ms across 8 RAS peers",
    )
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        screen = await show(pilot, None)
        screen.post_message(events.Paste("\n".join(f"node042:1 NCCL DIAG {x}" for x in lines)))
        await pilot.pause()
        await finished(pilot, screen)
        head = text(pilot, "#log-head").strip()
        assert head.startswith("✓ NCCL's own diagnostics found no fault: ranks compared: 1 [OK]")


async def test_a_pasted_path_is_typed() -> None:
    async with GpuTop().run_test(size=(100, 30)) as pilot:
        screen = await show(pilot, None)
        await press(pilot, "o")
        screen.query_one(Input).post_message(events.Paste("/var/log/job.log\n"))
        await pilot.pause()
        assert screen.query_one(Input).value == "/var/log/job.log"


def test_one_line_is_no_text() -> None:
    assert not is_text("a\n\n")
    assert is_text("a\nb")
