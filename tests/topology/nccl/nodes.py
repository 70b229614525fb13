"""Common nodes as systems, and what the graph search finds on them."""

from __future__ import annotations

from gputop.topology.nccl.nodes import System
from gputop.topology.nccl.prediction import Graphs, SearchGraph
from gputop.topology.nccl.search.graphs import search_graphs
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.system.domains import views
from gputop.topology.nccl.versions import version_for
from gputop.topology.nccl.xml.read import read_topology

from .made import AMD, SWITCH, cpu, gpu, nic, switch, system

SKYLAKE = 'arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85"'
SAPPHIRE = 'arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"'
EMERALD = 'arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207"'
GEN3, GEN4, GEN5 = "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe"
HIDDEN = "fffffff:ff:ff.0"


def made(xml: str, *, more_nodes: bool = False, library: str = "nccl-2.28.9") -> System:
    version, _ = version_for(library)
    root = read_topology(xml.encode(), "made")
    return views(root, version, Settings({}), more_nodes=more_nodes)[0].system


def searched(
    xml: str,
    env: dict[str, str] | None = None,
    *,
    more_nodes: bool = False,
    nvls: bool = False,
    library: str = "nccl-2.28.9",
) -> Graphs:
    version, _ = version_for(library)
    one = made(xml, more_nodes=more_nodes, library=library)
    return search_graphs(one, version, Settings(env or {}), nvls=nvls)


def shape(graph: SearchGraph | None) -> tuple[int, float, float, str]:
    assert graph is not None
    return graph.channels, graph.bw_intra, graph.bw_inter, graph.type_intra


def nvswitch(count: int, sm: int, links: int, nic_mbps: int = 0, together: int = 1) -> str:
    """GPUs on NVSwitch, so many under each PCIe switch, with as many NICs if asked."""
    speed = GEN4 if sm < 90 else GEN5
    halves: list[list[str]] = [[], []]
    for first in range(0, count, together):
        inside = []
        for rank in range(first, first + together):
            inside.append(gpu(0x10 + rank, rank, [(HIDDEN, links, SWITCH)], sm=sm, speed=speed))
            if nic_mbps:
                inside.append(nic(0x60 + rank, rank, speed=nic_mbps))
        halves[first * 2 // count].append(switch(0xB0 + first, *inside))
    return system(*(cpu(numa, *inside) for numa, inside in enumerate(halves) if inside))


def pcie(count: int, kind: str, speed: str, *, sm: int = 80, sockets: int = 1) -> str:
    """GPUs on root ports."""
    cpus = []
    for numa in range(sockets):
        share = range(numa * count // sockets, (numa + 1) * count // sockets)
        cpus.append(
            cpu(numa, *(gpu(0x10 + rank, rank, sm=sm, speed=speed) for rank in share), kind=kind)
        )
    return system(*cpus)


def sockets(kind: str) -> str:
    """Four GPUs of PCIe gen 5 on two sockets."""
    return pcie(4, kind, GEN5, sm=90, sockets=2)


def pairs(count: int, kind: str, sm: int, links: int, speed: str, sockets: int = 2) -> str:
    """GPUs on root ports with NVLink bridges between neighbours."""
    cpus = []
    for numa in range(sockets):
        share = range(numa * count // sockets, (numa + 1) * count // sockets)
        inside = [
            gpu(
                0x10 + rank,
                rank,
                [(f"0000:{0x10 + (rank ^ 1):02x}:00.0", links, "0x030200")],
                sm=sm,
                speed=speed,
            )
            for rank in share
        ]
        cpus.append(cpu(numa, *inside, kind=kind))
    return system(*cpus)


def cube_mesh() -> str:
    """DGX-1V: eight V100, six NVLinks each."""
    near = {
        0: {1: 1, 2: 1, 3: 2, 4: 2}, 1: {0: 1, 2: 2, 3: 1, 5: 2}, 2: {0: 1, 1: 2, 3: 2, 6: 1},
        3: {0: 2, 1: 1, 2: 2, 7: 1}, 4: {5: 1, 6: 1, 7: 2, 0: 2}, 5: {4: 1, 6: 2, 7: 1, 1: 2},
        6: {4: 1, 5: 2, 7: 2, 2: 1}, 7: {4: 2, 5: 1, 6: 2, 3: 1},
    }  # fmt: skip
    cpus = []
    for numa in range(2):
        inside = [
            gpu(
                0x10 + rank,
                rank,
                [(f"0000:{0x10 + to:02x}:00.0", count, "0x030200") for to, count in links.items()],
                sm=70,
                speed=GEN3,
            )
            for rank, links in near.items()
            if rank // 4 == numa
        ]
        cpus.append(cpu(numa, *inside, kind=SKYLAKE))
    return system(*cpus)


def under_switch(speed: str, sm: int) -> str:
    inside = [gpu(0x10 + rank, rank, sm=sm, speed=speed) for rank in range(4)]
    return system(cpu(0, switch(0x90, *inside), kind=AMD))
