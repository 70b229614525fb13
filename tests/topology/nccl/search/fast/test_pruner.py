"""Attempts that cannot find a channel are not made."""

from __future__ import annotations

import pytest

from gputop.topology.nccl.nodes import PathType
from gputop.topology.nccl.search import draft as drafts
from gputop.topology.nccl.search import graphs as remembering
from gputop.topology.nccl.search.channel_search import ChannelSearch
from gputop.topology.nccl.search.draft import BALANCED_TREE, RING, GraphDraft
from gputop.topology.nccl.search.fast.pruner import AttemptPruner, Bounds
from gputop.topology.nccl.search.graphs import search_graphs
from gputop.topology.nccl.search.space import Choices, Gates, SearchSpace
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.system.domains import views
from gputop.topology.nccl.versions import version_for
from gputop.topology.nccl.xml.read import read_topology

from ...made import AMD, INTEL, cpu, gpu, nic, switch, system
from ...nodes import GEN4, SAPPHIRE, made, pcie


def test_paths_that_leave_gpus_apart_are_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sockets: what is no farther than a host bridge joins no ring, at any speed."""
    tried = []
    run = ChannelSearch.run

    def counted(self: ChannelSearch) -> int:
        tried.append(self._draft.copy())
        return run(self)

    monkeypatch.setattr(ChannelSearch, "run", counted)
    monkeypatch.setattr(remembering, "_remembered", {})
    version, _ = version_for("nccl-2.28.9")
    one = made(pcie(8, SAPPHIRE, GEN4, sockets=2))
    found = search_graphs(one, version, Settings({}), nvls=False)
    assert found.ring is not None
    assert found.ring.type_intra == "SYS"
    assert {draft.type_intra for draft in tried} == {PathType.SYS}


def test_a_link_that_all_share_bounds_the_channels() -> None:
    """Four GPUs under a switch on one side of a host and four on the other."""
    version, _ = version_for("nccl-2.28.9")
    halves = [
        switch(
            0x90 + side,
            *(gpu(0x10 + rank, rank, speed=GEN4) for rank in range(4 * side, 4 * side + 4)),
        )
        for side in range(2)
    ]
    off = Settings({"NCCL_P2P_DISABLE": "1"})
    root = read_topology(system(cpu(0, *halves, kind=AMD)).encode(), "made")
    one = views(root, version, off)[0].system
    bounds = Bounds(SearchSpace(one, version, off, nvls=False))
    # Gen 5 towards the host: 48 GB/s for the four of a side, whose ways all lead over it.
    ring = GraphDraft(RING, least=1, most=8, type_intra=PathType.SYS)
    for speed, channels in ((20000, 0), (12000, 1), (6000, 2)):
        ring.speed_intra = ring.speed_inter = speed
        assert bounds.channels(ring) == channels


def grouped(gpus: int, *, nics: bool) -> str:
    """Four GPUs under each switch on two sockets, with a NIC for each if asked."""
    sides: tuple[list[str], list[str]] = ([], [])
    for first in range(0, gpus, 4):
        inside = [gpu(0x10 + rank, rank, speed=GEN4) for rank in range(first, first + 4)]
        inside += [nic(0x40 + rank, rank, speed=200000) for rank in range(first, first + 4)] * nics
        sides[first * 2 // gpus].append(switch(0x90 + first, *inside))
    return system(*(cpu(numa, *side, kind=INTEL) for numa, side in enumerate(sides) if side))


def test_a_tree_sends_to_the_next_gpu_and_to_a_nic() -> None:
    """Over 24 GB/s the first two GPUs of a balanced tree send 20 and 10, or 16 and 8."""
    version, _ = version_for("nccl-2.28.9")
    one = made(grouped(4, nics=True), more_nodes=True)
    bounds = Bounds(SearchSpace(one, version, Settings({}), nvls=False))
    tree = GraphDraft(BALANCED_TREE, least=1, most=2, type_intra=PathType.SYS)
    tree.type_inter = PathType.SYS
    for speed, channels in ((20000, 0), (16000, 1), (8000, 2)):
        tree.speed_intra = tree.speed_inter = speed
        assert bounds.channels(tree) == channels


@pytest.mark.parametrize(("limit", "more_nodes"), [("PIX", False), ("SYS", True)])
def test_what_is_left_out_would_have_changed_nothing(
    limit: str, more_nodes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, _ = version_for("nccl-2.28.9")
    settings = Settings({"NCCL_P2P_LEVEL": limit})
    gpus = 4 if more_nodes else 20
    root = read_topology(grouped(gpus, nics=more_nodes).encode(), "made")
    one = views(root, version, settings, more_nodes=more_nodes)[0].system
    monkeypatch.setattr(remembering, "_remembered", {})
    monkeypatch.setattr(drafts, "STEPS", 1 << 10)  # less to wait for
    quick = search_graphs(one, version, settings, nvls=False)
    assert quick.ring is not None
    monkeypatch.setattr(Choices, "gates", Gates({}, [0] * gpus))
    monkeypatch.setattr(Bounds, "_tree_channels", lambda _, draft: draft.most)
    monkeypatch.setattr(AttemptPruner, "_includes", lambda *_: False)
    remembering._remembered.clear()
    assert search_graphs(one, version, settings, nvls=False) == quick
