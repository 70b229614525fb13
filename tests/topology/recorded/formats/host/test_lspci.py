"""What people paste of lspci, with the facts that a person reads off it."""

from __future__ import annotations

from pathlib import Path

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.diagnosis.rules.pcie.acs import ACS_RULE
from gputop.topology.diagnosis.rules.pcie.link import WIDTH
from gputop.topology.model.machine import Machine, PciDevice
from gputop.topology.model.severity import NOTICE
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "pasted"
ON = ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")


def machine(name: str) -> Machine:
    return load([str(FOLDER / name)]).snapshot.machine


def device(found: Machine, address: str) -> PciDevice:
    known = found.pci_device(address)
    assert known is not None
    return known


def written(tmp_path: Path, text: str) -> Machine:
    path = tmp_path / "paste.txt"
    path.write_text(text)
    return load([str(path)]).snapshot.machine


def test_blocks_with_their_tree_links_and_acs() -> None:
    found = machine("p100-plx-vvv.txt")
    assert [(d.address[5:], d.parent[5:], d.kind) for d in found.pci] == [
        ("00:00.0", "00:00", "other"),
        ("00:02.0", "00:00", "root port"),
        ("02:00.0", "00:02.0", "switch upstream"),
        ("03:08.0", "02:00.0", "switch downstream"),
        ("03:10.0", "02:00.0", "switch downstream"),
        ("04:00.0", "03:08.0", "gpu"),
        ("05:00.0", "03:10.0", "gpu"),
    ]
    slot = device(found, "0000:03:10.0")
    assert (slot.acs, slot.link_width_now, slot.link_width_max) == (ON, 8, 16)
    gpu = device(found, "0000:05:00.0")
    assert (gpu.link_speed_max_gts, gpu.driver, gpu.numa_node) == (8.0, "nvidia", 0)
    assert (gpu.bars, gpu.iommu_group) == ((16 << 30,), "32")
    assert gpu.device_name == "GP100GL [Tesla P100 PCIe 16GB]"
    assert (gpu.vendor_id, gpu.vendor_name) == (0x10DE, "NVIDIA Corporation")
    assert [g.name for g in found.gpus] == ["GP100GL [Tesla P100 PCIe 16GB]"] * 2


def test_acs_and_narrow_links_of_a_paste_are_found() -> None:
    node = Node(load([str(FOLDER / "p100-plx-vvv.txt")]).snapshot).decide()
    (acs,) = ACS_RULE.answer(Case(node)) or ()
    assert acs.devices == ("0000:04:00.0", "0000:05:00.0")
    assert acs.severity == "slow"
    (narrow,) = WIDTH.answer(Case(node)) or ()
    assert narrow.title.endswith("has x8 instead of x16")


def test_acs_of_a_guest_gives_no_finding(tmp_path: Path) -> None:
    text = (FOLDER / "p100-plx-vvv.txt").read_text()
    guest = text + "\n06:00.0 Ethernet controller: Red Hat, Inc. Virtio network device\n"
    path = tmp_path / "guest.txt"
    path.write_text(guest)
    assert not ACS_RULE.answer(Case(Node(load([str(path)]).snapshot).decide()))


def test_acs_that_only_checks_the_source_gives_no_finding(tmp_path: Path) -> None:
    text = (FOLDER / "p100-plx-vvv.txt").read_text()
    path = tmp_path / "off.txt"
    for control in ("ReqRedir", "CmpltRedir"):
        text = text.replace(f"{control}+", f"{control}-")
    path.write_text(text)
    assert ACS_RULE.answer(Case(Node(load([str(path)]).snapshot).decide())) == ()


def test_a_tree_says_who_shares_a_switch() -> None:
    found = machine("a100-switch-tree.txt")
    assert [g.address for g in found.gpus] == [f"0000:{bus}:00.0" for bus in ("43", "45", "52")]
    assert device(found, "0000:46:00.1").parent == "0000:42:0c.0"
    assert device(found, "0000:42:0c.0").parent == "0000:41:00.0"
    assert device(found, "0000:41:00.0").kind == "switch upstream"
    assert device(found, "0000:40:01.0").parent == "pci0000:40"
    assert device(found, "0000:44:00.0").kind == "nic"
    assert device(found, "0000:00:1f.0").parent == "pci0000:00"


def test_a_plain_list_names_devices_and_no_places() -> None:
    found = machine("h100-4-lspci.md")
    assert [g.address[5:7] for g in found.gpus] == ["06", "26", "a6", "c6"]
    assert {device(found, g.address).parent for g in found.gpus} == {""}
    nic = device(found, "0000:a3:00.0")
    assert (nic.kind, nic.numa_node, nic.link_width_now, nic.driver) == ("nic", 1, 16, "mlx5_core")
    cells = Node(load([str(FOLDER / "h100-4-lspci.md")]).snapshot).matrix
    assert {cell.code for row in cells.rows for cell in row.cells} == {"X", "?"}


def test_numbers_of_nn() -> None:
    found = machine("h100-8-lspci-nn.txt")
    gpu = device(found, "0000:18:00.0")
    assert (gpu.vendor_id, gpu.device_id, gpu.class_code) == (0x10DE, 0x2330, 0x030200)
    assert found.gpus[0].pci_id == "10de:2330"
    assert device(found, "0000:05:00.0").kind == "nvswitch"


def test_links_below_bare_addresses() -> None:
    found = machine("mi50-4-links.txt")
    assert [(d.address[5:], d.link_width_now, d.link_width_max) for d in found.pci] == [
        ("31:00.0", 8, 16),
        ("34:00.0", 8, 16),
    ]


def test_controls_without_addresses_are_counted() -> None:
    found = machine("acs-grep.txt")
    assert [one.acs for one in found.unnamed_acs] == [ON, ON, ("SrcValid",)]
    assert not found.pci


def test_what_controls_without_addresses_mean_depends_on_the_place(tmp_path: Path) -> None:
    file = tmp_path / "acs.txt"
    for line, said in (("SrcValid+ ReqRedir+", True), ("SrcValid+ ReqRedir-", False)):
        file.write_text(f"\t\tACSCtl:\t{line}\n" * 2)
        snapshot = load([str(file)]).snapshot
        diagnosis = diagnose(Case(Node(snapshot)))
        assert diagnosis.verdict == "cannot tell"
        found = [one for one in diagnosis.findings if one.id == "acs-redirect"]
        assert [(one.severity, "2 of 2" in one.title) for one in found] == [(NOTICE, True)] * said


def test_capabilities_that_root_alone_sees(tmp_path: Path) -> None:
    text = "03:08.0 PCI bridge: PLX Technology, Inc. PEX 8747\n\tCapabilities: <access denied>\n"
    found = written(tmp_path, text)
    assert found.pci[0].acs is None


def test_numbers_and_addresses_of_two_texts_are_joined(tmp_path: Path) -> None:
    topo = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nGPU1\tPIX\t X \t0-7\n"
    path = tmp_path / "paste.txt"
    path.write_text(f"{topo}\n{(FOLDER / 'p100-plx-vvv.txt').read_text()}")
    node = load([str(path)]).snapshot
    assert [(g.address[5:], g.index, g.cpu_affinity) for g in node.machine.gpus] == [
        ("04:00.0", 0, "0-7"),
        ("05:00.0", 1, "0-7"),
    ]
    assert "in their order" in node.assumptions[0]
    other = tmp_path / "one.txt"
    other.write_text(f"{topo}\n04:00.0 3D controller: NVIDIA Corporation GA100 [A100]\n")
    assert len(load([str(other)]).snapshot.machine.gpus) == 3  # nobody knows which of the two
