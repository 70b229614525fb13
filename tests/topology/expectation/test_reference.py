"""What a node is held against: names of reference nodes, and what each of them says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.expectation.reference import UnknownReferenceError, named, names, of_snapshot
from gputop.topology.hardware.specs import table
from gputop.topology.recorded.demos import demo
from gputop.topology.recorded.load import load
from tests.tables import hold

from ...support.rule_cases import base, diagnosed, edited, ids

NODES = table("nodes")["node"]


def _every_node_is_found_by_its_name(name: str) -> None:
    found = named(name)
    assert found.name in NODES
    assert named(found.name).name == found.name
    assert found.gpus == NODES[found.name]["gpus"]


def test_every_node_is_found_by_its_name() -> None:
    hold(_every_node_is_found_by_its_name, names())


def _every_alias_is_the_node_or_a_node_of_that_name(node: str) -> None:
    for alias in NODES[node].get("aliases", ()):
        assert named(alias.upper()).name == node


def test_every_alias_is_the_node_or_a_node_of_that_name() -> None:
    hold(_every_alias_is_the_node_or_a_node_of_that_name, NODES)


@pytest.mark.parametrize(
    ("typed", "node"),
    [
        ("aws-p5.48xlarge", "AWS p5.48xlarge"),
        ("P5.48xlarge", "AWS p5.48xlarge"),
        ("DGX  H100", "DGX H100"),
        ("hgx-h100-8", "DGX H100"),
        ("mi300x-8", "MI300X UBB8"),
        ("ND96amsr_A100_v4", "Azure ND96asr_v4"),
        ("g6e.24xlarge", "AWS g6e.24xlarge"),
        ("g5.12xlarge", "AWS g5.24xlarge"),
        ("p3dn.24xlarge", "AWS p3dn.24xlarge"),
        ("ND GB200 v6", "Azure ND128isr_NDR_GB200_v6"),
        ("ND GB300 v6", "Azure ND128isr_GB300_v6"),
        ("NC H100 v5", "Azure NC80adis_H100_v5"),
        ("A4X Max", "GCP a4x-maxgpu-4g-metal"),
        ("A2 Ultra", "GCP a2-ultragpu-8g"),
        ("gb200-4x", "CoreWeave gb200-4x"),
    ],
)
def test_names_as_people_type_them(typed: str, node: str) -> None:
    assert named(typed).name == node


@pytest.mark.parametrize("typed", ["p5", "h100", "", "aws", "../nodes", "x" * 5000])
def test_what_is_no_name_is_refused_with_names_that_are(typed: str) -> None:
    with pytest.raises(UnknownReferenceError) as refused:
        named(typed)
    assert len(str(refused.value)) < 400


def test_what_no_source_confirms_is_not_compared() -> None:
    assert "nics" in NODES["DGX-1V"]
    assert named("L40S PCIe 8-GPU box").ports is None
    assert named("aws-p3.16xlarge").ports is None
    assert named("aws-p3.16xlarge").code(0, 1, 8) is None


def _what_no_source_confirms_is_said_in_words(node: str) -> None:
    keys = NODES[node].get("unconfirmed", ())
    assert set(keys) <= NODES[node].keys()
    assert bool(named(node).unconfirmed) == bool(keys)
    assert "recalled" not in NODES[node]["source"] or keys


def test_what_no_source_confirms_is_said_in_words() -> None:
    hold(_what_no_source_confirms_is_said_in_words, NODES)


def test_letters_of_a_mesh() -> None:
    mesh = named("dgx-1v")
    assert mesh.code(0, 1, 8) == "NV1"
    assert mesh.code(0, 3, 8) == "NV2"
    assert mesh.code(0, 5, 8) == "PCIe"
    assert mesh.code(0, 1, 4) is None


@pytest.mark.parametrize("name", [name for name in demo.names() if not name.startswith("sick")])
def test_every_demo_is_what_its_own_reference_says(name: str) -> None:
    found = diagnosed(base(f"demo {name}"), reference=named(name))
    assert not [rule for rule in ids(found) if rule.startswith("unexpected")]
    assert "unexpected-gpus" in found.examined


@pytest.mark.parametrize("name", ["hgx-h200-4gpu-live", "demo dgx-1v", "demo mi300x-8"])
def test_a_node_is_its_own_sister(name: str) -> None:
    found = diagnosed(base(name), reference=of_snapshot(base(name), "itself"))
    assert not [rule for rule in ids(found) if rule.startswith("unexpected")]


def test_an_amd_link_that_is_down_is_missed() -> None:
    edits = [{"path": "machine.gpus[1].xgmi[0].active", "value": False}]
    found = diagnosed(edited(base("demo mi300x-8"), edits), reference=named("mi300x-8"))
    assert "unexpected-links" in {finding.id for finding in found.findings} or "xgmi-link-down" in {
        finding.id for finding in found.findings
    }


def test_another_model_in_a_mixed_box_is_named() -> None:
    edits = [
        {"path": "machine.gpus[5].name", "value": "NVIDIA H200"},
        {"path": "machine.gpus[5].pci_id", "value": "10de:2335"},
    ]
    found = diagnosed(edited(base("demo hgx-h100-8"), edits), reference=named("dgx-h100"))
    (finding,) = [finding for finding in found.findings if finding.id == "unexpected-gpus"]
    assert finding.devices == (base("demo hgx-h100-8").machine.gpus[5].address,)
    assert "NVIDIA H200" in finding.evidence[0].value


def test_gpus_that_were_not_picked_are_not_reported_as_missing() -> None:
    from gputop.topology.diagnosis.case import Case
    from gputop.topology.node import Node

    node = base("demo hgx-h100-8")
    picked = [gpu.address for gpu in node.machine.gpus[:2]]
    found = diagnose(Case(Node(node), gpus=picked, reference=named("dgx-h100")))
    assert "unexpected-gpus" not in ids(found)


def test_a_sister_measured_otherwise_is_not_compared() -> None:
    one = {
        "probe": "p2p", "quantity": "latency", "src": "0000:00:06.0", "dst": "0000:00:07.0",
        "unit": "us", "device_kind": "gpu",
    }  # fmt: skip
    node = edited(
        base("hgx-h200-4gpu-live"), [{"path": "measurements", "append": {**one, "value": 2.0}}]
    )
    for sister, low in (({**one, "value": 1.0}, True), ({**one, "value": 3.0}, False)):
        edits = [{"path": "measurements", "append": sister}]
        other = edited(base("hgx-h200-4gpu-live"), edits)
        found = diagnosed(node, reference=of_snapshot(other, "sister"))
        assert ("unexpected-figures" in ids(found)) is low
    edits = [{"path": "measurements", "append": {**one, "value": 1.0, "unit": "ms"}}]
    other = edited(base("hgx-h200-4gpu-live"), edits)
    found = diagnosed(node, reference=of_snapshot(other, "sister"))
    assert "unexpected-figures" in found.unexamined


def test_a_name_out_of_a_list_of_pci_ids_is_no_other_model() -> None:
    node = base("demo hgx-h100-8")
    unnamed = [
        {"path": f"machine.gpus[{number}].{field}", "value": value}
        for number in range(len(node.machine.gpus))
        for field, value in (("uuid", None), ("name", "GH100[H100 SXM5 80GB]"))
    ]
    sister = of_snapshot(edited(node, unnamed), "topology.xml")
    assert sister.names == ()
    assert "unexpected-gpus" not in ids(diagnosed(node, reference=sister))


SIZE = re.compile(r"\((\d+) GPUs?\)")


def _an_alias_names_no_size_with_another_number_of_gpus(node: str) -> None:
    """Else half a node is reported as a whole one that lost GPUs."""
    for alias in NODES[node].get("aliases", ()):
        said = SIZE.search(alias)
        assert said is None or int(said[1]) == NODES[node]["gpus"]


def test_an_alias_names_no_size_with_another_number_of_gpus() -> None:
    hold(_an_alias_names_no_size_with_another_number_of_gpus, NODES)


def board(count: int, links: str) -> str:
    head = "\t".join(["", *(f"GPU{number}" for number in range(count)), "CPU Affinity"])
    rows = [
        "\t".join(
            [f"GPU{row}", *(" X " if row == column else links for column in range(count)), "0-31"]
        )
        for row in range(count)
    ]
    return "\n".join([head, *rows]) + "\n"


@pytest.mark.parametrize(
    ("name", "count", "links", "expected"),
    [
        ("HGX A100 4-GPU", 4, "NV4", ()),
        ("HGX H100 4-GPU", 4, "NV6", ()),
        ("HGX H100 4-GPU", 4, "SYS", ("unexpected-wiring",)),
        ("g6e.24xlarge", 4, "SYS", ()),
        ("g6e.48xlarge", 4, "SYS", ("unexpected-gpus",)),
        ("p6e-gb200.36xlarge", 4, "NV18", ()),
        ("NC80adis_H100_v5", 2, "SYS", ()),  # whether it has the bridge is not published
        ("g6.48xlarge", 8, "PHB", ()),
        ("RTX PRO server", 8, "NODE", ()),
    ],
)
def test_nodes_by_their_matrix(
    tmp_path: Path, name: str, count: int, links: str, expected: tuple[str, ...]
) -> None:
    file = tmp_path / "topo.txt"
    file.write_text(board(count, links))
    found = diagnosed(load([str(file)]).snapshot, reference=named(name)).findings
    assert tuple(one.id for one in found if one.id.startswith("unexpected")) == expected
