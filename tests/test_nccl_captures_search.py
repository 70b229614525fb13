"""Graphs of the search against those that NCCL itself found (shared/captures).

A tenth of the cases runs every time; all of them with `-m captures`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.nccl.domains import views
from gputop.topology.nccl.element import Element
from gputop.topology.nccl.networks import nets_of, with_socket_nic
from gputop.topology.nccl.prediction import Graphs, SearchGraph
from gputop.topology.nccl.rules import rules_for
from gputop.topology.nccl.search.graphs import search_graphs
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.xml.read import read_topology

from .nccl_captures import EMULATED, SHARED, emulated, expected, names, topology_of

GRAPHS = "nccl-2.28.9-graph"
RCCL_GRAPHS = "rccl-2.21.5-graph"

RCCL_SEARCHED = {
    "topo_3p_pcie", "topo_4p1h", "topo_4p2h", "topo_4p2h_2nic", "topo_4p_940", "topo_8p_pcie",
    "topo_8p_pcie_2nic", "topo_8p_rome_pcie",
}  # fmt: skip
"""Nodes for which RCCL has no ready-made graphs, so that its search shows."""

FIGURES = ("channels", "bw_intra", "bw_inter", "type_intra", "type_inter", "same_channels")


@cache
def topology(path: Path) -> Element:
    return read_topology(path.read_bytes(), path.name)


def differences(wanted: dict[str, Any], found: SearchGraph | None) -> list[str]:
    """What a recorded graph and a found one do not have in common."""
    if found is None:
        return [] if wanted["channels"] == 0 else ["missing"]
    wrong = []
    for name in (*FIGURES, "pattern", "cross_nic"):
        if name not in wanted:
            continue
        mine = getattr(found, name)
        same = mine == (
            pytest.approx(wanted[name], rel=1e-5)
            if isinstance(wanted[name], float)
            else wanted[name]
        )
        if not same:
            wrong.append(f"{name} {mine} for {wanted[name]}")
    if "orders" in wanted:
        heads = found.pattern == 5
        orders = [order[:1] if heads else order for order in wanted["orders"]]
        if orders != [list(order) for order in found.orders]:
            wrong.append("orders")
    return wrong


def compared(wanted: dict[str, Any], found: Graphs, case: str) -> list[str]:
    return [
        f"{case} {name}: {', '.join(wrong)}"
        for name in ("ring", "tree", "nvls")
        if name in wanted and (wrong := differences(wanted[name], getattr(found, name)))
    ]


def graph_misses(folder: str, library: str, stem: str, entry: dict[str, Any]) -> Iterator[str]:
    """One environment of one topology file: every view, alone and with a second host."""
    rules, _ = rules_for(library)
    settings = Settings(entry["env"])
    root = topology(SHARED / folder / "topologies" / f"{stem}.xml")
    for part in ("single_node", "two_node"):
        found = {
            frozenset(gpu.rank for gpu in one.system.nodes["GPU"]): one.system
            for one in views(root, rules, settings, more_nodes=part == "two_node")
        }
        for view in entry[part]["views"]:
            case = f"{stem} {entry['env']} {part} {view['ranks']}"
            system = found.get(frozenset(view["ranks"]))
            if system is None:
                yield f"{case}: no such view"
                continue
            graphs = search_graphs(system, rules, settings, nvls="nvls" in view["graphs"])
            yield from compared(view["graphs"], graphs, case)


def run_misses(case: dict[str, Any]) -> list[str]:
    """One real run: the graphs that rank 0 logged."""
    rules, _ = rules_for("nccl-2.28.9")
    settings = Settings(case["env"])
    root = topology(topology_of(case))
    seen = views(root, rules, settings)
    if seen[0].system.inter and not nets_of(root):
        seen = views(with_socket_nic(root), rules, settings)
    system = next(one.system for one in seen if one.system.gpu_of(0) is not None)
    graphs = search_graphs(system, rules, settings, nvls=False)
    return compared(case["graphs"], graphs, case["case"])


def runs() -> list[dict[str, Any]]:
    return sorted(emulated(), key=lambda case: str(case["case"]))


def needs(folder: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not (SHARED / folder).exists(), reason="captures are not here")


@needs(GRAPHS)
def test_a_tenth_of_the_graphs_is_nccls_own() -> None:
    cases = [(stem, entry) for stem in names(GRAPHS) for entry in expected(GRAPHS, stem)]
    assert len(cases) >= 57 * 13
    misses = [
        miss
        for stem, entry in cases[::10]
        for miss in graph_misses(GRAPHS, "nccl-2.28.9", stem, entry)
    ]
    assert not misses, "\n".join(misses)


@needs(EMULATED.name)
def test_a_tenth_of_the_real_runs_used_these_graphs() -> None:
    misses = [miss for case in runs()[::10] for miss in run_misses(case)]
    assert not misses, "\n".join(misses)


@needs(GRAPHS)
@pytest.mark.captures
@pytest.mark.parametrize("stem", names(GRAPHS))
def test_every_graph_is_nccls_own(stem: str) -> None:
    misses = [
        miss
        for entry in expected(GRAPHS, stem)
        for miss in graph_misses(GRAPHS, "nccl-2.28.9", stem, entry)
    ]
    assert not misses, "\n".join(misses)


@needs(EMULATED.name)
@pytest.mark.captures
def test_every_real_run_used_these_graphs() -> None:
    cases = runs()
    assert len(cases) == 175
    misses = [miss for case in cases for miss in run_misses(case)]
    assert not misses, "\n".join(misses)


@needs(RCCL_GRAPHS)
@pytest.mark.captures
@pytest.mark.parametrize("stem", sorted(RCCL_SEARCHED))
def test_rccl_searches_the_same_way_where_it_knows_no_model(stem: str) -> None:
    misses = [
        miss
        for entry in expected(RCCL_GRAPHS, stem)
        for miss in graph_misses(RCCL_GRAPHS, "rccl-2.21.5", stem, entry)
    ]
    assert not misses, "\n".join(misses)
