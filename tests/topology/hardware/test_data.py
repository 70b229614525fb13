"""The tables of models, links and nodes agree with each other and name their sources."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gputop.topology.hardware.specs import FOLDER, sku_for, skus, table, two_models
from gputop.topology.model.machine import Gpu
from gputop.topology.wiring.wires import (
    NVLINK_PAYLOAD_GBS,
    NVLINK_RAW_GBS,
    PCIE_EFFICIENCY,
    PCIE_GTS,
    pcie_wire,
)
from tests.tables import hold

SKUS: dict[str, Any] = table("specs")["sku"]
NODES: dict[str, Any] = table("nodes")["node"]
LINKS = table("links")


def test_no_internal_file_is_named() -> None:
    for path in FOLDER.glob("*.toml"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\bseed|[0-9a-f]{16}\.txt|/home/|/root/|captures", text), path.name


def _links_of_a_model_add_up(name: str) -> None:
    sku = SKUS[name]
    count, each = sku.get("link_count"), sku.get("link_gbps_per_direction_each")
    total, pair = sku.get("link_total_gbps_per_direction"), sku.get("p2p_pair_gbps_per_direction")
    if count and each:
        assert count * each == pytest.approx(total, abs=0.01)
    if total is not None and pair is not None and sku["fabric"] == "switched":
        assert pair == total
    if total is not None and pair is not None:
        assert pair <= total + 0.01
    if sku["fabric"] == "none":
        assert not sku.get("link_count")
    assert sku["fabric"] in {"switched", "point_to_point", "bridge", "none"}


def test_links_of_a_model_add_up() -> None:
    hold(_links_of_a_model_add_up, SKUS)


def _a_model_says_where_its_figures_come_from(name: str) -> None:
    sku, sources = SKUS[name], table("specs")["sources"]
    assert sku["source"]
    assert (
        any(re.search(rf"\b{key}\b", sku["source"]) for key in sources) or "ROCm" in sku["source"]
    )
    for entry in sku["realistic"]:
        assert entry["kind"] in {"typical", "best", "floor"}
        assert entry["source"]
        if "peak" in entry and "fraction" in entry:
            assert entry["measured"] / entry["peak"] == pytest.approx(entry["fraction"], abs=0.002)


def test_a_model_says_where_its_figures_come_from() -> None:
    hold(_a_model_says_where_its_figures_come_from, SKUS)


def _link_rates_are_those_of_the_generation(name: str) -> None:
    sku = SKUS[name]
    generation = re.fullmatch(r"nvlink(\d)", sku["link_kind"])
    each = sku.get("link_gbps_per_direction_each")
    if generation is None or each is None:
        return
    known = LINKS["nvlink"][generation[1]]
    assert each in (known["link_gbps"], LINKS["nvlink"]["3-ga102"]["link_gbps"])
    assert sku["link_count"] <= known["max_links"]


def test_link_rates_are_those_of_the_generation() -> None:
    hold(_link_rates_are_those_of_the_generation, SKUS)


def _patterns_of_names_are_anchored(name: str) -> None:
    for pattern in SKUS[name]["name_patterns"]:
        assert pattern.endswith("$")
        re.compile(pattern)


def test_patterns_of_names_are_anchored() -> None:
    hold(_patterns_of_names_are_anchored, SKUS)


def _a_node_is_made_of_known_parts(name: str) -> None:
    node = NODES[name]
    assert all(sku in SKUS for sku in node["sku"])
    if "nics" in node and "nic_gbit" in node and "network_gbps" in node:
        assert node["nics"] * node["nic_gbit"] / 8 == pytest.approx(node["network_gbps"])
    members = [gpu for near in node.get("numa", ()) for gpu in near["gpus"]]
    assert len(members) == len(set(members))
    assert all(0 <= gpu < node["gpus"] for gpu in members)
    matrix = node.get("topo_matrix")
    if matrix is not None:
        assert matrix == [list(column) for column in zip(*matrix, strict=True)]
        assert all(sum(row) == node["links_per_gpu"] for row in matrix)
    per_switch = node.get("links_per_gpu_per_switch")
    if per_switch is not None:
        assert sum(per_switch) == node["links_per_gpu"]


def test_a_node_is_made_of_known_parts() -> None:
    hold(_a_node_is_made_of_known_parts, NODES)


def test_rates_in_code_are_those_of_the_table() -> None:
    for generation, payload in NVLINK_PAYLOAD_GBS.items():
        known = LINKS["nvlink"][str(generation)]
        assert known["link_gbps"] == payload
        assert known.get("nvidia_smi_print_gbps", payload) == NVLINK_RAW_GBS[generation]
    for generation, gts in PCIE_GTS.items():
        known = LINKS["pcie"][f"gen{generation}"]
        assert known["gt_s"] == gts
        assert known["encoding_efficiency"] == pytest.approx(PCIE_EFFICIENCY[generation], abs=1e-5)
        wire = pcie_wire(gts, 16, 16, "")
        assert wire.payload_gbs == pytest.approx(known["line_gbps"]["x16"], abs=0.01)
    assert LINKS["nvlink"]["c2c"]["link_gbps"] == 450


@pytest.mark.parametrize(
    ("name", "pci_id", "sku"),
    [
        ("NVIDIA H200", "10de:2335", "H200-SXM"),
        ("NVIDIA  H100 80GB HBM3 ", None, "H100-SXM"),
        ("Tesla V100-SXM2-16GB", None, "V100-SXM2-16"),
        ("NVIDIA H100", None, None),
        ("NVIDIA H100", "10de:2330", "H100-SXM"),
        ("NVIDIA H100", "10de:20b2", None),
        ("NVIDIA H100 80GB HBM3", "10de:20b2", None),
        ("NVIDIA H100 80GB HBM3", "10de:ffff", "H100-SXM"),
        ("AMD Radeon Graphics", "1002:75a0", "MI350X"),
        ("Aldebaran/MI200 [Instinct MI250X/MI250]", "1002:740c", "MI250"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None, None),
        ("NVIDIA Quantum Toaster", "10de:2335", None),
        (None, "10de:2335", "H200-SXM"),
        (None, None, None),
    ],
)
def test_a_model_is_found_by_name_else_by_number(
    name: str | None, pci_id: str | None, sku: str | None
) -> None:
    found = sku_for(Gpu(address="0000:00:00.0", vendor="nvidia", name=name, pci_id=pci_id))
    assert (found.name if found else None) == sku


def test_a_name_and_a_number_of_two_models_are_neither() -> None:
    """A number that nobody confirmed contradicts no name, and one of several models fits each."""
    for name, own in SKUS.items():
        for other, facts in SKUS.items():
            for number in facts.get("pci_ids", ()):
                gpu = Gpu(address="0000:00:00.0", vendor="nvidia", name=name, pci_id=number)
                sure = "pci_ids" not in facts.get("unconfirmed", ())
                apart = sure and number not in own.get("pci_ids", ())
                assert two_models(gpu) == apart, (name, other)
                assert (sku_for(gpu) is None) == apart, (name, other)


def test_every_model_is_read_with_its_figures() -> None:
    assert set(skus()) == set(SKUS)
    assert all(sku.figures == () or sku.figures[0].source for sku in skus().values())


def test_what_to_expect_is_never_a_pass_line() -> None:
    for sku in skus().values():
        for quantity in ("p2p_uni", "p2p_bidir", "h2d"):
            figure = sku.figure(quantity)
            assert figure is None or figure.kind != "floor"
