"""The Node screen: what stands in the table, on odd nodes too."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.widgets import Input

from gputop.app import GpuTop
from gputop.screens.node.cells import job
from gputop.screens.node.gpu_lines import fitting, matching, rows_of, table
from gputop.screens.node.table import GpuTable
from gputop.terminal.preferences import Preferences
from gputop.topology.model.machine import NvLink, PciDevice, PciKind
from gputop.topology.model.part import PartialNode
from gputop.topology.model.readings import GpuProcess, GpuUse
from gputop.topology.model.record import Gap
from gputop.topology.model.snapshot import Problem, ProblemKind
from gputop.topology.model.surroundings import Host, Socket
from gputop.topology.node import Node
from gputop.topology.report import Report
from gputop.topology.sources.collect import merge
from gputop.widgets.board import Board
from gputop.widgets.gpu_cells import Row, held_by, links, pcie
from gputop.widgets.spans import text_of, width_of
from tests.support.app import (
    app_of,
    demo_report,
    give,
    gpu,
    picture,
    press,
    reading,
    report_of,
    rounds,
    snapshot_of,
    text,
)

HOSTILE = "\x1b]0;owned\x07[red]GPU[/red] \u202etxet\x9b31m\nline"


def row(**fields: object) -> Row:
    one = gpu(0)
    return Row(one, reading(one, **fields), {})


def selected(pilot_app: GpuTop) -> str | None:
    return pilot_app.screen.query_one("#gpus", GpuTable).selected


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160, 240])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    rows = rows_of(demo_report("sick-h100-8").snapshot)
    assert {width_of(line) <= width for line in table(rows, width)} == {True}
    titles = [column.title for column in fitting(rows, width)]
    assert {"GPU", "Util %", "Mem GiB"} <= set(titles)


@pytest.mark.parametrize(
    ("reasons", "shown", "ink"),
    [
        (("gpu idle",), "idle", "muted"),
        (("sw power cap",), "power cap", "muted"),
        (("sw power cap", "hw thermal"), "!hw thermal +1", "bad"),
        (("sw thermal",), "sw thermal", "warn"),
        ((), "nothing", "muted"),
        (None, "–", "muted"),
    ],
)
def test_reasons_that_hold_clocks(reasons: tuple[str, ...] | None, shown: str, ink: str) -> None:
    ((text_shown, text_ink),) = held_by(row(throttle_reasons=reasons), 16)
    assert (text_shown.strip(), text_ink) == (shown, ink)


def test_low_generation_is_plain_and_missing_lanes_are_marked() -> None:
    ((asleep, plain),) = pcie(row(pcie_gen=1), 10)
    ((narrow, alarm),) = pcie(row(pcie_width=8), 10)
    assert (asleep.strip(), plain) == ("gen1/5 x16", "")
    assert (narrow.strip(), alarm) == ("x8 of 16 !", "bad")


def test_inactive_links_are_marked_only_where_a_sibling_has_more() -> None:
    some = tuple(NvLink(link=number, active=number < 4) for number in range(6))
    alone = rows_of(snapshot_of((gpu(0, nvlinks=some), gpu(1, nvlinks=some))))
    beside = rows_of(snapshot_of((gpu(0, nvlinks=some), gpu(1))))
    assert text_of(links(alone[0], 6)).strip() == "4/6"
    assert text_of(links(beside[0], 6)).strip() == "4/6!"


def test_links_that_are_down_by_design_are_not_marked() -> None:
    down = tuple(NvLink(link=number, active=False) for number in range(6))
    bridged = tuple(
        NvLink(link=number, active=True, remote_kind="gpu", remote_address="0000:99:00.0")
        for number in range(6)
    )
    unbridged = rows_of(snapshot_of((gpu(0, nvlinks=down), gpu(1, nvlinks=bridged))))
    mig = rows_of(snapshot_of((gpu(0, nvlinks=down, mig_enabled=True), gpu(1))))
    assert text_of(links(unbridged[0], 6)).strip() == "0/6"
    assert text_of(links(mig[0], 6)).strip() == "0/6"
    one = gpu(0, c2c_enabled=True)
    assert "!" not in text_of(pcie(Row(one, reading(one, pcie_width=1), {}), 12))


def test_processes_unknown_none_and_many() -> None:
    many = (
        GpuProcess(pid=1, kind=GpuUse.COMPUTE, memory_bytes=5),
        GpuProcess(pid=22, kind=GpuUse.COMPUTE, memory_bytes=9),
    )
    assert text_of(job(row(processes=None), 20)).strip() == "–"
    assert text_of(job(row(processes=()), 20)).strip() == "not seen"
    assert text_of(job(row(processes=many), 20)).strip() == "pid 22 +1"


def test_a_gpu_without_a_process_and_without_load_is_free() -> None:
    assert text_of(job(row(processes=(), utilization_percent=0.0), 20)).strip() == "free"


def test_filter_takes_every_word() -> None:
    rows = rows_of(demo_report("hgx-h100-8").snapshot)
    assert [found.gpu.index for found in matching(rows, "h100 2a:00")] == [1]
    assert matching(rows, "no such thing") == ()


async def test_lost_gpu_stays_with_the_word() -> None:
    gpus = (gpu(0), gpu(1))
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, report_of(gpus))
        await press(pilot, "down")
        lost = (reading(gpus[0]), reading(gpus[1], lost=True, utilization_percent=None))
        await give(pilot, report_of(gpus, lost))
        line = next(line for line in text(pilot, "#gpus").splitlines() if "11:00.0" in line)
        assert "LOST" in line
        await give(pilot, report_of(gpus[:1]))
        assert "11:00.0" not in text(pilot, "#gpus")
        assert selected(app_of(pilot)) == gpus[0].address
        assert app_of(pilot).trouble == ""


async def test_cursor_follows_the_gpu_and_not_the_line() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, report_of((gpu(0), gpu(1), gpu(2))))
        await press(pilot, "end")
        assert selected(app_of(pilot)) == gpu(2).address
        await give(pilot, report_of((gpu(1), gpu(2))))
        assert selected(app_of(pilot)) == gpu(2).address


async def test_an_order_by_utilisation_is_that_of_the_last_minute() -> None:
    gpus = (gpu(0), gpu(1), gpu(2))
    busy = ((90, 98, 50), (91, 97, 50), (100, 10, 50))
    remembered = Preferences()
    remembered.keep("sort", "utilisation")
    async with GpuTop(remembered=remembered).run_test(size=(80, 24)) as pilot:
        for second, values in enumerate(busy):
            readings = tuple(
                reading(one, utilization_percent=value)
                for one, value in zip(gpus, values, strict=True)
            )
            report = report_of(gpus, readings)
            taken = replace(report.snapshot, taken_at=1000.0 + second)
            await give(pilot, report.follow(taken))
        table = app_of(pilot).screen.query_one(GpuTable)
        assert selected(app_of(pilot)) == gpus[0].address, "not the first line of that order"
        await press(pilot, *"s" * 6)
        heads = [line.strip(" ›")[:1] for line in text(pilot, "#gpus").splitlines()]
        assert "by utilisation, 60 s mean" in str(table.border_title)
        means = [sum(each) / len(each) for each in zip(*busy, strict=True)]
        assert means[0] > means[1] > means[2]
        assert [head for head in heads if head.isdigit()] == ["0", "1", "2"]


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_hostile_names_are_plain_text(size: tuple[int, int]) -> None:
    one = gpu(0, name=HOSTILE, vbios=HOSTILE)
    host = Host(hostname=HOSTILE, sockets=(Socket(socket=0),), cpu_model_name=HOSTILE)
    problem = Problem(source=HOSTILE, text=HOSTILE)
    async with GpuTop().run_test(size=size) as pilot:
        await give(pilot, report_of((one, gpu(1)), host=host, problems=(problem,)))
        assert app_of(pilot).trouble == ""
        drawn = picture(pilot)
        assert "[red]GPU[/red]" in drawn
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(drawn)
        await press(pilot, "w")
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(picture(pilot))
        await press(pilot, "y", "escape", "y")
        assert "\x1b" not in pilot.app.clipboard


async def test_filter_line_opens_filters_and_goes() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "ampersand", *"3b:00")
        assert "mlx5_2" in text(pilot, "#gpus")
        assert "mlx5_1" not in text(pilot, "#gpus")
        await press(pilot, "enter", "y")
        assert "0000:3b:00.0" in pilot.app.clipboard
        await press(pilot, "ampersand", *"zzz")
        assert "no GPU matches" in text(pilot, "#gpus")
        await press(pilot, "escape")
        assert not pilot.app.screen.query(Input)
        assert "mlx5_1" in text(pilot, "#gpus")


async def test_no_gpu_says_why_and_offers_demos() -> None:
    host = Host(hostname="bare", sockets=(Socket(socket=0, cores=4, threads=8),))
    problem = Problem(source="nvml", text="libnvidia-ml.so.1 is not there", kind=ProblemKind.ABSENT)
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, report_of((), host=host, problems=(problem,)))
        assert app_of(pilot).trouble == ""
        assert "No GPU is seen" in picture(pilot)
        assert "4 cores" in picture(pilot)
        await press(pilot, "d")
        assert "hgx-h100-8" in picture(pilot)
        await press(pilot, "enter")
        async for _ in rounds(pilot):
            if "invented figures" in picture(pilot):
                break
        assert "invented figures" in picture(pilot)


async def test_a_gpu_without_a_driver_is_shown_with_the_cause() -> None:
    device = PciDevice(
        address="0000:3b:00.0",
        parent="pci0000:3a",
        kind=PciKind.GPU,
        class_code=0x030200,
        vendor_id=0x10DE,
        device_id=0x2330,
        gaps=(Gap("driver", "no driver is bound"),),
    )
    problem = Problem(source="nvml", text="libnvidia-ml.so.1 is not found", kind=ProblemKind.ABSENT)
    part = PartialNode(host=Host(hostname="bare"), pci=(device,), problems=(problem,))
    snapshot = merge([part], taken_at=0.0, source=("live",), gputop="test")
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, Report(Node(snapshot)))
        assert "3b:00.0" in text(pilot, "#gpus")
        assert "driver" in text(pilot, "#problems")
        assert "demo node" in text(pilot, "#problems")
        await press(pilot, "d")
        assert "hgx-h100-8" in picture(pilot)


async def test_demos_are_not_offered_beside_real_gpus() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, report_of((gpu(0),)))
        await press(pilot, "d")
        assert len(pilot.app.screen_stack) == 1


@pytest.mark.usefixtures("every_picture")
async def test_only_lines_that_changed_are_drawn_again() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        gpus = tuple(gpu(number) for number in range(8))
        await give(pilot, report_of(gpus))
        board = pilot.app.screen.query_one("#gpus", GpuTable)
        drawn: list[int] = []
        original = board._draw
        board._draw = lambda line: (drawn.append(1), original(line))[1]  # type: ignore[func-returns-value,method-assign]
        changed = (reading(gpus[0], power_watts=321.0), *(reading(gpu) for gpu in gpus[1:]))
        await give(pilot, report_of(gpus, changed))
        assert len(drawn) == 1


async def test_the_matrix_scrolls_by_whole_columns_to_its_end_and_back() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        links = pilot.app.screen.query_one("#links", Board)
        seen = []
        for key in ("right",) * 12 + ("left",) * 12:
            await press(pilot, key)
            seen.append(links.scroll_offset.x)
            row = next(line for line in picture(pilot).splitlines() if line.startswith("›GPU0"))
            assert row[5] == " "
            assert row[6:10].strip() in {"X", "NV18", "PIX", "NODE", "SYS", "0"}
        assert max(seen) == links.max_scroll_x
        assert max(seen) % 5 == 0
        assert seen[-1] == 0


async def test_the_scroll_bar_cuts_no_column_of_the_table() -> None:
    many = report_of(tuple(gpu(number) for number in range(16)))
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, many)
        await give(pilot, many)
        table = pilot.app.screen.query_one(GpuTable)
        assert table.show_vertical_scrollbar
        assert max(map(width_of, table.lines)) <= table.scrollable_content_region.width
