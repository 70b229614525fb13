"""What the rules about binding share: the CPUs next to a GPU, and the processes on it."""

from collections.abc import Iterable, Sequence

from ...model.cpulist import members
from ...model.machine import Gpu
from ...model.readings import ProcessReading
from ...wiring.graph import gpu_numa
from ..case import Case

FEW = 4
"""Up to this many GPUs are named one by one, even where the node has no others."""


def several_nodes(case: Case) -> bool:
    """Whether the host has more than one NUMA node with CPUs."""
    return sum(1 for node in case.host.numa if members(node.cpus)) > 1


def local_cpus(case: Case, gpu: Gpu) -> frozenset[int] | None:
    """CPUs next to a GPU; None where they are not known (`numa_node` -1 is unknown, not far)."""
    node = gpu_numa(gpu)
    if node is None:
        return members(gpu.cpu_affinity) or None
    known = next((numa_node for numa_node in case.host.numa if numa_node.node == node), None)
    return (members(known.cpus) if known is not None else None) or members(gpu.cpu_affinity) or None


def same_socket(case: Case, nodes: Iterable[int], gpus: Iterable[Gpu]) -> bool:
    """Whether these NUMA nodes lie in the socket of each GPU: one may be several (NPS4, SNC)."""
    sockets = {numa_node.node: numa_node.socket for numa_node in case.host.numa}
    here = {sockets.get(node) for node in nodes}
    theirs = [sockets.get(node) if (node := gpu_numa(gpu)) is not None else None for gpu in gpus]
    return bool(here) and None not in here and here.issuperset(theirs)


def nodes_of(case: Case, cpus: frozenset[int]) -> list[int]:
    """NUMA nodes of some CPUs."""
    return [
        numa_node.node
        for numa_node in case.host.numa
        if cpus & (members(numa_node.cpus) or frozenset())
    ]


def jobs(case: Case) -> tuple[tuple[ProcessReading, tuple[Gpu, ...]], ...]:
    """Processes on the examined GPUs, each with its GPUs; none that only the driver knows."""
    return case.processes


def called(process: ProcessReading) -> str:
    """The name of a process: "process 4711 (python3)"."""
    return f"process {process.pid}" + (f" ({process.command})" if process.command else "")


def some(case: Case, addresses: Sequence[str]) -> str:
    """GPUs in one phrase: "all 8 GPUs" where these are all of more than FEW."""
    every = len(addresses) > FEW and len(set(addresses)) == len(case.machine.gpus)
    return f"all {len(case.machine.gpus)} GPUs" if every else case.names(addresses)
