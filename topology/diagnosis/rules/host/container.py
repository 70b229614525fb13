"""The container around a job: too few CPUs for its GPUs, or CPUs of another socket."""

from __future__ import annotations

from ....model.cpulist import members
from ....model.severity import NOTICE, SLOW
from ...case import Case
from ...rule import Found, Rule
from ...shared.gpu_lists import visible
from ...shared.near import called, jobs, local_cpus, nodes_of, same_socket, several_nodes


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

RULES = (CPUSET, LIMIT)
