"""NUMA: a process far from its GPU, and a kernel that moves pages by itself."""

from __future__ import annotations

from collections.abc import Iterable

from ....hardware.vendors import AMD
from ....model import quantities
from ....model.cpulist import members
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.readings import ProcessReading
from ....model.severity import NOTICE, SLOW
from ....wiring.graph import gpu_numa
from ...case import Case
from ...rule import Found, Proof, Rule
from ...shared.near import called, jobs, local_cpus, nodes_of, same_socket, several_nodes, some

SAME = 0.95
"""Share of the near node's rate from which a far one costs nothing."""


def _binding(case: Case) -> Found:
    if not several_nodes(case):
        return [] if case.host.numa else None
    known = [
        (process, gpus)
        for process, gpus in jobs(case)
        if process.cpu_affinity is not None or process.memory_nodes is not None
    ]
    if not known:
        return None
    # Most processes of a job are bound alike, and there may be thousands.
    bound = {_binding_of(process, gpus): (process, gpus) for process, gpus in known}
    ways = {key: _far(case, *example) for key, example in bound.items()}
    judged = [(process, gpus, *ways[_binding_of(process, gpus)]) for process, gpus in known]
    far = [(process, gpus, words) for process, gpus, words, _ in judged if words]
    inside = all(short for *_, words, short in judged if words)
    if not far:
        return []
    return _bound_far(case, far, inside)


def _bound_far(
    case: Case, far: list[tuple[ProcessReading, tuple[Gpu, ...], str]], inside: bool
) -> Finding:
    """The finding about processes, their GPUs and their binding; `inside`: one socket holds both.

    The first one is the example in the advice.
    """
    devices = sorted({gpu.address for _, gpus, _ in far for gpu in gpus})
    process, gpus, _ = far[0]
    rates = _rates(case, devices)
    same = bool(rates) and all(away >= SAME * near for _, near, away in rates)
    who = called(process) if len(far) == 1 else f"{len(far)} processes"
    verb = "is" if len(far) == 1 else "are"
    return BINDING.finding(
        NOTICE if same or inside else SLOW,
        f"{who} on {some(case, devices)} {verb} bound to the wrong NUMA node",
        devices=devices,
        evidence=_binding_evidence(case, far, rates),
        impact="Copies between the host's memory and these GPUs, and "
        f"{case.words.library}'s own threads, "
        + (
            "take a longer way inside the socket, which costs little on most hosts."
            if inside
            else "cross the link between sockets, which other traffic shares."
        )
        + ("" if rates else " The probe host measures what that costs here."),
        fix=[
            (
                "Start each rank on the NUMA node of its GPU. "
                f"$ numactl --cpunodebind={gpu_numa(gpus[0])} --membind={gpu_numa(gpus[0])} PROGRAM"
            ),
            (
                f"Or let {case.words.library}'s threads follow the GPU whatever the binding. "
                "$ export NCCL_IGNORE_CPU_AFFINITY=1"
            ),
        ],
    )


def _binding_evidence(
    case: Case,
    far: list[tuple[ProcessReading, tuple[Gpu, ...], str]],
    rates: list[tuple[str, float, float]],
) -> list[Proof]:
    bindings = [
        (
            f"binding of {called(process)} on {case.names(gpus)}",
            words,
            "/proc/PID/status, sysfs numa_node and local_cpulist",
        )
        for process, gpus, words in far
    ]
    return bindings + [
        (
            f"host to {case.name(address)}",
            f"{near:.3g} GB/s from its own node, {away:.3g} GB/s from another",
            "probe host",
        )
        for address, near, away in rates
    ]


def _binding_of(process: ProcessReading, gpus: tuple[Gpu, ...]) -> tuple[object, ...]:
    """What `_far` compares."""
    return process.cpu_affinity, process.memory_nodes, tuple(gpu.address for gpu in gpus)


def _rates(case: Case, devices: Iterable[str]) -> list[tuple[str, float, float]]:
    """Address, and GB/s one way from the GPU's own node and from the slowest other, if measured."""
    found = []
    for address in devices:
        gpu = case.machine.gpu(address)
        node = gpu_numa(gpu) if gpu is not None else None
        near: list[float] = []
        away: list[float] = []
        for figure in case.figures(quantities.HOST_TO_DEVICE):
            at = figure.details.get("numa_node")
            if (
                figure.src == address
                and _pinned(figure.variant)
                and figure.value
                and at is not None
            ):
                (near if at == node else away).append(figure.value)
        if near and away:
            found.append((address, max(near), min(away)))
    return found


def _pinned(variant: str | None) -> bool:
    return variant == "pinned" or (variant or "").startswith("pinned, NUMA node")


def _far(case: Case, process: ProcessReading, gpus: tuple[Gpu, ...]) -> tuple[str, bool]:
    """Say how a process is bound away from all its GPUs, and whether still in their socket.

    "" where it is not.
    """
    near = [local_cpus(case, gpu) for gpu in gpus]
    cpus = members(process.cpu_affinity)
    if cpus and all(local is not None and not cpus & local for local in near):
        where = sorted({str(gpu_numa(gpu)) for gpu in gpus if gpu_numa(gpu) is not None})
        place = f" (NUMA node {', '.join(where)})" if where else ""
        words = f"CPUs {process.cpu_affinity}, none of them next to the GPU{place}"
        return words, same_socket(case, nodes_of(case, cpus), gpus)
    nodes = members(process.memory_nodes)
    wanted = [gpu_numa(gpu) for gpu in gpus]
    if nodes and all(node is not None and node not in nodes for node in wanted):
        words = f"memory of NUMA node {process.memory_nodes} alone, and the GPU is on {wanted[0]}"
        return words, same_socket(case, nodes, gpus)
    return "", False


def _balancing(case: Case) -> Found:
    on = case.host.numa_balancing
    if on is None or not case.host.numa:
        return None
    if not on or not several_nodes(case):
        return []
    amd = any(gpu.vendor == AMD.id for gpu in case.gpus)
    return BALANCING.finding(
        SLOW if amd else NOTICE,
        "automatic NUMA balancing is on",
        evidence=[("kernel.numa_balancing", "1", "/proc/sys/kernel/numa_balancing")],
        impact="The kernel unmaps pages of running jobs to see who uses them: "
        + (
            "RCCL warns of it at start, and times of copies and collectives vary."
            if amd
            else "times of copies from pageable memory and of host threads may vary."
        ),
        fix=[
            "Switch it off until the next boot. # sysctl kernel.numa_balancing=0",
            "Keep it off with a file in /etc/sysctl.d. # ",
        ],
    )


BINDING = Rule(
    id="numa-binding",
    family="D11",
    title="processes bound to a NUMA node far from their GPU",
    evidence="CPUs and memory nodes of GPU processes, NUMA node of the GPUs, two nodes or more",
    disproof="host probe figures from both NUMA nodes within 5 % of each other",
    sources=("NVIDIA/nccl#1017", "NVIDIA/nccl-tests#57", "rapidsai/dask-cuda#1358"),
    check=_binding,
)
BALANCING = Rule(
    id="numa-balancing",
    family="D26",
    title="automatic NUMA balancing",
    evidence="kernel.numa_balancing on a host of two NUMA nodes or more",
    disproof="0 in /proc/sys/kernel/numa_balancing",
    sources=("ROCm/rccl#1026", "RCCL init.cc", "ROCm/amdsmi#81"),
    check=_balancing,
)

RULES = (BINDING, BALANCING)
