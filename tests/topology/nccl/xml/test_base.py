"""A topology file as the base of a detected topology; and machines that no machine could be."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.topology.model.machine import PciDevice
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import Host
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.xml.base import Base, base_topology
from gputop.topology.nccl.xml.detect import detect
from gputop.topology.nccl.xml.read import read_topology
from gputop.topology.nccl.xml.write import write_topology
from tests.topology.nccl.xml.made import adapter, found, gpu, gpu_links, machine, nets, pci_of, pcis

BASE = """<system version="1">
  <cpu host_hash="0x7" numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD" familyid="143"
       modelid="49">
    <pci busid="ffff:ff:01.0" class="0x060400">
      <pci busid="0000:01:00.0" class="0x030000" link_speed="2.5 GT/s PCIe" link_width="1">
        <gpu dev="3"><nvlink target="0000:02:00.0" count="4"/></gpu>
      </pci>
      <pci busid="0000:55:00.0" class="0x030200"><gpu dev="7" rank="7"/></pci>
      <pci busid="0000:02:00.0" class="0x020000">
        <nic><net name="eth0" speed="100000" dev="9"/></nic>
      </pci>
    </pci>
    <pci busid="0000:77:00.0" class="0x060400"/>
  </cpu>
</system>"""


def test_a_topology_file_is_the_base_that_detection_fills() -> None:
    base = read_topology(BASE.encode(), "base.xml")
    detected = detect(machine(), Settings({}), base)
    element = detected.element
    # What belongs to no GPU or NIC of this machine is gone, the hash of another host too.
    assert dict(pcis(element)) == {
        "ffff:ff:01.0": "cpu 0",
        "0000:01:00.0": "ffff:ff:01.0",
        "0000:02:00.0": "ffff:ff:01.0",
        "0000:02:00.1": "cpu 0",
    }
    (cpu,) = element.each("cpu")
    assert (cpu.get("host_hash"), cpu.get("vendor"), cpu.get("affinity")) == (
        None, "AuthenticAMD", "ff",
    )  # fmt: skip
    one = pci_of(detected, "0000:01:00.0")
    # The file's wrong speed wins over the hardware; the class does not.
    assert (one.get("link_speed"), one.get("link_width")) == ("2.5 GT/s PCIe", "1")
    assert one.get("class") == "0x030200"
    (its,) = one.each("gpu")
    assert (its.get("dev"), its.get("sm"), its.get("rank")) == ("3", "89", "0")
    assert [(x.get("count"), x.get("tclass")) for x in its.children] == [("4", "0x020000")]
    assert pci_of(detected, "ffff:ff:01.0").get("link_speed") == ""
    first, second = nets(element)
    assert (first["name"], first["speed"], first["dev"]) == ("eth0", "100000", "0")
    assert (second["name"], second["dev"]) == ("eth1", "1")


def live(**variables: str) -> tuple[NodeSnapshot, Settings]:
    return NodeSnapshot(taken_at=0.0, machine=machine()), Settings(variables)


def test_the_base_is_read_on_a_live_node_alone(tmp_path: Path) -> None:
    path, none = tmp_path / "base.xml", str(tmp_path / "none.xml")
    path.write_text(BASE)
    named = base_topology(*live(NCCL_TOPO_FILE=str(path)), default=none)
    assert named.element == read_topology(BASE.encode(), "base.xml")
    assert base_topology(*live(), default=str(path)).element == named.element
    assert base_topology(*live(), default=none) == Base()
    snapshot, given_ = live(NCCL_TOPO_FILE=str(path))
    elsewhere = msgspec.structs.replace(snapshot, source=("node.json",))
    assert base_topology(elsewhere, given_).element is None
    assert "another machine" in (base_topology(elsewhere, given_).remark or "")


@pytest.mark.parametrize("content", [None, "<system", "<graphs/>", '<system version="7"/>'])
def test_a_base_that_cannot_be_used_is_reported(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "base.xml"
    if content is not None:
        path.write_text(content)
    found = base_topology(*live(NCCL_TOPO_FILE=str(path)))
    assert found.element is None
    assert str(path) in (found.remark or "")


ADDRESSES = ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:04:00.1", "odd <&>")


@settings(deadline=None)
@given(
    parents=st.lists(st.sampled_from((*ADDRESSES, "pci0000:00")), min_size=5, max_size=5),
    widths=st.lists(st.sampled_from([None, 0, 16, -3, 10**12]), min_size=5, max_size=5),
    family=st.sampled_from([None, 6, 25, -1, 2**40]),
    guid=st.sampled_from([None, "", "zz", "ff" * 40, "3868:dd03:01bc:1cf0"]),
    vendor=st.sampled_from(["nvidia", "amd", "other"]),
    capability=st.sampled_from([None, "9.0", "x.y", "99999.9", "gfx942", "<&"]),
)
def test_any_machine_gives_a_topology(
    parents: list[str],
    widths: list[int | None],
    family: int | None,
    guid: str | None,
    vendor: str,
    capability: str | None,
) -> None:
    """Rings of bridges, wild numbers and markup in names, as a made-up snapshot may hold them."""
    wild = machine(
        host=Host(cpu_vendor='<"&>', cpu_family=family, cpu_model=family, architecture="x86_64"),
        gpus=tuple(
            gpu(address, vendor=vendor, compute_capability=capability, name="<b>", index=-1)
            for address in ADDRESSES[:2]
        ),
        pci=tuple(
            PciDevice(address=address, parent=parent, link_width_max=width, numa_node=width)
            for address, parent, width in zip(ADDRESSES, parents, widths, strict=True)
        ),
        rdma=(adapter('mlx"5', ADDRESSES[2], guid=guid), adapter("mlx6", "x", guid=guid)),
    )
    detected = found(wild)
    assert len(gpu_links(detected.element)) == (0 if vendor == "other" else 2)
    ElementTree.fromstring(write_topology(detected.element))
