"""Screens of pages: the answer above, a row for each thing, the selected one beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from gputop.actions import others
from gputop.app import GpuTop
from gputop.reading import load_files
from gputop.screens.node.strip import strip_line
from gputop.screens.question import PageListing
from gputop.topology.model.characters import json_text
from gputop.topology.model.page import (
    Bullets,
    Column,
    Entries,
    Heading,
    Page,
    PageEntry,
    Role,
    Table,
    Text,
)
from gputop.topology.model.severity import BROKEN
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.report import Report
from gputop.widgets.spans import text_of, width_of
from tests.support.app import SIZES, app_of, demo_report, give, press, quiet, rounds, text

DMESG = """\
[Fri Nov 27 18:00:41 2026] mlx5_core 0000:18:00.0 ibp24s0: Link down
[Sat Nov 28 01:12:23 2026] NVRM: Xid (PCI:0000:3b:00): 74, pid='<unknown>', name=<unknown>, \
NVLink: fatal error detected on link 4(0x10000, 0x0)
[Sat Nov 28 13:12:23 2026] NVRM: Xid (PCI:0000:4c:00): 79, pid='<unknown>', name=<unknown>, \
GPU has fallen off the bus.
"""
TOPO = "\tGPU0\tGPU1\nGPU0\t X \tNV12\nGPU1\tNV12\t X \n"


def told(tmp_path: Path) -> Report:
    """A node whose log was pasted beside it."""
    (tmp_path / "dmesg.txt").write_text(DMESG)
    (tmp_path / "node.json").write_text(json_text(DemoFeed("hgx-h100-8").at(3)))
    names = tuple(str(tmp_path / name) for name in ("node.json", "dmesg.txt"))
    return Report(Node(load_files(names).snapshot).decide())


def test_a_page_is_an_answer_and_rows() -> None:
    entry = PageEntry(
        line=Text.marked(BROKEN, (" GPU3: gone", Role.BAD)),
        more=(Text("the line itself"),),
        devices=("0000:4c:00.0",),
    )
    page = Page(
        title="x",
        blocks=(
            Text("Two things."),
            Heading("Things", note="the last 2"),
            Entries((PageEntry(line=Text("older")), entry), rising=True),
            Heading("Not read"),
            Bullets(("the moon",)),
            Table((Column("a"),), (("cell",),)),
        ),
    )
    listing = PageListing(page, "Things")
    assert [block.text for block in listing.lead if isinstance(block, Text)] == ["Two things."]
    assert listing.caption() == "Things the last 2"
    shown = [text_of(listing.row(name, 40)).strip() for name in listing.names]
    assert shown == ["✗ GPU3: gone", "older", "Not read", "cell"]
    gone, _, heading, _ = listing.names
    assert "the line itself" in "\n".join(map(text_of, listing.detail(gone, 60, 9)))
    assert "the moon" in "\n".join(map(text_of, listing.detail(heading, 60, 9)))
    assert listing.devices(gone) == ("0000:4c:00.0",)
    assert "the line itself" in listing.copied(gone)[0]


@pytest.mark.parametrize("size", SIZES)
async def test_events_are_rows_with_their_line_and_what_to_do(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        await give(pilot, told(tmp_path))
        assert "GPU3: the GPU" in text(pilot, "#strip")
        await press(pilot, "H")
        await _until(pilot, "#listing-rows", "GPU3: ")
        assert text(pilot, "#page-head").strip().startswith("✗ 3 events")
        rows = text(pilot, "#listing-rows").splitlines()
        assert [row.split(":")[2].split()[1] for row in rows[1:]] == ["GPU3", "GPU2,", "mlx5_0"]
        assert "GPU has fallen off the bus" in " ".join(text(pilot, "#listing-detail").split())
        copied: list[str] = []
        app_of(pilot).copy_text = lambda text, note="": copied.append(text)  # type: ignore[method-assign]
        await press(pilot, "y", "w")
        assert "Xid 79" in copied[0]
        assert len(pilot.app.screen_stack) == 2


async def test_a_node_without_events_has_no_strip() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        assert not pilot.app.screen.query_one("#strip").display


@pytest.mark.parametrize("width", [60, 80, 120, 160])
def test_the_strip_fits_and_has_the_sign_of_what_happened(tmp_path: Path, width: int) -> None:
    line, end = strip_line(told(tmp_path), width)
    assert width_of(line) + width_of(end) <= width
    assert text_of(line).startswith(" ✗ 13:12 GPU3: ")
    if end:
        assert text_of(end).count("✗") == 2
        assert "•" in text_of(end)
        assert "13:12" in text_of(end)


async def test_two_nodes_side_by_side() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, demo_report("sick-h100-8"))
        await press(pilot, "D", *"hgx-h100-8", "enter")
        await _until(pilot, "#page-head", "Worse: 2 NVLinks of GPU3 are down")
        rows = text(pilot, "#listing-rows").splitlines()
        assert "demo hgx-h100-8" in rows[1]
        assert "demo sick-h100-8" in rows[1]
        links = next(row for row in rows if "NVLinks up of GPU3" in row)
        assert links.split()[-2:] == ["18", "16"]
        pilot.app.screen.post_message(Paste(TOPO))
        await _until(pilot, "#page-head", "pasted text")
        assert app_of(pilot).current_mode == "diff"


async def test_what_cannot_be_read_is_said_on_the_screen() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await give(pilot, demo_report("dgx-1v"))
        await press(pilot, "D", *"nosuch", "enter")
        await _until(pilot, "#page-head", "? ")
        assert "nosuch" in text(pilot, "#page-head")
        assert app_of(pilot).trouble == ""


def test_what_is_offered_goes_with_what_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.json").touch()
    assert [name for name, _ in others(["old.json"], "old")] == ["old.json", "old"]
    assert [name for name, _ in others(["old.json"], "1v")] == ["dgx-1v", "1v"]
    assert next(name for name, _ in others([], "old.json")) == "old.json"


async def _until(pilot: Pilot[Any], where: str, words: str) -> None:
    async for _ in rounds(pilot):
        await quiet(pilot)
        if pilot.app.screen.query(where) and words in text(pilot, where):
            return
    raise AssertionError(text(pilot, where))
