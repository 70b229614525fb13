"""Reading the PCI tree again and again."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.model.snapshot import ProblemKind
from gputop.topology.model.source import SourceAbsent
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.pci import pci

parse = pci.SOURCE.parse
GPU = {"class": "0x030200", "vendor": "0x10de", "device": "0x2330"}


def machine(root: Path, addresses: list[str]) -> None:
    links = root / "sys/bus/pci/devices"
    links.mkdir(parents=True, exist_ok=True)
    for address in addresses:
        folder = root / f"sys/devices/pci0000:00/{address}"
        folder.mkdir(parents=True)
        for name, text in {
            **GPU,
            "max_link_speed": "32.0 GT/s PCIe",
            "current_link_speed": "2.5 GT/s PCIe",
            "current_link_width": "16",
        }.items():
            (folder / name).write_text(text + "\n")
        (links / address).symlink_to(f"../../../devices/pci0000:00/{address}")


def test_the_reader_follows_what_moves(tmp_path: Path) -> None:
    machine(tmp_path, ["0000:00:01.0"])
    reader = pci.PciReader(FolderTree(tmp_path))
    assert [reading.link_speed_gts for reading in parse(reader()).pci_readings] == [2.5]
    device = tmp_path / "sys/devices/pci0000:00/0000:00:01.0"
    (device / "current_link_speed").write_text("32.0 GT/s PCIe\n")
    machine(tmp_path, ["0000:00:02.0"])
    part = parse(reader())
    assert [reading.link_speed_gts for reading in part.pci_readings] == [32.0, 2.5]
    (tmp_path / "sys/bus/pci/devices/0000:00:02.0").unlink()
    assert [device.address for device in parse(reader()).pci] == ["0000:00:01.0"]


def test_a_sleeping_device_is_not_woken(tmp_path: Path) -> None:
    machine(tmp_path, ["0000:00:01.0"])
    power = tmp_path / "sys/devices/pci0000:00/0000:00:01.0/power"
    power.mkdir()
    (power / "runtime_status").write_text("suspended\n")
    part = parse(pci.read(FolderTree(tmp_path)))
    assert part.pci_readings[0].why("link_speed_gts") == pci.ASLEEP
    assert part.pci[0].why("link_width_now") == pci.ASLEEP


def test_no_bus_is_absence(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsent, match="no PCI device"):
        pci.read(FolderTree(tmp_path))


def test_devices_beyond_the_limit_are_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(tmp_path, [f"0000:00:0{number}.0" for number in range(1, 5)])
    whole = parse(pci.read(FolderTree(tmp_path)))
    assert (len(whole.pci), whole.problems) == (4, ())
    monkeypatch.setattr(pci, "LIMIT_DEVICES", 3)
    part = parse(pci.read(FolderTree(tmp_path)))
    assert len(part.pci) == 3
    (problem,) = part.problems
    assert problem.kind is ProblemKind.CUT
    assert problem.text == "PCI devices: 1 of 4 were not read: gputop reads 3 at most"
