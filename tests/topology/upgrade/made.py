"""Small machines on which versions differ, and upgrades that several tests look at."""

from __future__ import annotations

from functools import cache

from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.upgrade.upgrade import Upgrade, upgrade
from tests.support.nccl.captures import snapshot_of
from tests.support.places import CAPTURES
from tests.support.snapshots import demo_node
from tests.topology.nccl.made import ARM, cpu, gpu, nic, snapshot, switch, system

C2C = '<c2c bw="25000" count="10"/></gpu>'
RANDOM = CAPTURES / "nccl-versions-graph" / "topologies-gz"


def sockets() -> str:
    """Two sockets of Sapphire Rapids, each with two GPUs and a NIC of 100 Gbit/s."""
    ends = (
        switch(base, gpu(base + 1, 2 * n), gpu(base + 2, 2 * n + 1), nic(base + 3, n, speed=100000))
        for n, base in enumerate((0x10, 0x80))
    )
    return system(*(cpu(numa, one) for numa, one in enumerate(ends)))


@cache
def machine(name: str) -> NodeSnapshot:
    """A made-up machine, a random one of the recordings, or a demo."""
    if name == "grace":  # two GPUs with C2C to one CPU, and a NIC
        gpus = [gpu(0x10 + rank, rank).replace("</gpu>", C2C) for rank in range(2)]
        return snapshot(system(cpu(0, *gpus, switch(0x30, nic(0x31, 0)), kind=ARM)))
    if name == "sockets":
        return snapshot(sockets())
    if name.endswith(".xml"):
        return snapshot_of(RANDOM / name)
    return demo_node(name).snapshot


@cache
def upgraded(name: str, first: str, second: str, hosts: int = 1) -> Upgrade:
    """What changes on such a machine; versions with their library, "nccl-2.21.5"."""
    return upgrade(machine(name), first, second, nodes=hosts)
