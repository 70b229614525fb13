"""Topology files of clouds, which name GPUs by their PCI class alone and leave the rest to NCCL."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.measuring.selection import select
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.hardware.specs import sku_for, skus
from gputop.topology.model.machine import Gpu
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.node import Node
from gputop.topology.recorded.load import load

SWITCH = (
    '<pci busid="ffff:ff:0{0}.0" class="0x060400" link_speed="16 GT/s" link_width="16">'
    '<pci busid="000{0}:00:00.0" class="0x030200"{1} link_speed="16 GT/s" link_width="16"/>'
    '<pci busid="001{0}:00:00.0" class="0x030200"{1} link_speed="16 GT/s" link_width="16"/>'
    '<pci busid="010{0}:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/></pci>'
)
A100 = ' vendor="0x10de" device="0x20b2" subsystem_vendor="0x10de" subsystem_device="0x1463"'


def snapshot(folder: Path, gpu: str = "") -> NodeSnapshot:
    cpus = "".join(
        f'<cpu numaid="{node}" affinity="f" arch="x86_64" vendor="AuthenticAMD" familyid="23" '
        f'modelid="49">{SWITCH.format(node + 1, gpu)}</cpu>'
        for node in range(2)
    )
    file = folder / "topo.xml"
    file.write_text(f'<system version="1">{cpus}</system>')
    return load([str(file)]).snapshot


@pytest.mark.parametrize("gpu", ["", A100], ids=["class alone", "with its id"])
def test_the_gpus_are_seen_and_predicted_with_what_is_assumed(tmp_path: Path, gpu: str) -> None:
    node = snapshot(tmp_path, gpu)
    assert [gpu.vendor for gpu in node.machine.gpus] == ["nvidia"] * 4
    prediction = predict(node)
    paths = {(pair.src, pair.dst): pair.path for pair in prediction.pairs}
    # 0001 and 0011 share a switch; the id is that of a board with NVSwitches.
    assert (paths[0, 2], paths[0, 1]) == (("NVL", "NVL") if gpu else ("PIX", "SYS"))
    said = " ".join(prediction.assumptions)
    assert "the topology file tells the places of GPUs alone" in said
    assert ("NVLinks were not read: none are assumed" in said) is not bool(gpu)
    assert ("NVLinks were not read: 12 to NVSwitches" in said) is bool(gpu)


@pytest.mark.parametrize(("named", "ranked"), [("0,1", (0, 1)), ("3,0", (3, 0)), ("2", (2,))])
def test_gpus_are_named_by_rank(tmp_path: Path, named: str, ranked: tuple[int, ...]) -> None:
    node = snapshot(tmp_path, A100)
    addresses = sorted(gpu.address for gpu in node.machine.gpus)
    chosen = select(named, node.machine, bare="rank")
    assert chosen == tuple(addresses[place] for place in ranked)
    assert predict(node, gpus=chosen).ranks == len(ranked)


@pytest.mark.parametrize("name", [None, "GA100 [A100 SXM4 80GB]"])
def test_the_model_is_the_same_with_and_without_a_list_of_pci_names(name: str | None) -> None:
    sku = sku_for(Gpu(address="0000:01:00.0", vendor="nvidia", name=name, pci_id="10de:20b2"))
    assert sku is not None
    assert sku.link_count == 12
    guest = Gpu(address="0000:01:00.0", vendor="nvidia", name="GRID A100-10C", pci_id="10de:20b2")
    assert sku_for(guest) is None  # a part of the card has no NVLinks


def test_a_gpu_that_is_named_after_the_table_is_found_in_it() -> None:
    for sku in skus().values():
        assert sku_for(Gpu(address="0000:01:00.0", vendor="nvidia", name=sku.name)) is sku


def test_letters_of_pcie_are_not_taken_for_the_whole_truth(tmp_path: Path) -> None:
    report = Node(snapshot(tmp_path))
    rows = [row for row in report.matrix.rows if row.kind == "gpu"]
    cells = [cell for row in rows for cell in row.cells[:4] if cell.code != "X"]
    assert {cell.basis for cell in cells} == {"assumed"}


def test_places_alone_prove_no_health(tmp_path: Path) -> None:
    found = diagnose(Case(Node(snapshot(tmp_path)))).findings
    assert [(finding.id, finding.severity) for finding in found] == [
        ("evidence-missing", "cannot-tell")
    ]


GB300 = (
    '<pci busid="{0}:06:00.0" class="0x030200" vendor="0x10de" device="0x31c2" '
    'link_speed="64.0 GT/s PCIe" link_width="16"><gpu dev="{1}" sm="103" rank="{1}" gdr="1">'
    '{2}<c2c bw="44712" count="5"/></gpu></pci>'
)
LINKS = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'


def tray(folder: Path, without: int | None) -> NodeSnapshot:
    """Four GB300 as NCCL 2.29.7 lists them; one may have no NVLinks, as in a public report."""
    places = ("0008", "0009", "0018", "0019")
    cpus = "".join(
        f'<cpu numaid="{node}" affinity="f" arch="arm64">'
        + "".join(
            GB300.format(places[dev], dev, "" if dev == without else LINKS)
            for dev in (2 * node, 2 * node + 1)
        )
        + "</cpu>"
        for node in range(2)
    )
    file = folder / "tray.xml"
    file.write_text(f'<system version="1">{cpus}</system>')
    return load([str(file)]).snapshot


def test_a_gpu_that_nccl_lists_without_the_links_of_its_siblings(tmp_path: Path) -> None:
    sick = tray(tmp_path, without=1)
    found, unread = diagnose(Case(Node(sick))).findings
    assert unread.id == "evidence-missing"  # a topology XML tells no errors and no memory
    assert (found.id, found.severity, found.devices) == (
        "nvlink-missing",
        "slow",
        ("0009:06:00.0",),
    )
    assert [item.value for item in found.evidence] == ["0 of 18"]
    # What the report saw: two channels, a ring of 0.1 GB/s and no NVLS.
    prediction = predict(sick)
    ring = prediction.graphs.ring
    assert ring is not None
    assert (ring.channels, ring.bw_intra, prediction.coll_channels) == (1, 0.1, 2)
    assert prediction.graphs.nvls is None or prediction.graphs.nvls.channels == 0
    whole = diagnose(Case(Node(tray(tmp_path, without=None)))).findings
    assert [finding.id for finding in whole] == ["evidence-missing"]
