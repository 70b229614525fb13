"""The answer over the map and the table of its links."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gputop.screens.map.links import links
from gputop.screens.map.measured import MeasuredLines
from gputop.screens.map.narrowest import head_lines, table
from gputop.topology.model.snapshot import Measurement
from gputop.topology.node import Node
from gputop.topology.report import Report
from gputop.widgets.spans import text_of
from tests.support.app import demo_report

ANSWERS = {
    "sick-h100-8": (
        " ▼ GPU3: PCIe x8 of x16 (31.5 of 63 GB/s), 16 of 18 NVLinks (400 of 450 GB/s)",
        "   8 GPUs on NVSwitch: 400 to 450 GB/s each",
    ),
    "sick-mi300x-8": (
        " ▼ slow  no xGMI between GPU2 and GPU5",
        "   8 GPUs: xGMI joins 27 of 28 pairs, 64 GB/s per pair",
    ),
    "dgx-1v": (
        " 8 GPUs: NVLink joins 16 of 28 pairs, 25 to 50 GB/s per pair",
        "   all 32 links are as wide as both ends support",
    ),
    "pcie-l40s-8": (
        " 8 GPUs joined by PCIe alone, 31.5 GB/s each",
        "   all 16 links are as wide as both ends support",
    ),
}


@pytest.mark.parametrize("demo", ANSWERS)
def test_two_lines_say_what_joins_the_gpus_and_what_is_narrow(demo: str) -> None:
    report = demo_report(demo)
    assert tuple(map(text_of, head_lines(report, links(report), 79))) == ANSWERS[demo]


def rows(report: Report, width: int = 118, count: int = 9) -> list[list[str]]:
    lines = table(report, links(report), MeasuredLines(report, None), width, count)
    return [text_of(line).split("  ") for line in lines]


def test_the_sickest_links_lead_the_table() -> None:
    found = [
        [cell.strip() for cell in row if cell.strip()] for row in rows(demo_report("sick-h100-8"))
    ]
    assert found[1][:4] == ["▼ GPU3 – PCIe", "PCIe gen5 x8 of x16", "63", "31.5"]
    assert found[2][:4] == ["▼ GPU3 – NVSwitch", "16 of 18 NVLinks", "450", "400"]
    assert found[3][0] == "8 NICs – PCIe"


def test_measured_figures_stand_beside_the_links() -> None:
    report = demo_report("sick-h100-8")
    gpus = [gpu.address for gpu in report.snapshot.machine.gpus]
    figures = tuple(
        Measurement(
            probe="p2p", quantity="write_bandwidth", src=gpus[3], dst=dst, value=value, unit="GB/s"
        )
        for dst, value in ((gpus[0], 338.2), (gpus[1], 345.0))
    )
    measured = Report(Node(replace(report.snapshot, measurements=figures)))
    assert any("338–345" in row for row in map(" ".join, rows(measured)))


def test_without_room_there_is_no_table() -> None:
    report = demo_report("sick-h100-8")
    assert rows(report, count=1) == []
    assert len(rows(report, count=2)) == 2
