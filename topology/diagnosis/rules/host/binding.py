"""Binding: processes and containers far from their GPUs, and CPUs near them."""

from collections.abc import Collection, Iterable, Mapping

from ....hardware.vendors import AMD, NVIDIA
from ....model import quantities
from ....model.cpulist import members
from ....model.english import plural
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.readings import ProcessReading
from ....model.severity import NOTICE, SLOW
from ....model.snapshot import Measurement
from ....wiring.graph import gpu_numa
from ...case import Case
from ...gpu_rule import of_gpus
from ...pairs import Pair
from ...rule import Found, Proof, Rule, faulty, needed
from ...shared.gpu_lists import visible
from ...shared.near import called, jobs, local_cpus, nodes_of, same_socket, several_nodes, some

SAME = 0.95
"""Share of the near node's rate from which a far one costs nothing."""


def _binding(case: Case) -> Found:
    if not several_nodes(case):
        return [] if case.host.numa else None
    known = needed(
        [
            (process, gpus)
            for process, gpus in jobs(case)
            if process.cpu_affinity is not None or process.memory_nodes is not None
        ]
    )
    # Most processes of a job are bound alike, and there may be thousands.
    bound = {_binding_of(process, gpus): (process, gpus) for process, gpus in known}
    ways = {key: _far(case, *example) for key, example in bound.items()}
    judged = [(process, gpus, *ways[_binding_of(process, gpus)]) for process, gpus in known]
    far = faulty([(process, gpus, words) for process, gpus, words, _ in judged if words])
    inside = all(short for *_, words, short in judged if words)
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
    who, verb = (called(process), "is") if len(far) == 1 else (f"{len(far)} processes", "are")
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
                "$ numactl --cpunodebind={:number} --membind={:number} PROGRAM",
                gpu_numa(gpus[0]),
                gpu_numa(gpus[0]),
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


def _granted_here(case: Case) -> Iterable[tuple[str, float, int, str]]:
    """The CPUs that a cgroup grants to what is started here: who, CPUs, GPUs and the source."""
    container = case.host.container
    if container is None:
        return
    cpus, quota = members(container.cpuset), container.cpu_quota
    limits = [float(len(cpus))] if cpus else []
    limits += [quota] if quota is not None else []
    if limits:
        yield "what is started here", min(limits), len(visible(case)), "cgroup of gputop"


def _unlimited(case: Case) -> bool:
    container = case.host.container
    return container is not None and container.why("cpu_quota") == "unlimited"


def _rates(case: Case, devices: Iterable[str]) -> list[tuple[str, float, float]]:
    """Address, and GB/s one way from the GPU's own node and from the slowest other, if measured."""
    found = []
    for address in devices:
        gpu = case.machine.gpu(address)
        node = gpu_numa(gpu) if gpu is not None else None
        copies = [
            (figure.details["numa_node"] == node, figure.value)
            for figure in case.figures(quantities.HOST_TO_DEVICE)
            if figure.src == address and figure.value and _pinned_on_node(figure)
        ]
        near = [value for own, value in copies if own]
        away = [value for own, value in copies if not own]
        if near and away:
            found.append((address, max(near), min(away)))
    return found


def _pinned_on_node(figure: Measurement) -> bool:
    variant = figure.variant or ""
    pinned = variant == "pinned" or variant.startswith("pinned, NUMA node")
    return pinned and figure.details.get("numa_node") is not None


def _far(case: Case, process: ProcessReading, gpus: tuple[Gpu, ...]) -> tuple[str, bool]:
    """Say how a process is bound away from all its GPUs, and whether still in their socket.

    "" where it is not.
    """
    near = [local_cpus(case, gpu) for gpu in gpus]
    cpus, nodes = members(process.cpu_affinity), members(process.memory_nodes)
    wanted = [*map(gpu_numa, gpus)]
    if cpus and all(local is not None and not cpus & local for local in near):
        where = ", ".join(sorted({str(node) for node in wanted if node is not None}))
        place = f" (NUMA node {where})" if where else ""
        words = f"CPUs {process.cpu_affinity}, none of them next to the GPU{place}"
        return words, same_socket(case, nodes_of(case, cpus), gpus)
    if nodes and nodes.isdisjoint(wanted) and None not in wanted:
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
    near = dict(_cpus_near(case))
    if not case.pairs or len(near) < 2:
        return None
    # No CPU belongs to two NUMA nodes.
    wrong = [pair for pair in case.pairs if _apart(pair) and _common(near, *pair.ends)]
    # Lists that overlap in part contradict each other whatever lies between the GPUs.
    if not wrong and not _overlap_in_part(set(near.values())):
        return []
    who = sorted({end for pair in wrong for end in pair.ends}) or sorted(
        gpu.address for gpu in case.gpus
    )
    same = wrong and near[wrong[0].ends[0]] == near[wrong[0].ends[1]]
    names = case.names(who) if len(who) <= _SHOWN else "the GPUs"
    return AFFINITY.finding(
        NOTICE,
        f"the CPUs near {names} "
        f"{'are the same although their NUMA nodes differ' if same else 'overlap'}",
        devices=who,
        evidence=[
            (
                f"CPU affinity of {case.name(gpu)}",
                case.devices.gpus[gpu].cpu_affinity or "",
                case.source,
            )
            for gpu in who[:_SHOWN]
        ],
        impact="One of the two is not true, as in a guest or under firmware that tells no "
        "NUMA node of its slots: a program that binds its ranks by them binds some far from "
        "their GPU.",
        fix=[
            "See what the kernel says of each GPU; -1 means that nobody told it. "
            "$ cat /sys/bus/pci/devices/*/numa_node"
        ],
    )


def _cpus_near(case: Case) -> Iterable[tuple[str, frozenset[int]]]:
    """The CPUs next to each examined GPU, by the driver."""
    for gpu in case.gpus:
        if cpus := members(gpu.cpu_affinity):
            yield gpu.address, cpus


def _common(near: Mapping[str, frozenset[int]], one: str, other: str) -> frozenset[int]:
    return near.get(one, frozenset()) & near.get(other, frozenset())


def _overlap_in_part(known: Collection[frozenset[int]]) -> bool:
    """Whether some of these sets have a part in common, and neither holds the other."""
    return any(
        one & other and not one <= other and not other <= one for one in known for other in known
    )


def _apart(pair: Pair) -> bool:
    """Whether the two belong to different NUMA nodes, by their relation or by the driver."""
    one, other = (set(gpu.memory_affinity or ()) for gpu in (pair.one, pair.other))
    return pair.far or bool(one and other and not one & other)


def _limit(case: Case) -> Found:
    granted = [*_granted_here(case)]
    known = bool(granted) or _unlimited(case)
    for process, gpus in jobs(case):
        if process.cpu_quota is not None:
            known = True
            granted.append((called(process), process.cpu_quota, len(gpus), "cgroup of the process"))
    if not known:
        return None
    each = case.threshold(LIMIT, "minimum_cpus_per_gpu")
    few = faulty([grant for grant in granted if grant[1] < each * grant[2]])
    who, cpus, count, _ = few[0]
    return LIMIT.finding(
        SLOW,
        f"{who} may use {cpus:.3g} CPUs for {plural(count, 'GPU')}",
        evidence=[
            (
                f"CPUs that {who} may use",
                f"{cpus:.3g} for {plural(count, 'GPU')}",
                f"{source} (cpu.max, cpuset)",
            )
            for who, cpus, count, source in few
        ],
        impact="Each rank has a main thread that launches kernels, and threads of "
        f"{case.words.library} beside it. They stop until the next period once the quota is used "
        "up, and all ranks wait for the one that stopped.",
        fix=[
            "Ask for more CPUs: in Kubernetes resources.limits.cpu, in Slurm "
            "--cpus-per-gpu, in Docker --cpus.",
        ],
    )


def _cpuset(case: Case) -> Found:
    container = case.host.container
    cpuset = container.cpuset if container is not None else None
    cpus = needed(members(cpuset) or frozenset())
    needed(case.host.numa)
    if not several_nodes(case):
        return []
    far = faulty([gpu for gpu in visible(case) if cpus.isdisjoint(local_cpus(case, gpu) or cpus)])
    inside = same_socket(case, nodes_of(case, cpus), far)
    way = "takes a longer way inside the socket" if inside else "crosses the link between sockets"
    return of_gpus(
        CPUSET,
        case,
        far,
        NOTICE if inside else SLOW,
        "no CPU next to {gpus} may be used here",
        (
            "CPUs next to {gpu}",
            lambda gpu: gpu.cpu_affinity or f"those of NUMA node {gpu.numa_node}",
            "sysfs local_cpulist, numa_node",
        ),
        first=[
            (
                "CPUs that this cgroup may use",
                cpuset or "",
                "cgroup cpuset.cpus.effective",
            )
        ],
        impact=f"Every copy between the host and these GPUs {way}, and no binding inside the job "
        "can change that.",
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
