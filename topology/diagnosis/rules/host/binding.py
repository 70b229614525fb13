"""Binding: processes and containers far from their GPUs, and CPUs near them."""

from __future__ import annotations

from collections.abc import Iterable

from ....hardware.vendors import AMD, NVIDIA
from ....model import quantities
from ....model.cpulist import members
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.readings import ProcessReading
from ....model.severity import NOTICE, SLOW
from ....wiring.graph import gpu_numa
from ...case import Case
from ...pairs import Pair
from ...rule import Found, Proof, Rule
from ...shared.gpu_lists import visible
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


_SHOWN = 4


def _check(case: Case) -> Found:
    pairs = case.pairs
    cpus = {gpu.address: members(gpu.cpu_affinity) for gpu in case.gpus}
    if not pairs or sum(bool(found) for found in cpus.values()) < 2:
        return None
    # No CPU belongs to two NUMA nodes.
    wrong = [
        (pair, "the same" if cpus[pair.ends[0]] == cpus[pair.ends[1]] else "overlapping")
        for pair in pairs
        if _apart(pair) and (cpus[pair.ends[0]] or set()) & (cpus[pair.ends[1]] or set())
    ]
    # Lists that overlap in part contradict each other whatever lies between the GPUs.
    known = {found for found in cpus.values() if found}
    partly = any(one & other for one in known for other in known if not one <= other <= one)
    nested = partly and all(
        one <= other or other <= one or not one & other for one in known for other in known
    )
    if not wrong and (not partly or nested):
        return []
    who = sorted({end for pair, _ in wrong for end in pair.ends}) or sorted(cpus)
    return AFFINITY.finding(
        NOTICE,
        f"the CPUs near {case.names(who) if len(who) <= _SHOWN else 'the GPUs'} "
        + (
            "are the same although their NUMA nodes differ"
            if wrong and wrong[0][1] == "the same"
            else "overlap"
        ),
        devices=who,
        evidence=[
            (
                f"CPU affinity of {case.name(address)}",
                next(gpu.cpu_affinity or "" for gpu in case.gpus if gpu.address == address),
                ", ".join(case.snapshot.source),
            )
            for address in who[:_SHOWN]
        ],
        impact="One of the two is not true, as in a guest or under firmware that tells no "
        "NUMA node of its slots: a program that binds its ranks by them binds some far from "
        "their GPU.",
        fix=[
            "See what the kernel says of each GPU; -1 means that nobody told it. "
            "$ cat /sys/bus/pci/devices/*/numa_node"
        ],
    )


def _apart(pair: Pair) -> bool:
    """Whether the two belong to different NUMA nodes, by their relation or by the driver."""
    one, other = (set(gpu.memory_affinity or ()) for gpu in (pair.one, pair.other))
    return pair.code == "SYS" or bool(one and other and not one & other)


def _limit(case: Case) -> Found:
    container = case.host.container
    granted: list[tuple[str, float, int, str]] = []
    known = False
    if container is not None:
        cpus = members(container.cpuset)
        known = container.cpu_quota is not None or bool(cpus)
        known = known or container.why("cpu_quota") == "unlimited"
        limits = [float(len(cpus))] if cpus else []
        limits += [container.cpu_quota] if container.cpu_quota is not None else []
        if limits:
            granted.append(
                ("what is started here", min(limits), len(visible(case)), "cgroup of gputop")
            )
    for process, gpus in jobs(case):
        if process.cpu_quota is not None:
            known = True
            granted.append((called(process), process.cpu_quota, len(gpus), "cgroup of the process"))
    if not known:
        return None
    each = case.threshold(LIMIT, "minimum_cpus_per_gpu")
    few = [grant for grant in granted if grant[1] < each * grant[2]]
    if not few:
        return []
    who, cpus_granted, count, _ = few[0]
    return LIMIT.finding(
        SLOW,
        f"{who} may use {cpus_granted:.3g} CPUs for {count} GPU{'s' * (count != 1)}",
        evidence=[
            (
                f"CPUs that {who} may use",
                f"{cpus_granted:.3g} for {count} GPU{'s' * (count != 1)}",
                f"{source} (cpu.max, cpuset)",
            )
            for who, cpus_granted, count, source in few
        ],
        impact="Each rank has a main thread that launches kernels, and threads of "
        f"{case.words.library} "
        "beside it. They stop until the next period once the quota is used up, and all ranks "
        "wait for the one that stopped.",
        fix=[
            "Ask for more CPUs: in Kubernetes resources.limits.cpu, in Slurm "
            "--cpus-per-gpu, in Docker --cpus.",
        ],
    )


def _cpuset(case: Case) -> Found:
    container = case.host.container
    cpus = members(container.cpuset) if container is not None else None
    if container is None or not cpus or not case.host.numa:
        return None
    if not several_nodes(case):
        return []
    far = [
        gpu
        for gpu in visible(case)
        if (near := local_cpus(case, gpu)) is not None and not cpus & near
    ]
    if not far:
        return []
    inside = same_socket(case, nodes_of(case, cpus), far)
    return CPUSET.finding(
        NOTICE if inside else SLOW,
        f"no CPU next to {case.names(far)} may be used here",
        devices=far,
        evidence=[
            (
                "CPUs that this cgroup may use",
                container.cpuset or "",
                "cgroup cpuset.cpus.effective",
            ),
            *(
                (
                    f"CPUs next to {case.name(gpu)}",
                    gpu.cpu_affinity or f"those of NUMA node {gpu.numa_node}",
                    "sysfs local_cpulist, numa_node",
                )
                for gpu in far
            ),
        ],
        impact="Every copy between the host and these GPUs "
        + ("takes a longer way inside the socket" if inside else "crosses the link between sockets")
        + ", and no binding inside the job can change that.",
        fix=[
            "Give the job CPUs of the same socket: in Kubernetes the topology manager "
            "policy single-numa-node, in Slurm --gpu-bind=closest, in Docker "
            "--cpuset-cpus.",
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
AFFINITY = Rule(
    id="affinity-contradicts",
    family="D11",
    title="CPU affinities of GPUs that repeat or overlap across NUMA nodes",
    evidence="relations of all pairs of GPUs, and the CPUs near each by the driver",
    disproof="one NUMA node for the GPUs in sysfs, or separate lists in {asked}",
    asked=((NVIDIA.id, "`nvidia-smi topo -m`"), (AMD.id, "`amd-smi topology`")),
    sources=("nvidia-smi topo -m: CPU Affinity and NUMA Affinity", "NVIDIA/nccl-tests#57"),
    check=_check,
)
LIMIT = Rule(
    id="cpu-limit-low",
    title="fewer CPUs than GPUs in the cgroup",
    evidence="CPU quota and cpuset of the container or of a GPU process",
    disproof="a cpu.max and a cpuset of at least one CPU per GPU",
    sources=("Linux Documentation/admin-guide/cgroup-v2.rst", "NCCL user guide, troubleshooting"),
    check=_limit,
    thresholds=(("minimum_cpus_per_gpu", 1.0),),
)
CPUSET = Rule(
    id="cpuset-far",
    family="D11",
    title="a cpuset without a CPU next to a GPU",
    evidence="cpuset of the cgroup, NUMA node of the GPUs, two nodes or more",
    disproof="a cpuset with CPUs of the NUMA node of each GPU",
    sources=("NVIDIA/nccl#1017", "NVIDIA/nccl-tests#57"),
    check=_cpuset,
)
RULES = (BINDING, BALANCING, AFFINITY, CPUSET, LIMIT)
