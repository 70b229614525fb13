"""A single path is sought no farther than its end, and is the one that a whole search finds."""

from __future__ import annotations

import itertools

import pytest

from gputop.topology.wiring.paths import Trees, path_between, through_host
from tests.support.snapshots import demo_node


@pytest.mark.parametrize("demo", ["hgx-h100-8", "pcie-l40s-8", "mi300x-8", "dgx-1v"])
def test_a_path_is_the_same_with_and_without_trees(demo: str) -> None:
    node = demo_node(demo)
    machine = node.machine
    ends = [gpu.address for gpu in machine.gpus]
    ends += [nic.address for nic in machine.rdma if nic.address is not None]
    trees: Trees = {}
    for one, other in itertools.permutations(ends, 2):
        whole = path_between(node.graph, one, other, trees=trees)
        assert path_between(node.graph, one, other) == whole
        assert through_host(node.graph, one, other) is not None
    assert path_between(node.graph, ends[0], "no such node") is None
