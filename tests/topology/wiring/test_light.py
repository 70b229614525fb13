"""The light wiring gives the paths that the graph gives."""

from __future__ import annotations

from itertools import permutations

import pytest

from gputop.topology.wiring.likeness import light_graph
from gputop.topology.wiring.paths import path_between
from tests.support.snapshots import demo_node

DEMOS = ("dgx-1v", "hgx-h100-8", "mi250x-8", "mi300x-8", "sick-h100-8", "pcie-l40s-8")
"""Cube mesh, switches, dies, full mesh, links that are down, and PCIe alone."""


@pytest.mark.parametrize("demo", DEMOS)
def test_all_paths_of_gpus_are_those_of_the_graph(demo: str) -> None:
    node = demo_node(demo)
    light = light_graph(node.snapshot.machine)
    assert list(light) == list(node.graph)
    gpus = [gpu.address for gpu in node.snapshot.machine.gpus]
    for pair in permutations(gpus[:8], 2):
        assert path_between(light, *pair) == path_between(node.graph, *pair)
