"""Graphs of the search against those that NCCL itself found (shared/captures).

Some cases run every time; all of them with `-m captures`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.model.element import Element
from gputop.topology.nccl.nodes import GPU, NET
from gputop.topology.nccl.prediction import Graphs, SearchGraph
from gputop.topology.nccl.search.graphs import limits, search_graphs
from gputop.topology.nccl.search.ready_made import ready_made
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.system.domains import views
from gputop.topology.nccl.system.networks import nets_of, with_socket_nic
from gputop.topology.nccl.versions import version_for
from gputop.topology.nccl.xml.read import read_topology
from tests.support.places import CAPTURES

from ....support.nccl.captures import EMULATED, emulated, expected, names, topology_of

GRAPHS = "nccl-2.28.9-graph"
RCCL_GRAPHS = "rccl-2.21.5-graph"

RCCL_SEARCHED = {
    "topo_3p_pcie", "topo_4p1h", "topo_4p2h", "topo_4p2h_2nic", "topo_4p_940", "topo_8p_pcie",
    "topo_8p_pcie_2nic", "topo_8p_rome_pcie",
}  # fmt: skip
"""Nodes for which RCCL has no ready-made graphs, whether alone or with a second host."""
KNOWN: dict[str, list[str | None]] = {
    "topo_16p1h": ["rome_model_56", "rome_model_59"],
    "topo_4p3l_2h": ["rome_model_28", "rome_model_29"],
    "topo_4p3l_n2": [None, "rome_model_40"],
    "topo_4p3l_n4": [None, "rome_model_42"],
    "topo_8p1h_1": ["rome_model_71", "rome_model_72"],
    "topo_8p1h_3": ["rome_model_73", "rome_model_74"],
    "topo_8p1h_5": ["rome_model_71", "rome_model_76"],
    "topo_8p6l": ["chordal ring", "chordal ring"],
    "topo_8p6l_2nic": ["chordal ring", "chordal ring"],
    "topo_8p6l_4nic": ["chordal ring", "chordal ring"],
    "topo_8p6l_6nic": ["chordal ring", "chordal ring"],
    "topo_8p_90a": ["rome_model_52", None],
    "topo_8p_940": ["rome_model_79", "rome_model_81"],
    "topo_8p_rome_4n_1": ["rome_model_53", "rome_model_53"],
    "topo_8p_rome_4nics": ["rome_model_49", "rome_model_49"],
    "topo_8p_rome_n2_1": ["rome_model_23", None],
    "topo_8p_rome_n4": ["rome_model_38", None],
    "topo_8p_ts1": ["rome_model_24", "rome_model_25"],
    "topo_8p_ts1_n4": ["rome_model_30", "rome_model_31"],
    "topo_8p_ts1_n4_2": ["rome_model_32", "rome_model_33"],
    "topo_collnet_n4": ["rome_model_49", "rome_model_49"],
}
"""The model of each node, alone and with a second host; the rings of a model are in the recording,
so that a wrong one shows in its orders."""
TWO_OF_A_NUMBER = "topo_8p_rome_n2_1"
"""Both NICs of this file have dev 0, which confuses RCCL's search over two hosts; not followed."""

SAMPLED = 54
"""Of so many topology files and environments one is compared every time. With 13 environments a
file, each environment has its turn."""
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
    version, _ = version_for(library)
    settings = Settings(entry["env"])
    root = topology(CAPTURES / folder / "topologies" / f"{stem}.xml")
    for part in ("single_node", "two_node"):
        found = {
            frozenset(gpu.rank for gpu in view.system.nodes[GPU]): view.system
            for view in views(root, version, settings, more_nodes=part == "two_node")
        }
        for view in entry[part]["views"]:
            case = f"{stem} {entry['env']} {part} {view['ranks']}"
            system = found.get(frozenset(view["ranks"]))
            if system is None:
                yield f"{case}: no such view"
                continue
            graphs = search_graphs(system, version, settings, nvls="nvls" in view["graphs"])
            yield from compared(view["graphs"], graphs, case)


def run_misses(case: dict[str, Any]) -> list[str]:
    """One real run: the graphs that rank 0 logged."""
    version, _ = version_for("nccl-2.28.9")
    settings = Settings(case["env"])
    root = topology(topology_of(case))
    seen = views(root, version, settings)
    if seen[0].system.inter and not nets_of(root):
        seen = views(with_socket_nic(root), version, settings)
    system = next(view.system for view in seen if view.system.gpu_of(0) is not None)
    graphs = search_graphs(system, version, settings, nvls=False)
    return compared(case["graphs"], graphs, case["case"])


def runs() -> list[dict[str, Any]]:
    return sorted(emulated(), key=lambda case: str(case["case"]))


def needs(folder: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not (CAPTURES / folder).exists(), reason="captures are not here")


@needs(GRAPHS)
def test_some_of_the_graphs_are_nccls_own() -> None:
    cases = [(stem, entry) for stem in names(GRAPHS) for entry in expected(GRAPHS, stem)]
    assert len(cases) >= 57 * 13
    misses = [
        miss
        for stem, entry in cases[::SAMPLED]
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


def rccl_misses(stem: str, entries: list[dict[str, Any]]) -> list[str]:
    misses = [m for entry in entries for m in graph_misses(RCCL_GRAPHS, "rccl-2.21.5", stem, entry)]
    odd = stem == TWO_OF_A_NUMBER
    assert not odd or any("two_node" in miss for miss in misses)
    return [miss for miss in misses if not (odd and "two_node" in miss)]


@needs(RCCL_GRAPHS)
def test_a_sixth_of_rccls_graphs_is_its_own() -> None:
    misses = [
        miss
        for stem in names(RCCL_GRAPHS)
        if stem not in RCCL_SEARCHED
        for miss in rccl_misses(stem, expected(RCCL_GRAPHS, stem)[:1])
    ]
    assert not misses, "\n".join(misses)


@needs(RCCL_GRAPHS)
@pytest.mark.captures
@pytest.mark.parametrize("stem", names(RCCL_GRAPHS))
def test_rccl_takes_or_searches_the_same_graphs(stem: str) -> None:
    misses = rccl_misses(stem, expected(RCCL_GRAPHS, stem))
    assert not misses, "\n".join(misses)


@needs(RCCL_GRAPHS)
@pytest.mark.parametrize("stem", names(RCCL_GRAPHS))
def test_the_nodes_that_rccl_knows_are_named(stem: str) -> None:
    version, _ = version_for("rccl-2.21.5")
    root = topology(CAPTURES / RCCL_GRAPHS / "topologies" / f"{stem}.xml")
    known = []
    for more in (False, True):
        system = views(root, version, Settings({}), more_nodes=more)[0].system
        total = limits(system, nets=bool(system.nodes[NET]))[1]
        known.append(ready_made(system, version, Settings({}), total))
        off = Settings({"RCCL_MODEL_MATCHING_DISABLE": "1"})
        assert ready_made(system, version, off, total) is None
    named = [model.name if model is not None else None for model in known]
    assert named == KNOWN.get(stem, [None, None])
    assert (named == [None, None]) == (stem in RCCL_SEARCHED)
