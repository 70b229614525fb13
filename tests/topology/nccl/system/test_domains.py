"""Domains take their systems from that of the node, as if they were made anew."""

from __future__ import annotations

from itertools import product

import pytest

from gputop.topology.nccl.decide import untuned
from gputop.topology.nccl.prediction import Prediction
from gputop.topology.nccl.search import graphs
from gputop.topology.nccl.system import domains
from tests.grid import share
from tests.topology.nccl.made import AMD, INTEL, cpu, decide, gpu, nic, switch, system

LIBRARIES = ("nccl-2.20.3", "nccl-2.28.9", "nccl-2.30.7")
POWER = 'arch="ppc64"'
OFF = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}


def node(sm: int, kind: str) -> str:
    """Two sockets, each with two GPUs below the CPU and two below a switch with a NIC."""
    return system(
        *(
            cpu(
                numa,
                gpu(0x10 + numa, 4 * numa, sm=sm),
                gpu(0x20 + numa, 4 * numa + 1, sm=sm),
                switch(
                    0x90 + numa,
                    gpu(0x30 + numa, 4 * numa + 2, sm=sm),
                    gpu(0x40 + numa, 4 * numa + 3, sm=sm),
                    nic(0x50 + numa, numa),
                ),
                kind=kind,
            )
            for numa in range(2)
        )
    )


def decided(monkeypatch: pytest.MonkeyPatch, xml: str, library: str) -> Prediction:
    monkeypatch.setattr(untuned, "_kept", [])
    monkeypatch.setattr(graphs, "_remembered", {})
    return decide(xml, OFF, library=library)


@pytest.mark.parametrize(
    ("sm", "kind", "library"),
    share(
        product(
            [60, 70, 80, 90], [INTEL, AMD, POWER], ["nccl-2.20.3", "nccl-2.28.9", "nccl-2.30.7"]
        ),
        5,
    ),
)
def test_parts_of_a_node_equal_systems_made_anew(
    monkeypatch: pytest.MonkeyPatch, sm: int, kind: str, library: str
) -> None:
    xml = node(sm, kind)
    found = decided(monkeypatch, xml, library)
    assert len(found.views) > 1
    with monkeypatch.context() as patch:
        patch.setattr(domains, "_apart", lambda system: False)
        assert decided(monkeypatch, xml, library) == found
