"""The screen Cost: the fields, the rows, the panel, the roofline, and the line that it copies."""

from __future__ import annotations

import json
import shlex
import threading
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from gputop.__main__ import run
from gputop.answers.cost import CostRequest, answer
from gputop.answers.cost_records import CostAnswer, CostLayout
from gputop.app import GpuTop
from gputop.screens import NAMES
from gputop.screens.cost import screen as cost_screen
from gputop.screens.cost.fields import FIELDS, CostFields, flagged
from gputop.screens.cost.roof import Roof, roof_lines, roof_of
from gputop.screens.cost.rows import CostListing, bar, step_lines
from gputop.screens.cost.screen import CostScreen
from gputop.screens.map.diagram import WiringDiagram
from gputop.topology.cost.serving import Serving
from gputop.topology.model.errors import GputopError
from gputop.widgets.panels import WhyPanel
from gputop.widgets.spans import text_of, width_of
from tests.grid import shown_size, turns
from tests.support.app import SIZES, app_of, demo_report, give, press, quiet, rounds, settle, text

KEY = str(NAMES.index("cost") + 1)
DEMOS = ("hgx-h100-8", "pcie-l40s-8", "mi300x-8", "gb200-nvl72-tray")
Captured = pytest.CaptureFixture[str]


async def show(pilot: Pilot[Any], demo: str, *keys: str) -> CostScreen:
    """The screen for a demo, after some keys, each with its answer."""
    await give(pilot, demo_report(demo))
    for key in (KEY, *keys):
        await press(pilot, key)
        await quiet(pilot)
    screen = pilot.app.screen
    assert isinstance(screen, CostScreen)
    return screen


def found_by(screen: CostScreen) -> CostAnswer:
    assert screen._found is not None
    return screen._found


SHOWN: dict[str, tuple[str, ...]] = {"training": (), "serving": ("v", "tab", "v")}


@pytest.mark.parametrize(
    ("demo", "what", "size"), turns(DEMOS, tuple(SHOWN), SIZES), ids=shown_size
)
def test_picture(snap_compare: Any, demo: str, what: str, size: tuple[int, int]) -> None:
    async def draw(pilot: Pilot[Any]) -> None:
        await show(pilot, demo, *SHOWN[what])

    assert snap_compare(GpuTop(), terminal_size=size, run_before=draw)


@pytest.mark.parametrize("demo", DEMOS)
async def test_it_says_what_the_command_says(demo: str) -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        screen = await show(pilot, demo)
        wanted = answer(CostRequest(names=("Llama 3 8B",), demo=demo))
        assert found_by(screen) == wanted
        shown = text(pilot, "#cost-rows")
        assert [one.ways for one in wanted.layouts] == list(screen.rows.listing.names)  # type: ignore[union-attr]
        assert all(one.ways in shown for one in wanted.layouts)
        assert f"{wanted.layouts[0].tokens_per_s:,.0f} tokens/s" in text(pilot, "#cost-head")


@pytest.mark.parametrize(
    ("keys", "what_if"),
    [
        ((), {}),
        (("v", "tab", "v"), {}),
        (("v", "v", "tab", "tab", "v", "v", "tab", "v", "tab", "v", "tab", "v", "tab", "v"), {}),
        ((), {"NCCL_P2P_DISABLE": "1", "NCCL": "2.30.7"}),
    ],
)
async def test_the_copied_line_gives_the_same(
    keys: tuple[str, ...], what_if: dict[str, str], capsys: Captured
) -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        screen = await show(pilot, "pcie-l40s-8", *keys)
        for name, value in what_if.items():
            app_of(pilot).what_if.change(name, value)
        async for _ in rounds(pilot):
            if (screen._current and app_of(pilot).what_if.summary) or not what_if:
                break
        await quiet(pilot)
        line, found = screen.selected_text(), found_by(screen)
    program, *words = shlex.split(line)
    assert program == "gputop"
    capsys.readouterr()
    assert run([*words, "--json"]) in (0, 1)
    document = json.loads(capsys.readouterr().out)
    wanted = json.loads(cost_json(found))
    for part in ("layouts", "serving", "rooflines", "sequence", "gpus"):
        assert document[part] == wanted[part]


def cost_json(found: CostAnswer) -> str:
    from gputop.topology.model.characters import json_text

    return json_text(found.document())


async def test_a_what_if_changes_what_is_ranked() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        screen = await show(pilot, "hgx-h100-8")
        before = {one.ways: one.step_s for one in found_by(screen).layouts}
        app_of(pilot).what_if.change("NCCL_P2P_DISABLE", "1")
        async for _ in rounds(pilot):
            if any("NCCL_P2P_DISABLE" in note for note in found_by(screen).notes):
                break
        after = {one.ways: one.step_s for one in found_by(screen).layouts}
        assert (after["tp=8"] or 0) > 3 * (before["tp=8"] or 0)


async def test_fields_take_what_is_typed_and_refuse_the_rest(tmp_path: Path) -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        screen = await show(pilot, "hgx-h100-8", "tab", "tab", "e")
        line = screen.query_one(Input)
        line.value = "0"
        await press(pilot, "enter")
        said = [note.message for note in pilot.app._notifications]
        assert any("nodes like this one are a number from 1 to 1,024" in one for one in said)
        assert screen.fields.request.nodes == 1
        await press(pilot, "e")
        screen.query_one(Input).value = "16"
        await press(pilot, "enter")
        await quiet(pilot)
        assert found_by(screen).gpus == 128
        file = tmp_path / "config.json"
        file.write_text('{"model_type": "mamba"}', encoding="utf-8")
        await press(pilot, "o")
        screen.query_one(Input).value = str(file)
        await press(pilot, "enter")
        await quiet(pilot)
        assert "known are llama" in text(pilot, "#cost-head")
        assert screen.rows.listing.names == ()  # type: ignore[union-attr]
        assert screen.why() is None
        await press(pilot, "v")
        await quiet(pilot)
        assert found_by(screen).model == "Llama 3 8B"


async def test_a_model_is_chosen_from_a_list_and_a_click_takes_the_next_value() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        screen = await show(pilot, "mi300x-8", "e", "end", "enter")
        assert found_by(screen).model == "DeepSeek V3"
        line = text_of(screen.query_one("#cost-fields").lines[0])  # type: ignore[attr-defined]
        assert "[DeepSeek V3]" in line
        await pilot.click("#cost-fields", offset=(line.index("training"), 0))
        await settle(pilot)
        assert screen.fields.selected == "serve"
        await pilot.click("#cost-fields", offset=(line.index("training"), 0))
        await quiet(pilot)
        assert found_by(screen).serving
        assert screen.selected_name == "tp=8"


async def test_a_long_question_holds_up_nothing_and_the_newest_one_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go, asked, real = threading.Event(), list[str](), cost_screen._answer

    def slow(request: CostRequest) -> tuple[CostAnswer | None, str]:
        asked.append(request.names[0])
        assert go.wait(60)
        return real(request)

    monkeypatch.setattr(cost_screen, "_answer", slow)
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, KEY, "v", "v", "v", "tab", "1", KEY)
        screen = pilot.app.screen
        assert isinstance(screen, CostScreen)
        assert "working out the layouts of Mixtral 8x7B" in text(pilot, "#cost-head")
        go.set()
        async for _ in rounds(pilot):
            if screen._found is not None and screen._current:
                break
        assert found_by(screen).model == "Mixtral 8x7B"
        assert asked == ["Llama 3 8B", "Mixtral 8x7B"]


async def test_why_has_communication_and_sources() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        screen = await show(pilot, "hgx-h100-8", "down")
        await press(pilot, "w")
        panel = pilot.app.screen
        assert isinstance(panel, WhyPanel)
        said = panel.query_one("#text").text()  # type: ignore[attr-defined]
        assert found_by(screen).layouts[1].why in " ".join(said.split())
        assert "tensor: all-reduce" in said
        assert "Source:" in said


def test_each_field_is_an_option_of_the_command() -> None:
    for field in FIELDS:
        assert flagged(field.name).flag


@pytest.mark.parametrize(
    ("selected", "typed"),
    [
        ("nodes", "1e3"),
        ("nodes", "٣"),
        ("nodes", "9" * 5000),
        ("sequence", "-4"),
        ("micro", "\x1b"),
    ],
)
def test_what_is_no_number_in_range_is_refused(selected: str, typed: str) -> None:
    fields = CostFields()
    fields.selected = selected
    before = fields.request
    with pytest.raises(GputopError, match="a number from 1 to"):
        fields.typed(typed)
    assert fields.request == before


@pytest.mark.parametrize("width", [79, 119, 159])
def test_all_fields_stand_on_one_line(width: int) -> None:
    fields = CostFields()
    fields.set("Qwen 3 235B-A22B")
    for name in ("nodes", "sequence", "micro", "accumulation"):
        fields.selected = name
        fields.set(1024)
        assert width_of(fields.line(width)) <= width
    assert text_of(fields.line(width)).count("[") == 1


def test_a_path_that_no_line_can_hold_is_not_copied() -> None:
    fields = CostFields()
    fields.set("/tmp/`reboot`/config.json")
    assert fields.command(demo_report("hgx-h100-8").snapshot, {}) == ""
    fields.set("/tmp/my models/config.json")
    line = fields.command(demo_report("hgx-h100-8").snapshot, {})
    assert shlex.split(line)[:3] == ["gputop", "cost", "/tmp/my models/config.json"]


@pytest.mark.parametrize("serve", [False, True])
@pytest.mark.parametrize("demo", DEMOS)
def test_nothing_stands_above_its_roof(demo: str, serve: bool) -> None:
    found = answer(CostRequest(names=("Llama 3 8B",), demo=demo, serve=serve))
    rows: list[CostLayout | Serving] = [*found.layouts, *found.serving]
    roofs = [roof_of(found, one) for one in rows]
    known = [roof for roof in roofs if roof is not None]
    assert known
    for roof in known:
        top, bend = roof.here
        at, reached = roof.reached
        assert reached <= 1.001 * min(top, top * at / bend)


@pytest.mark.parametrize("plain", [False, True])
def test_a_roofline_fits_its_room_and_shows_what_is_reached(plain: bool) -> None:
    roof = Roof("tokens", (720.0, 1650.0), (989.0, 1100.0), (16384.0, 595.0))
    for width, height in ((40, 12), (60, 20), (120, 30)):
        lines = roof_lines(roof, width, height, plain=plain)
        assert len(lines) <= height
        assert all(width_of(line) <= width for line in lines)
        drawn = "\n".join(map(text_of, lines))
        assert ("o" if plain else "●") in drawn
        assert plain == drawn.isascii()
    assert roof_lines(roof, 20, 20, plain=plain) == ()
    assert roof_lines(roof, 60, 4, plain=plain) == ()


def test_a_bar_is_as_long_as_its_share() -> None:
    assert bar(1.0, 10) == "━" * 10
    assert bar(0.25, 10) == "━━╸"
    assert bar(0.001, 10) == "╸"
    assert bar(0.0, 10) == ""
    assert bar(7.0, 10) == "━" * 10


@pytest.mark.parametrize("width", [56, 60, 78, 100, 118, 158])
def test_what_does_not_fit_and_how_fast_it_is_stands_in_every_room(width: int) -> None:
    for words in ({"nodes": 16, "names": ("DeepSeek V3",)}, {"names": ("Llama 3 70B",)}):
        for serve in (False, True):
            found = answer(CostRequest(demo="gb200-nvl72-tray", serve=serve, **words))
            listing = CostListing(found, room=width, beside=False, plain=False)
            head = text_of(listing.head(width))
            assert "tokens/s" in head
            assert serve or "GB" in head
            lines = [text_of(listing.row(name, width)) for name in listing.names]
            assert all(len(line) <= width for line in (head, *lines))
            fit = {one.ways: one.fits for one in found.layouts}
            for name, line in zip(listing.names, lines, strict=True):
                assert serve or ("too large" in line) == (fit[name] is False)


@pytest.mark.parametrize("selected", [field.name for field in FIELDS])
@pytest.mark.parametrize("width", [40, 59, 79])
def test_the_selected_field_is_in_sight(selected: str, width: int) -> None:
    fields = CostFields()
    for name, value in (("dtype", "bf16-fp32-grads"), ("sequence", 131072), ("micro", 1024)):
        fields.selected = name
        fields.set(value)
    fields.selected = selected
    line = text_of(fields.line(width))
    assert len(line) <= width
    assert "[" in line
    assert "]" in line


async def test_the_map_shows_where_the_selected_layout_is_bound() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        screen = await show(pilot, "dgx-1v")
        listing = screen.rows.listing
        assert isinstance(listing, CostListing)
        await press(pilot, "down", "down")
        item = listing.item(screen.selected_name)
        assert isinstance(item, CostLayout)
        assert item.edge is not None
        await press(pilot, "2")
        assert app_of(pilot).screen.query_one(WiringDiagram).pair == item.edge.ends


def test_communication_that_overlaps_is_told_in_a_sentence_that_fits() -> None:
    found = answer(CostRequest(names=("Llama 3 8B",), demo="pcie-l40s-8"))
    one = next(
        item
        for item in found.layouts
        if any(part.seconds > part.exposed_s for part in item.communication)
    )
    said = [text_of(line) for line in step_lines(found, one, 76)]
    assert any(line.rstrip().endswith("overlaps with computation") for line in said)
    assert one.why.startswith("Matrix products and attention take ")
