"""CPU affinities of GPUs that contradict their relations."""

from __future__ import annotations

from ....hardware.vendors import AMD, NVIDIA
from ....model.cpulist import members
from ....model.severity import NOTICE
from ...case import Case
from ...pairs import Pair
from ...rule import Found, Rule

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
    return pair.letters == "SYS" or bool(one and other and not one & other)


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
RULES = (AFFINITY,)
