"""The app as a person uses it: keys, panels, sizes, themes, odd nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from textual.screen import Screen

from gputop.app import GpuTop
from gputop.messages import RefreshFailed, SuiteChanged
from gputop.screens import NAMES
from gputop.screens.node.table import GpuTable
from gputop.screens.view import View
from gputop.topology.model.snapshot import Problem, ProblemKind, SourceState
from gputop.widgets.pair_matrix import PairMatrix
from gputop.widgets.panels import HelpPanel, WhyPanel
from tests.grid import share
from tests.support.app import (
    StepFeed,
    app_of,
    demo_report,
    give,
    gpu,
    picture,
    press,
    quiet,
    reading,
    report_of,
    rounds,
    settle,
    snapshot_of,
    text,
)
from tests.support.runs import run_of, suite_of


@pytest.mark.parametrize("size", share([((80, 24),), ((160, 50),)], 2))
async def test_number_keys_walk_the_screens(size: tuple[int, int]) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        for number, name in [*enumerate(NAMES, start=1), (1, NAMES[0])]:
            await press(pilot, str(number))
            assert app_of(pilot).current_mode == name
            assert app_of(pilot).trouble == ""
            assert name.capitalize() in picture(pilot).splitlines()[0]


async def test_a_hidden_screen_catches_up_when_it_is_shown() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, report_of((gpu(0), gpu(1))))
        await press(pilot, "3")
        node = app_of(pilot).get_screen_stack("node")[0]
        drawn = node.query_one("#gpus", GpuTable).lines
        await give(pilot, report_of((gpu(0), gpu(1)), (reading(gpu(0), power_watts=678.0),)))
        assert node.query_one("#gpus", GpuTable).lines is drawn
        await press(pilot, "1")
        assert "678" in text(pilot, "#gpus")


async def test_the_mouse_picks_screens_keys_and_gpus() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        lines = picture(pilot).splitlines()
        row = next(y for y, line in enumerate(lines) if "python3 r2" in line)
        await pilot.click(offset=(20, row))
        await settle(pilot)
        assert "›  2 ━" in picture(pilot)
        await pilot.click(offset=(lines[-1].index("keys"), 23))
        await settle(pilot)
        assert isinstance(pilot.app.screen, HelpPanel)
        await press(pilot, "escape")
        await pilot.click(offset=(lines[0].index("Pair"), 0))
        await settle(pilot)
        assert app_of(pilot).current_mode == "pairs"
        before = pilot.app.screen.query_one(PairMatrix).pair
        await pilot.click(offset=(45, 14))
        await settle(pilot)
        assert pilot.app.screen.query_one(PairMatrix).pair != before


async def test_help_names_keys_and_closes() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "question_mark")
        assert isinstance(pilot.app.screen, HelpPanel)
        assert "filter" in text(pilot, "#text")
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, View)


@pytest.mark.parametrize("key", ["w", "enter"])
async def test_why_explains_and_copies_the_fix(key: str) -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("sick-h100-8"))
        await press(pilot, "down", "down", "down", key)
        panel = pilot.app.screen
        assert isinstance(panel, WhyPanel)
        assert "8 of 16 lanes" in text(pilot, "#text")
        await press(pilot, "y")
        assert panel.explanation.fix
        assert pilot.app.clipboard == panel.explanation.fix_text
        await press(pilot, "w")
        assert isinstance(pilot.app.screen, View)


async def test_number_keys_do_nothing_under_a_panel_but_escape_returns() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "w", "3")
        assert isinstance(pilot.app.screen, WhyPanel)
        await press(pilot, "escape", "3")
        assert app_of(pilot).current_mode == "pairs"


async def test_copy_gives_the_selected_gpu_as_text() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "down", "y")
        assert "0000:2a:00.0" in pilot.app.clipboard
        assert "\x1b" not in pilot.app.clipboard


async def test_export_writes_a_picture_and_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "x")
    (picture_file,) = tmp_path.glob("gputop-*.svg")
    (snapshot_file,) = tmp_path.glob("gputop-*.json")
    assert picture_file.read_text().startswith("<svg")
    assert json.loads(snapshot_file.read_text())["schema"] == "gputop.snapshot/1"


async def test_export_into_a_folder_that_is_gone_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "cwd", lambda: tmp_path / "gone")
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "x")
        assert any("cannot export" in note.message for note in app_of(pilot)._notifications)


async def test_palette_finds_screens_and_measures() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "3")
        screen: Screen[Any] = pilot.app.screen
        titles = [command.title for command in app_of(pilot).get_system_commands(screen)]
        assert {"Node", "Pairs", "Why", "Theme", "Quit", "Probe all pairs"} <= set(titles)
        assert "Measure: Driver grant" in titles
        await press(pilot, "ctrl+p")
        await press(pilot, *"grant")
        async for _ in rounds(pilot):
            found = picture(pilot)
            if "Measure: Driver grant" in found and "Probe all pairs" not in found:
                break
        await press(pilot, "enter")
        assert "r read, w write" in text(pilot, "#measure")


async def test_small_terminal_says_so_and_looks_as_before_afterwards() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        for name in NAMES:
            app_of(pilot).action_screen(name)
            await quiet(pilot)
            before = picture(pilot)
            await pilot.resize_terminal(80, 24)
            await pilot.resize_terminal(40, 10)
            await give(pilot, demo_report("hgx-h100-8"))
            assert "too small" in picture(pilot).replace("\n", "")
            await pilot.resize_terminal(1, 1)
            await settle(pilot)
            await pilot.resize_terminal(160, 50)
            await quiet(pilot)
            assert "too small" not in picture(pilot)
            # A thread works for the others.
            if name in ("node", "map", "pairs", "probes"):
                assert picture(pilot) == before
            assert app_of(pilot).trouble == ""


async def test_a_mistake_of_ours_is_a_line_and_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))

        def broken(*_: object, **__: object) -> None:
            raise RuntimeError("made to fail")

        with monkeypatch.context() as patch:
            patch.setattr("gputop.screens.node.screen.rows_of", broken)
            await give(pilot, demo_report("hgx-h100-8", tick=8))
            assert "made to fail" in text(pilot, "#status")
        await give(pilot, demo_report("hgx-h100-8", tick=9))
        assert text(pilot, "#status").strip() == ""


async def test_an_explanation_that_fails_is_a_note_and_not_a_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("made to fail")

    monkeypatch.setattr("gputop.topology.explain.why.why_device", broken)
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "w")
        assert isinstance(pilot.app.screen, View)
        assert any("made to fail" in note.message for note in app_of(pilot)._notifications)


async def test_a_report_that_could_not_be_made_is_reported() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        pilot.app.post_message(RefreshFailed("KeyError: 'x'"))
        await settle(pilot)
        assert "KeyError" in text(pilot, "#status")


async def test_source_that_is_late_shows_its_age() -> None:
    states = (
        SourceState(source="nvml", waiting_seconds=3.0, age_seconds=5.0),
        SourceState(source="nvml_readings", age_seconds=5.0),
    )
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, report_of((gpu(0),), states=states))
        assert "nvml not answering for 3.0 s" in text(pilot, "#status")
        assert "figures are 5.0 s old" in picture(pilot)


async def test_problems_are_listed() -> None:
    problems = (
        Problem(
            source="pci", text="[b]no permission[/b] for config space", kind=ProblemKind.DENIED
        ),
    )
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, report_of((gpu(0),), problems=problems))
        assert "[b]no permission[/b]" in picture(pilot)


async def test_live_feed_through_the_refresh_thread() -> None:
    feed = StepFeed(snapshot_of((gpu(0), gpu(1))))
    async with GpuTop(feed, 0.05).run_test(size=(160, 50)) as pilot:
        async for _ in rounds(pilot):
            if "Test GPU" in text(pilot, "#gpus"):
                break
        assert "Test GPU" in text(pilot, "#gpus")
        feed.put(snapshot_of((gpu(0),)))
        async for _ in rounds(pilot):
            if "11:00.0" not in text(pilot, "#gpus"):
                break
        assert "11:00.0" not in text(pilot, "#gpus")
        await press(pilot, "q")
    assert feed.closed


async def test_a_long_reason_of_a_probe_is_reported_in_full_beside_the_line() -> None:
    reason = "GPU0 is in use by process 4242; " * 4 + "Nothing was measured."
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("dgx-1v"))
        refused = suite_of(run_of("p2p", "refused", reason), forcible=True)
        pilot.app.post_message(SuiteChanged(refused))
        await settle(pilot)
        line = next(line for line in picture(pilot).splitlines() if "p2p refused" in line)
        assert "P forces it" in line
        assert "…" in line
        assert [note.message for note in pilot.app._notifications] == [reason]


@pytest.mark.parametrize(
    ("place", "keys"),
    [
        ("gputop.screens.map.diagram.way", ("2", "space", "right")),
        ("gputop.widgets.panels.render", ("1", "w")),
    ],
)
async def test_our_own_mistake_behind_a_key_is_a_line_and_no_end(
    monkeypatch: pytest.MonkeyPatch, place: str, keys: tuple[str, ...]
) -> None:
    def fail(*given: object) -> None:
        raise ZeroDivisionError("ours")

    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        monkeypatch.setattr(place, fail)
        await press(pilot, *keys)
        await give(pilot, demo_report("hgx-h100-8", 9))
        assert "cannot show this: ZeroDivisionError: ours" in picture(pilot)
        monkeypatch.undo()
        await press(pilot, "escape", "1")
        await give(pilot, demo_report("hgx-h100-8", 10))
        assert not app_of(pilot).trouble
