"""What a search reads of a system, without names: alike means alike in all of it."""

from __future__ import annotations

from threading import Event

import pytest

from gputop.topology.nccl.nodes import GPU
from gputop.topology.nccl.search import graphs as remembering
from gputop.topology.nccl.search.fast.inputs import Inputs
from gputop.topology.nccl.search.graphs import search_graphs
from gputop.topology.nccl.search.space import SearchSpace
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.system.domains import views
from gputop.topology.nccl.versions import version_for
from gputop.topology.nccl.xml.read import read_topology

from ...made import cpu, gpu, nic, switch, system
from ...nodes import made


def counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A process that has not searched yet; what is searched from here on."""
    searches: list[object] = []
    search = remembering._search

    def counting(*given: object, **named: bool) -> remembering.Found:
        searches.append(given)
        return search(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(remembering, "_search", counting)
    monkeypatch.setattr(remembering, "_remembered", {})
    monkeypatch.setattr(remembering, "_searched", Event())
    return searches


def test_a_process_that_searches_again_remembers_what_it_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches = counted(monkeypatch)
    version, _ = version_for("nccl-2.28.9")
    (view, *_) = views(read_topology(four_sockets().encode(), "made"), version, Settings({}))
    kept = []
    found = []
    for _ in range(4):
        found.append(search_graphs(view.system, version, Settings({}), nvls=False, remember=False))
        kept.append(len(remembering._remembered))
    assert kept == [0, 1, 1, 1]
    assert len(searches) == 2
    assert found == [found[0]] * 4


@pytest.mark.parametrize("library", ["nccl-2.20.3", "nccl-2.28.9", "nccl-2.30.7"])
def test_domains_that_are_alike_are_searched_once(
    monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    """Each has GPUs and NICs of its own, and finds what it would find alone."""
    searches = counted(monkeypatch)
    version, _ = version_for(library)
    off = Settings({"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"})
    found = views(read_topology(four_sockets().encode(), "made"), version, off)
    assert len(found) == 8
    together = [search_graphs(view.system, version, off, nvls=False) for view in found]
    assert len(searches) == 1
    for view, graphs in zip(found, together, strict=True):
        monkeypatch.setattr(remembering, "_remembered", {})
        assert search_graphs(view.system, version, off, nvls=False) == graphs
        ranks, nets = [gpu.rank for gpu in view.system.nodes[GPU]], graphs.ring
        assert nets is not None
        assert all(sorted(order) == ranks for order in nets.orders)
    assert len({graphs.ring.nets for graphs in together if graphs.ring}) == 8


def four_sockets() -> str:
    """Eight GPUs, each with a NIC under its switch, two on a socket."""
    return system(
        *(
            cpu(
                numa,
                *(
                    switch(0x90 + rank, gpu(0x10 + rank, rank), nic(0x50 + rank, rank))
                    for rank in (2 * numa, 2 * numa + 1)
                ),
            )
            for numa in range(4)
        )
    )


def test_an_order_of_nics_that_differs_is_another_search() -> None:
    """Equal but for the NIC that a GPU prefers: the digest must tell them apart."""
    version, _ = version_for("nccl-2.28.9")
    digests = set()
    for speeds in ((100000, 400000), (400000, 100000)):
        nics = [nic(0x50 + dev, dev, speed=speed) for dev, speed in enumerate(speeds)]
        one = made(
            system(cpu(0, gpu(0x10, 0), nics[0]), cpu(1, gpu(0x11, 1), nics[1])), more_nodes=True
        )
        digests.add(
            Inputs(
                SearchSpace(one, version, Settings({}), nvls=False),
                version,
                Settings({}),
                nvls=False,
            ).digest()
        )
    assert len(digests) == 2
