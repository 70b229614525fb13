"""The table of drives: distances, links by the slower end, and drives that only a text shows."""

from __future__ import annotations

import msgspec
import pytest
from click.testing import CliRunner

import gputop
from gputop.commands.topo import command
from gputop.topology.model.machine import Machine
from gputop.topology.model.surroundings import Drive
from gputop.topology.wiring.drives import drive_table
from tests.support.snapshots import demo_node

LSPCI = """\
00:01.0 PCI bridge [0604]: Intel Corporation Device [8086:352a]
\tBus: primary=00, secondary=01, subordinate=05, sec-latency=0
\tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00
01:00.0 PCI bridge [0604]: Broadcom / LSI PEX890xx [1000:c030]
\tBus: primary=01, secondary=02, subordinate=05, sec-latency=0
\tCapabilities: [40] Express (v2) Upstream Port, MSI 00
02:00.0 PCI bridge [0604]: Broadcom / LSI PEX890xx [1000:c030]
\tBus: primary=02, secondary=03, subordinate=03, sec-latency=0
\tCapabilities: [40] Express (v2) Downstream Port (Slot+), MSI 00
02:01.0 PCI bridge [0604]: Broadcom / LSI PEX890xx [1000:c030]
\tBus: primary=02, secondary=04, subordinate=04, sec-latency=0
\tCapabilities: [40] Express (v2) Downstream Port (Slot+), MSI 00
03:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
04:00.0 Non-Volatile memory controller [0108]: KIOXIA NVMe SSD CM7 [1e0f:0013] (prog-if 02)
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x4, ASPM not supported
\t\tLnkSta:\tSpeed 32GT/s, Width x4
"""


@pytest.mark.parametrize(
    ("demo", "drives", "link"),
    [("hgx-h100-8", 8, "4"), ("mi300x-8", 8, "4"), ("hgx-a100-8", 1, "4"), ("mi250x-8", 1, "3")],
)
def test_the_drives_of_demos(demo: str, drives: int, link: str) -> None:
    table = drive_table(demo_node(demo).machine)
    assert [row.name for row in table.rows] == [f"nvme{number}" for number in range(drives)]
    if drives == 8:
        assert [row.cells[at] for at, row in enumerate(table.rows)] == ["PIX"] * drives
    assert {row.link for row in table.rows} == {f"PCIe gen{link} x4"}


def test_a_drive_is_as_fast_as_the_slower_end_of_its_link() -> None:
    machine = demo_node("hgx-h100-8").machine
    (first, *_) = drive_table(machine).rows
    above = next(one.parent for one in machine.pci if one.address == first.address)
    slow = tuple(
        msgspec.structs.replace(one, link_speed_max_gts=8.0) if one.address == above else one
        for one in machine.pci
    )
    (slower, *_) = drive_table(msgspec.structs.replace(machine, pci=slow)).rows
    assert (slower.link, slower.payload_gbs) == ("PCIe gen3 x4", 3.938)


def test_a_text_of_the_bus_shows_drives_without_the_names_of_the_kernel() -> None:
    node = gputop.load(LSPCI).node
    (row,) = drive_table(node.machine).rows
    assert (row.name, row.cells) == ("NVMe 0000:04:00.0", ("PIX",))
    assert row.link == "PCIe gen5 x4"
    assert "CM7" in (row.model or "")


def test_a_drive_behind_a_network_has_no_distance() -> None:
    far = Drive(name="nvme9", transport="rdma", model="x\x1b[2Jy")
    machine = msgspec.structs.replace(demo_node("dgx-1v").machine, drives=(far,))
    (row,) = drive_table(machine).rows
    assert (row.address, row.cells, row.payload_gbs) == (None, (), None)


def test_without_a_drive_there_is_no_table() -> None:
    assert drive_table(Machine()).rows == ()
    shown = CliRunner().invoke(command, ["--demo", "dgx-1v"]).stdout
    assert "Drive" not in shown


def test_topo_shows_them_below_the_matrix() -> None:
    lines = CliRunner().invoke(command, ["--demo", "hgx-h100-8"]).stdout.splitlines()
    assert "nvme3\tNODE\tNODE\tNODE\tPIX\tSYS\tSYS\tSYS\tSYS\t0" in lines
    legend = "  nvme3: SAMSUNG MZWLR3T8HBLS-00007, 3.5 TiB, PCIe gen4 x4, 7.88 GB/s"
    assert legend in lines
