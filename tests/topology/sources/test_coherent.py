"""GPUs that share memory with their CPU (made-up Grace and Vera nodes): C2C, parts, NUMA nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.screens.node.detail import detail_lines
from gputop.topology.expectation.links import host_link
from gputop.topology.hardware.specs import sku_for
from gputop.topology.model.machine import Gpu
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import NumaNode
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.xml.detect import detect
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.sketch.tree import forest
from gputop.topology.sources.nvidia.parse_machine import parse
from gputop.widgets.gpu_cells import Row

from ...support.rule_cases import base, edited
from ..diagnosis.device_rules import H100, at

C2C = '<c2c bw="44712" count="5"/>'
MEMORY = {"cpus": "", "memory_bytes": 96 << 30, "gpu_memory": True}
UNUSED = {"cpus": "", "memory_bytes": 0}


def topology(tmp_path: Path, *gpus: str) -> NodeSnapshot:
    """A topology XML with one PCI function for each entry, as NCCL writes it."""
    pci = "".join(
        f'<pci busid="000{place}:01:00.0" class="0x030200" vendor="0x10de" device="0x2941" '
        f'link_speed="32.0 GT/s PCIe" link_width="16">{inner}</pci>'
        for place, inner in enumerate(gpus)
    )
    path = tmp_path / "made-up.xml"
    path.write_text(
        f'<system version="1"><cpu numaid="0" affinity="ffff" arch="arm64">{pci}</cpu></system>'
    )
    return load([str(path)]).snapshot


def gpu(rank: int, inner: str = "", sm: int = 100, more: str = "") -> str:
    return f'<gpu dev="{rank}" sm="{sm}" rank="{rank}" gdr="1"{more}>{inner}</gpu>'


def c2c_wires(snapshot: NodeSnapshot) -> list[tuple[float | None, bool]]:
    graph = Node(snapshot).graph
    wires = [data.get("wire") for _, _, data in graph.edges(data=True)]
    return [(wire.payload_gbs, wire.assumed) for wire in wires if wire and wire.kind == "c2c"]


def test_the_rate_of_c2c_in_an_xml_stays(tmp_path: Path) -> None:
    snapshot = topology(tmp_path, gpu(0, C2C), gpu(1, C2C))
    assert [gpu.c2c_gbs for gpu in snapshot.machine.gpus] == [pytest.approx(223.56)] * 2
    wires = c2c_wires(snapshot)
    assert [rate for rate, _ in wires] == [pytest.approx(223.56)] * 2
    assert not any(assumed for _, assumed in wires)


@pytest.mark.parametrize("c2c", ['<c2c bw="0" count="5"/>', "<c2c/>", '<c2c count="5"/>'])
def test_a_c2c_without_a_rate_is_taken_from_the_data_sheet(tmp_path: Path, c2c: str) -> None:
    snapshot = topology(tmp_path, gpu(0, c2c))
    assert snapshot.machine.gpus[0].c2c_gbs is None
    assert c2c_wires(snapshot) == [(450.0, True)]


@pytest.mark.parametrize(
    ("count", "rate", "gbs"),
    [(10, 44712, 447.12), (5, 44712, 223.56), (0, 44712, None), (5, 10**9, None), ("5", 1, None)],
)
def test_the_driver_gives_links_and_rate(count: Any, rate: Any, gbs: float | None) -> None:
    device = {
        "nvmlDeviceGetPciInfo": {"busId": "00000009:01:00.0"},
        "fields": {
            "NVML_FI_DEV_C2C_LINK_COUNT": {"value": count},
            "NVML_FI_DEV_C2C_LINK_GET_MAX_BW": {"value": rate},
        },
    }
    (found,) = parse({"devices": [device]}).gpus
    assert found.c2c_gbs == (None if gbs is None else pytest.approx(gbs))
    assert found.why("c2c_gbs") is None  # boards without C2C lack nothing
    device["nvmlDeviceGetC2cModeInfoV"] = {"isC2cEnabled": 0}
    assert parse({"devices": [device]}).gpus[0].why("c2c_gbs") is None
    device["nvmlDeviceGetC2cModeInfoV"] = {"isC2cEnabled": 1}
    (found,) = parse({"devices": [device]}).gpus
    assert (found.why("c2c_gbs") is None) == (gbs is not None)
    del device["fields"]
    (found,) = parse({"devices": [device]}).gpus
    assert (found.c2c_gbs, found.why("c2c_gbs")) == (None, "not asked")


def test_what_nccl_would_detect_has_the_rate_that_was_read() -> None:
    coherent = [("machine.gpus[*].c2c_enabled", True)]
    for gbs, assumed in ((223.56, False), (None, True)):
        snapshot = at(H100, *coherent, ("machine.gpus[*].c2c_gbs", gbs))
        found = detect(snapshot.machine, Settings.of(snapshot))
        links = [element for element in found.element.walk() if element.tag == "c2c"]
        rates = [int(link.get("bw") or 0) * int(link.get("count") or 0) / 1000 for link in links]
        assert rates == [pytest.approx(gbs or 447.12, rel=1e-3)] * 8
        assert any("C2C is on" in text for text in found.assumptions) == assumed


def test_half_of_the_links_is_what_such_a_gpu_should_reach() -> None:
    made_up = Gpu(address="0009:01:00.0", vendor="nvidia", name="NVIDIA GB200", c2c_enabled=True)
    snapshot = at(H100)
    sku = sku_for(made_up)
    assert sku is not None
    assert sku.c2c_gbs is not None
    whole = host_link(Node(snapshot), made_up, sku)
    half = host_link(Node(snapshot), msgspec.structs.replace(made_up, c2c_gbs=223.56), sku)
    assert whole is not None
    assert half is not None
    assert (whole.design_gbs, half.design_gbs) == (sku.c2c_gbs, 223.56)


def test_ranks_that_share_a_gpu_are_not_left_out_silently(tmp_path: Path) -> None:
    def parts(rank: int) -> str:
        return "".join(
            gpu(rank + part, C2C, sm=107, more=f' mlopart="{part}"') for part in range(2)
        )

    snapshot = topology(tmp_path, parts(0), parts(2))
    assert len(snapshot.machine.gpus) == 2
    (problem,) = [problem.text for problem in snapshot.problems]
    assert problem.startswith("2 of 4 ranks share a GPU with another (MLOPart")
    assert problem in predict(snapshot).assumptions
    plain = topology(tmp_path, gpu(0, C2C), gpu(1, C2C))
    assert not plain.problems
    assert not any("share a GPU" in text for text in predict(plain).assumptions)


def with_memory_nodes(**fields: Any) -> NodeSnapshot:
    edits = [
        {"path": "machine.host.numa", "append": {"node": number, **fields}}
        for number in range(2, 10)
    ]
    return edited(base(H100), edits)


@pytest.mark.parametrize("fields", [MEMORY, UNUSED])
def test_memory_without_cpus_hangs_from_no_socket_on_map(fields: dict[str, Any]) -> None:
    items = [
        element for top in forest(Node(with_memory_nodes(**fields)).graph) for element in top.walk()
    ]
    members = {member for item in items for member in item.members}
    assert {member for member in members if member.startswith("numa:")} == {"numa:0", "numa:1"}
    expander = with_memory_nodes(cpus="0-3", memory_bytes=1)
    everyone = [element for top in forest(Node(expander).graph) for element in top.walk()]
    assert "numa:5" in {member for item in everyone for member in item.members}


@pytest.mark.parametrize(
    ("cpus", "gpu_memory", "without"),
    [
        ("", None, True),
        ("", True, True),
        (None, True, True),
        (None, None, False),
        ("0", None, False),
    ],
)
def test_a_node_without_cpus(cpus: str | None, gpu_memory: bool | None, without: bool) -> None:
    assert NumaNode(node=1, cpus=cpus, gpu_memory=gpu_memory).without_cpus is without


def test_the_one_node_with_cpus_is_the_one_of_the_gpus() -> None:
    one_cpu = edited(
        with_memory_nodes(**UNUSED),
        [
            {"path": "machine.host.numa[1]", "remove": True},
            {"path": "machine.gpus[*].numa_node", "remove": True},
            {"path": "machine.gpus[*].memory_affinity", "remove": True},
            {"path": "machine.pci", "value": []},
        ],
    )
    graph = Node(one_cpu).graph
    assert all(graph.has_edge(gpu.address, "numa:0") for gpu in one_cpu.machine.gpus)


def test_details_name_the_node_that_a_gpu_s_memory_is() -> None:
    of = at(H100, ("machine.gpus[0].gpu_numa_id", 4)).machine.gpus[0]
    shown = detail_lines(Row(gpu=of, reading=None, processes={}), 70)
    words = " ".join(" ".join(part for line in shown for part, _ in line).split())
    assert "its own memory is node 4" in words
