"""Compares the CPUs and the memory of a process with its GPU's NUMA node, and with other ranks."""

from collections.abc import Iterable

import msgspec

from ..model.cpulist import members
from ..model.machine import Gpu, Machine
from ..model.readings import ProcessReading
from ..model.severity import Word
from ..model.surroundings import Host
from ..wiring.graph import gpu_numa


class Nearness(Word):
    """How the CPUs or the memory of a process lie to a GPU.

    near: all at the GPU's NUMA node; partly: some there, some at others; far: none there; one
    node: the host has but one.
    """

    NEAR = "near"
    PARTLY = "partly"
    FAR = "far"
    ONE_NODE = "one node"


NEAR, PARTLY, FAR, ONE_NODE = Nearness


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """One process against one GPU."""

    gpu: str
    """PCI address."""
    node: int | None = None
    """NUMA node of the GPU; None where it is not known, which does not mean that it is far."""
    cpus: Nearness | None = None
    """Of its CPUs; None where that is not known."""
    memory: Nearness | None = None
    """Of the nodes that its memory may come from; None where that is not known."""


def binding(machine: Machine, process: ProcessReading, gpu: Gpu) -> Binding:
    """Compare the CPUs and the memory that a process may use with the node of a GPU."""
    host = machine.host or Host()
    node = gpu_numa(gpu)
    if len([numa_node for numa_node in host.numa if not numa_node.without_cpus]) == 1:
        return Binding(gpu=gpu.address, node=node, cpus=ONE_NODE, memory=ONE_NODE)
    own = members(process.cpu_affinity)
    near = next(
        (members(numa_node.cpus) for numa_node in host.numa if numa_node.node == node), None
    )
    if not near:
        near = members(gpu.cpu_affinity) if node is None else None
    nodes = members(process.memory_nodes)
    return Binding(
        gpu=gpu.address,
        node=node,
        cpus=_word(own, near),
        memory=None if node is None else _word(nodes, frozenset({node})),
    )


def together(parts: tuple[Binding, ...]) -> Nearness | None:
    """One word for the CPUs of a process with several GPUs; None where any of them is not known."""
    words = {part.cpus for part in parts}
    if not words or None in words:
        return None
    return words.pop() if len(words) == 1 else PARTLY


def crowded(processes: Iterable[ProcessReading]) -> frozenset[int]:
    """PIDs of the processes that cannot all run at once: they have fewer CPUs than they are.

    These are all whose CPUs lie in a set that has fewer CPUs than processes bound to it.
    """
    allowed = {process.pid: members(process.cpu_affinity) for process in processes}
    bound = {pid: cpus for pid, cpus in allowed.items() if cpus}
    found: set[int] = set()
    for cpus in set(bound.values()):
        inside = [pid for pid, own in bound.items() if own <= cpus]
        if len(inside) > len(cpus):
            found.update(inside)
    return frozenset(found)


def _word(own: frozenset[int] | None, near: frozenset[int] | None) -> Nearness | None:
    if not own or not near:
        return None
    if own <= near:
        return NEAR
    return PARTLY if own & near else FAR
