"""Nodes for predictions over several hosts."""

from __future__ import annotations

from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.hosts.equal_hosts import predict_hosts
from gputop.topology.nccl.hosts.records import MultiNode
from gputop.topology.nccl.settings import Settings
from tests.topology.nccl.made import SWITCH, cpu, gpu, nic, snapshot, switch, system

HIDDEN = "fffffff:ff:ff.0"


def pairs_of_gpu_and_nic(count: int) -> str:
    """GPUs on an NVSwitch, each with a NIC of 400 Gbit/s behind a switch of its own."""
    below = (
        switch(16 * n + 1, gpu(16 * n + 2, n, [(HIDDEN, 18, SWITCH)]), nic(16 * n + 3, n))
        for n in range(count)
    )
    return system(cpu(0, *below))


FOUR = snapshot(pairs_of_gpu_and_nic(4))
EIGHT = snapshot(pairs_of_gpu_and_nic(8))


def over(
    hosts: int,
    node: NodeSnapshot = FOUR,
    env: dict[str, str] | None = None,
    missing: tuple[tuple[int, str], ...] = (),
    library: str = "nccl-2.28.9",
) -> MultiNode:
    """The prediction for equal hosts."""
    return predict_hosts(node, Settings(env or {}), library=library, hosts=hosts, missing=missing)
