"""The Findings screen, the signs of findings on the other screens, and what the app does of it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.live.findings import shown
from gputop.messages import PolicyFailed
from gputop.printing.verdicts import counted
from gputop.screens import NAMES
from gputop.screens.findings.screen import FindingsListing, explanation, rows_of
from gputop.screens.listing import ListingRows
from gputop.screens.node.head import verdict_line
from gputop.topology.diagnosis.engine import load
from gputop.topology.hardware.terms import terms_of
from gputop.topology.model.page import Fix
from gputop.topology.model.severity import BROKEN, NOTICE
from gputop.topology.report import Report
from gputop.widgets.spans import text_of
from gputop.widgets.status import news_line, source_line, tabs
from tests.grid import shown_size, turns
from tests.support.app import SIZES, app_of, demo_report, give, picture, press, settle, text
from tests.support.findings_made import AT, diagnosis, events, finding, sick_findings, sick_report

KEY = str(NAMES.index("findings") + 1)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "UTC")
    # What is wrong with the jobs of a demo comes from a thread, and has tests of its own.
    monkeypatch.setattr("gputop.live.jobs_controller.of_demo", lambda _: None)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def fixed(report: Report) -> Report:
    """The same at a fixed moment, for pictures."""
    still = report.follow(replace(report.snapshot, taken_at=AT))
    return Report(still.node, report.diagnosis, events(report, AT))


@pytest.mark.parametrize(
    ("view", "size"), turns(["findings", "node", "map", "pairs"], SIZES), ids=shown_size
)
def test_picture(snap_compare: Any, size: tuple[int, int], view: str) -> None:
    async def draw(pilot: Pilot[Any]) -> None:
        await give(pilot, fixed(sick_report(silenced=view == "findings")))
        await press(pilot, str(NAMES.index(view) + 1))
        if view in ("pairs", "map"):
            await press(pilot, *["down"] * (3 if view == "pairs" else 1))

    assert snap_compare(GpuTop(), terminal_size=size, run_before=draw)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_list_goes_by_harm_and_the_first_is_reported(size: tuple[int, int]) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        await give(pilot, sick_report(silenced=True))
        await press(pilot, KEY)
        lines = text(pilot, "#finding-list").splitlines()[1:]
        words = ["✗", "▼", "?", "○", "–", "–"]
        if size[0] == 80:
            words = ["broken", "slow", "cannot tell", "by design", "silenced", "1 check"]
        assert [word in line for word, line in zip(words, lines, strict=True)] == [True] * 6
        shown = " ".join(text(pilot, "#finding").split())
        parts = ("16 of 18", "nvmlDeviceGetNvLinkState", "Impact:", "Ruled out if:", "Fix:",
                 "nvidia-smi --gpu-reset -i 3", "needs root", "azhpc-diagnostics#73")  # fmt: skip
        assert [part in shown for part in parts] == [True] * len(parts)
        assert "broken" in text(pilot, "#findings-head")
        head = text(pilot, "#findings-head")
        assert "1 by design, 1 silenced" in head
        assert ("2 checks done, 1 skipped" in head) == (size[0] > 80)


async def test_y_copies_the_command_and_w_says_why() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, sick_report())
        await press(pilot, KEY, "y")
        assert pilot.app.clipboard == "nvidia-smi --gpu-reset -i 3"
        await press(pilot, "w")
        assert "y copies the command" in picture(pilot)
        await press(pilot, "down", "y", "escape")
        assert pilot.app.clipboard == "nvidia-smi --gpu-reset -i 3"
        # A finding without a fix is copied whole.
        await press(pilot, "down", "down", "down", "y")
        assert "persistence mode is off" in pilot.app.clipboard
        assert "what would disprove persistence-off" in pilot.app.clipboard
        await press(pilot, "end", "w")
        assert "needs size of BAR1" in " ".join(picture(pilot).split())
        assert app_of(pilot).trouble == ""


async def test_commands_are_copied_one_by_one() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        report = demo_report("hgx-h100-8")
        fixes = (Fix(text="look", command="look -a"), Fix(text="mend", command="mend\nmend -b"))
        bad = finding("x", BROKEN, "it broke", fix=fixes)
        await give(pilot, Report(report.node, diagnosis(bad), ()))
        copied = []
        for key in (KEY, "y", "y", "y", "w", "y", "Y", "escape", "Y"):
            await press(pilot, key)
            copied.append(pilot.app.clipboard)
        assert copied[1:4] == ["look -a", "mend\nmend -b", "look -a"]
        assert copied[5] == "mend\nmend -b"
        assert "\n✗ broken      it broke [x]\n" in copied[8]


async def test_a_finding_is_silenced_and_speaks_again() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        report = sick_report()
        await give(pilot, report)
        assert "GPU3" in text(pilot, "#verdict")
        await press(pilot, KEY, "i")
        assert "1 silenced" in text(pilot, "#findings-head")
        assert "slow" in text(pilot, "#findings-head").splitlines()[1]
        # The cursor stays on the finding, which moved below those that speak.
        table = pilot.app.screen.query_one("#finding-list", ListingRows)
        assert isinstance(table.listing, FindingsListing)
        row = table.listing.found(table.selected)
        assert row is not None
        assert row.silenced == "in this session"
        await press(pilot, "1")
        assert "1 silenced" in text(pilot, "#verdict")
        # Later reports leave it silent; another node does not.
        await give(pilot, report.follow(replace(report.snapshot, taken_at=AT + 9)))
        assert "1 silenced" in text(pilot, "#verdict")
        await press(pilot, KEY, "i")
        assert "silenced" not in text(pilot, "#findings-head")
        assert app_of(pilot).findings.quiet == frozenset()


async def test_what_the_site_silenced_stays_silent_here() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, sick_report(silenced=True))
        await press(pilot, KEY, *["down"] * 4)
        assert "silenced: known here" in text(pilot, "#finding")
        await press(pilot, "i")
        assert app_of(pilot).findings.quiet == frozenset()


async def test_a_policy_that_cannot_be_used_is_reported() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        pilot.app.post_message(PolicyFailed("/etc/gputop/check.toml: [b]not TOML[/b]"))
        await settle(pilot)
        (said,) = pilot.app._notifications
        assert "[b]not TOML[/b]" in said.message


async def test_a_finding_goes_with_its_cause() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        report = sick_report()
        await give(pilot, report)
        await press(pilot, KEY, "down")
        left = sick_findings(report)[1:]
        await give(pilot, Report(report.node, diagnosis(*left), ()))
        assert "NVLinks" not in text(pilot, "#finding-list")
        # The cursor follows its finding, not its line.
        assert "x8 of x16" in text(pilot, "#finding")
        await give(pilot, Report(report.node, diagnosis(), ()))
        assert "nothing found" in text(pilot, "#finding-list")
        assert "healthy" in text(pilot, "#findings-head")
        await press(pilot, "i", "w", "y", "down", "1")
        assert "healthy: nothing wrong," in text(pilot, "#verdict")
        assert app_of(pilot).trouble == ""


async def test_before_the_rules_were_asked_nothing_is_called_healthy() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        assert "checking" in text(pilot, "#verdict")
        await press(pilot, KEY)
        assert "asking the rules" in text(pilot, "#findings-head")
        assert "healthy" not in picture(pilot)
        await press(pilot, "i", "w", "y", "up")
        assert app_of(pilot).trouble == ""


async def test_the_probe_measures_the_gpus_of_the_finding() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        report = sick_report()
        await give(pilot, report)
        await press(pilot, KEY)
        view = app_of(pilot).view
        assert view is not None
        assert view.probe_targets() == ()
        await press(pilot, "down")
        assert view.probe_targets() == tuple(
            gpu.address for gpu in report.snapshot.machine.gpus[1:3]
        )


@pytest.mark.parametrize("view", ["map", "pairs"])
async def test_devices_with_findings_have_signs(view: str) -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        clean_report = demo_report("hgx-h100-8")
        await give(pilot, clean_report)
        await press(pilot, str(NAMES.index(view) + 1), *("m",) * (view == "pairs"))
        before = picture(pilot)
        gpu = clean_report.snapshot.machine.gpus[3].address
        bad = finding("gpu-lost", BROKEN, "GPU3 [b]is lost[/b]", gpu)
        await give(pilot, Report(clean_report.node, diagnosis(bad), ()))
        assert picture(pilot).count("✗") == before.count("✗") + (2 if view == "map" else 3)
        # A notice marks nothing.
        await give(pilot, Report(clean_report.node, diagnosis(replace(bad, severity=NOTICE)), ()))
        assert picture(pilot).count("✗") == before.count("✗")


async def test_a_sign_never_covers_a_name() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        report = demo_report("hgx-h100-8")
        await give(pilot, report)
        await press(pilot, "2")
        before = picture(pilot)
        machine = report.snapshot.machine
        nics = [nic.address for nic in machine.rdma if nic.address]
        devices = [*(gpu.address for gpu in machine.gpus), *nics]
        bad = finding("x", BROKEN, "all of them", *devices)
        await give(pilot, Report(report.node, diagnosis(bad), ()))
        marked = picture(pilot)
        assert marked.count("✗") - before.count("✗") >= len(devices)
        for number in range(8):
            for name in (f"GPU{number}", f"mlx5_{number}"):
                assert marked.count(name) >= before.count(name) == 1 + (name == "GPU0")
        assert marked.count("100%") == before.count("100%")


async def test_the_map_names_the_finding_of_the_selected_device() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        report = demo_report("hgx-h100-8")
        await give(pilot, report)
        await press(pilot, "2", "tab")
        box = pilot.app.screen.query_one("#wiring").box  # type: ignore[attr-defined]
        bad = finding("gpu-lost", BROKEN, "it [b]is lost[/b]", box.members[0])
        await give(pilot, Report(report.node, diagnosis(bad), ()))
        assert "✗ it [b]is lost[/b]" in text(pilot, "#chosen")


async def test_news_stands_in_the_status_for_a_while() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        report = fixed(sick_report())
        await give(pilot, report)
        assert "GPU3, links 4 and 7: +12 NVLink replays" in text(pilot, "#status")
        later = report.follow(replace(report.snapshot, taken_at=AT + 60))
        await give(pilot, later)
        assert text(pilot, "#status").strip() == ""
        await give(pilot, report)
        await press(pilot, KEY)
        assert text(pilot, "#status").strip() == ""
        shown = " ".join(text(pilot, "#events").split())
        assert "22:13:15 ▼ GPU3, links 4 and 7: +12 NVLink replays (first 22:03:15)" in shown
        assert "GPU1: throttled: hw thermal" in shown
        assert "mlx5_0: port 1 not active, 2 times, over" in shown


def test_news_of_a_clock_that_went_back_is_none() -> None:
    happened = events(demo_report("hgx-h100-8"), AT)
    assert news_line(happened, AT, 6)
    assert news_line(happened, AT - 3600, 6) == ()
    assert news_line((), AT, 6) == ()


def test_hostile_words_stay_words() -> None:
    report = demo_report("hgx-h100-8")
    bad = finding("x", BROKEN, "a\x1b[31m\nb", "dev\x00")
    found = shown(Report(report.node, diagnosis(bad), ()))
    assert found is not None
    for width in (20, 80, 200):
        line, _ = verdict_line(found, report.snapshot.machine, width)
        assert text_of(line).isprintable()


def test_each_rule_has_an_explanation() -> None:
    for rule in load():
        made = rule.finding(BROKEN, "it is so", evidence=(), impact="c")
        why = explanation(made, terms_of(()))
        assert terms_of(()).fill(rule.title) in why.facts[0].value
        assert why.commands == made.commands == ()


def test_equal_findings_have_rows_of_their_own() -> None:
    report = demo_report("hgx-h100-8")
    one = finding("x", BROKEN, "same")
    found = shown(Report(report.node, diagnosis(one, one), ()))
    assert found is not None
    assert len({row.name for row in rows_of(found)}) == 2
    assert counted(found.findings) == "2 broken"


@pytest.mark.parametrize("width", [80, 110, 160])
def test_tabs_leave_room_for_where_the_figures_come_from(width: int) -> None:
    for names in (NAMES[:8], NAMES):
        line = text_of(tabs(names, names[0], width))
        said = text_of(source_line(demo_report("hgx-h100-8").snapshot, width - len(line)))
        assert "invented" in said
        assert len(line) + len(said) <= width
        for number, name in enumerate(names, start=1):
            assert f"{number} {name.capitalize()[:4]}" in line
