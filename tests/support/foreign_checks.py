"""What public projects ask of a node by hand, each beside the same question put to gputop.

`asked` is their logic, written anew from what their code and threads say it does, on the facts that
NVML gives; it returns NO_FACTS where NVML was not asked, and an error where theirs raises. `ours`
is the script that replaces it. docs/library-compared.md is made of both:
`python -m tests.support.foreign_checks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import combinations, permutations
from typing import NamedTuple

import gputop
from gputop.topology.hardware.vendors import NVIDIA
from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.model.severity import CANNOT_TELL
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.demos.demo import names
from tests.support.places import RECORDINGS
from tests.support.rule_cases import cases

NO_FACTS = "no facts"
RAISES = "raises"
MOST_LINKS = 36
"""NVML_NVLINK_MAX_LINKS of nvidia-ml-py 13."""
CONSUMER = ("RTX 6000 Ada", "L40S")
Answer = bool | int | str | None


class ForeignCheck(NamedTuple):
    """One place: what it asks, their logic, ours, and what is wrong where the two differ."""

    place: str
    question: str
    asked: Callable[[NodeSnapshot], Answer]
    ours: Callable[[gputop.NodeAnswers], Answer]
    wrong: str


def _links_known(machine: Machine) -> bool:
    return any(gpu.nvlinks for gpu in machine.gpus)


def _pairs_known(machine: Machine) -> bool:
    by_nvml = machine.gpus[0].vendor == NVIDIA.id
    return by_nvml and any(pair.p2p_nvlink or pair.p2p_read for pair in machine.pairs)


def _granted(machine: Machine, src: Gpu, dst: Gpu, *fields: str) -> bool:
    pair = machine.pair(src.address, dst.address)
    return pair is not None and all(getattr(pair, field) == "ok" for field in fields)


# TensorRT-LLM: is the NVLink fabric of a GPU up?
def all_up_raising(snapshot: NodeSnapshot) -> Answer:
    """Walk 36 link numbers; one that the GPU does not have is an error that nobody catches."""
    if not _links_known(snapshot.machine):
        return NO_FACTS
    counts = [len(gpu.nvlinks) for gpu in snapshot.machine.gpus]
    return RAISES if any(0 < count < MOST_LINKS for count in counts) else all(counts)


def all_up_of_36(snapshot: NodeSnapshot) -> Answer:
    """The capability is answered for 36 numbers, the state for those that there are."""
    if not _links_known(snapshot.machine):
        return NO_FACTS
    return all(len(gpu.nvlinks_up) == MOST_LINKS for gpu in snapshot.machine.gpus)


def links_all_up(node: gputop.NodeAnswers) -> Answer:
    """Every GPU has links up, and no rule finds one that should be."""
    up = node.node.devices.links_up
    return links_healthy(node) if all(up[gpu.address] for gpu in node.gpus) else False


def links_healthy(node: gputop.NodeAnswers) -> Answer:
    """What the rules about NVLink find; a notice is what may be so by design."""
    found = [item.severity for item in node.check().findings if item.id.startswith("nvlink-")]
    if any(severity.counts and severity is not CANNOT_TELL for severity in found):
        return False
    return None if found else True


# DeepEP: are all GPUs joined by NVLink, and may all pairs use P2P?
def joined_by_name(snapshot: NodeSnapshot) -> Answer:
    """Only a GPU whose name says PCIE is looked at; any other counts as joined."""
    machine = snapshot.machine
    if not _pairs_known(machine) or machine.gpus[0].name is None:
        return NO_FACTS
    if "PCIE" not in machine.gpus[0].name:
        return True
    pairs = combinations(machine.gpus, 2)
    return len(machine.gpus) <= 2 and all(_granted(machine, *two, "p2p_nvlink") for two in pairs)


def all_joined(node: gputop.NodeAnswers) -> Answer:
    """Every pair by its relation."""
    pairs = combinations([gpu.address for gpu in node.gpus], 2)
    kinds = [node.node.pairs.kind(*pair) for pair in pairs]
    return all(kind.startswith(("NV", "XGMI")) for kind in kinds)


def preflight(snapshot: NodeSnapshot) -> Answer:
    """Every directed pair has to be granted, for reading and for writing."""
    machine = snapshot.machine
    if not _pairs_known(machine):
        return NO_FACTS
    pairs = permutations(machine.gpus, 2)
    return all(_granted(machine, *two, "p2p_read", "p2p_write") for two in pairs)


def all_granted(node: gputop.NodeAnswers) -> Answer:
    """The driver's grant of every pair."""
    keys = [gpu.address for gpu in node.gpus]
    said = {node.p2p(*pair).granted for pair in permutations(keys, 2)}
    return False if False in said else None if None in said else True


# SkyRL: which variables does NCCL need where P2P is not there?
def disabling(snapshot: NodeSnapshot) -> Answer:
    """One pair without a grant turns P2P off, and the host's shared memory too."""
    found = preflight(snapshot)
    return found if found == NO_FACTS else "" if found else "P2P and SHM off"


def needed(node: gputop.NodeAnswers) -> Answer:
    """Variables are needed only where the library would fail; it falls back by itself."""
    if node.explain().failure is None:
        return ""
    off = node.explain(env={"NCCL_P2P_DISABLE": "1"}).failure is None
    return "P2P off" if off else None


# axolotl: may P2P stay on?
def first_row(snapshot: NodeSnapshot) -> Answer:
    """One OK in GPU0's row of `nvidia-smi topo -p2p n` is enough; two models never have it."""
    machine = snapshot.machine
    if not _pairs_known(machine):
        return NO_FACTS
    gpus = machine.gpus
    listed = any(word in (gpu.name or "") for gpu in gpus for word in CONSUMER)
    if len(gpus) < 2 or (1 < len(gpus) < 8 and listed):
        return len(gpus) < 2
    return any(_granted(machine, gpus[0], other, "p2p_nvlink") for other in gpus[1:])


# HAMi: does NVLink join GPU0 and GPU1?
def remote_is_peer(snapshot: NodeSnapshot) -> Answer:
    """A link counts where its far end has the PCI address of the other GPU."""
    machine = snapshot.machine
    if not _links_known(machine) or len(machine.gpus) < 2:
        return NO_FACTS
    one, other = machine.gpus[:2]
    return any(link.remote_address == other.address for link in one.nvlinks_up)


def two_joined(node: gputop.NodeAnswers) -> Answer:
    """Their relation."""
    pair = [gpu.address for gpu in node.gpus[:2]]
    return node.node.pairs.kind(*pair).startswith("NV")


# torchcomms: does NVLink join this node and another one of the same kind?
def same_clique(snapshot: NodeSnapshot) -> Answer:
    """The number of the clique alone, which unlike clusters share."""
    fabric = snapshot.machine.gpus[0].fabric
    return NO_FACTS if fabric is None or fabric.clique_id is None else True


def same_domain(node: gputop.NodeAnswers) -> Answer:
    """Another node has another cluster, whose UUID is zeros where there is none."""
    fabric = node.gpus[0].fabric
    cluster = "" if fabric is None else fabric.cluster_uuid or ""
    return None if cluster.strip("0-") else False


# SGLang and vLLM: the NUMA node of GPU0.
def first_affinity(snapshot: NodeSnapshot) -> Answer:
    """The first of several nodes that the driver calls near."""
    near = snapshot.machine.gpus[0].memory_affinity
    return NO_FACTS if not near else near[0]


def own_or_first_cpu(snapshot: NodeSnapshot) -> Answer:
    """The NUMA node that NVML gives the GPU, be it the GPU's own memory; else of its first CPU."""
    gpu, host = snapshot.machine.gpus[0], snapshot.machine.host
    if gpu.gpu_numa_id is not None:
        return gpu.gpu_numa_id
    first = (gpu.cpu_affinity or "").partition("-")[0].partition(",")[0]
    known = () if host is None else host.numa
    near = [one.node for one in known if (one.cpus or "").partition("-")[0] == first]
    return near[0] if first and near else NO_FACTS


def near_node(node: gputop.NodeAnswers) -> Answer:
    """The kernel's, or the driver's where it names one alone."""
    return node.numa_of(node.gpus[0].address).numa_node


# NVIDIA's resiliency extension: are the NVLinks of all GPUs healthy?
def none_disabled(snapshot: NodeSnapshot) -> Answer:
    """Any link that is not active is a fault."""
    if not _links_known(snapshot.machine):
        return NO_FACTS
    return not any(link.active is False for gpu in snapshot.machine.gpus for link in gpu.nvlinks)


CHECKS = (
    ForeignCheck(
        "TensorRT-LLM before 17060",
        "is the NVLink fabric of every GPU up?",
        all_up_raising,
        links_all_up,
        "no GPU has 36 links: NVML refuses the numbers that are not there, and a healthy node "
        "loses its NVLink backends",
    ),
    ForeignCheck(
        "TensorRT-LLM before 19210",
        "the same",
        all_up_of_36,
        links_all_up,
        "NVML grants a capability for links that are not there, so 18 of 18 count as 18 of 36",
    ),
    ForeignCheck(
        "DeepEP 205",
        "does NVLink join every pair?",
        joined_by_name,
        all_joined,
        "a name without PCIE counts as joined: L40S, A40, a cube mesh, links that are down",
    ),
    ForeignCheck(
        "DeepEP 730",
        "is P2P granted for every pair?",
        preflight,
        all_granted,
        "what nobody asked counts as refused",
    ),
    ForeignCheck(
        "SkyRL 108",
        "which variables does NCCL need here?",
        disabling,
        needed,
        "by NCCL's rules it leaves P2P by itself, and keeps shared memory, without which all bytes "
        "go over the network; both off was a way round CUDA failure 217 of one version",
    ),
    ForeignCheck(
        "axolotl 3132",
        "may P2P stay on?",
        first_row,
        all_granted,
        "asks for NVLink where P2P over PCIe is granted too; one OK in the first row stands for "
        "all pairs",
    ),
    ForeignCheck(
        "HAMi before 2103",
        "does NVLink join GPU0 and GPU1?",
        remote_is_peer,
        two_joined,
        "behind NVSwitches the far end of a link is a switch, or hidden",
    ),
    ForeignCheck(
        "torchcomms before 3612",
        "is another node with this clique in the same NVLink domain?",
        same_clique,
        same_domain,
        "a clique is a number within one cluster; a single board has the cluster of zeros",
    ),
    ForeignCheck(
        "SGLang before 31317",
        "which NUMA node is next to GPU0?",
        first_affinity,
        near_node,
        "the first of several: right on this node; where all GPUs name the same nodes all "
        "processes are bound to one",
    ),
    ForeignCheck(
        "vLLM 38635",
        "the same",
        own_or_first_cpu,
        near_node,
        "on Grace the number is that of the GPU's own memory, which has no CPU to bind to",
    ),
    ForeignCheck(
        "nvidia-resiliency-ext 145",
        "are all NVLinks healthy?",
        none_disabled,
        links_healthy,
        "links are down by design: 12 of 18 on a PCIe board, cards without a bridge",
    ),
)
NO_LOGIC = (
    ("vLLM 42083", "a person writes GPU=NIC pairs; `node.nic_of(gpu).nic` gives them"),
    (
        "DeepEP 596",
        "each rank tries to map the memory of the others, which takes a job on several nodes; that "
        "it counts the NVLink domain and not the node is what its authors want",
    ),
    ("torchcomms 3704", "the check is that of 3612: it switches on again what that fault had off"),
)
RECORDED = (
    "hgx-h200-4gpu-live/snapshot.json",
    "torchrun-h200-2gpu/snapshot.json",
    "hgx-h200-4gpu-vm",
    "nccl-topologies/real.xml",
    "mi300x-amdsmi-6/amdsmi.json",
    "mi300x-amdsmi-7/amdsmi.json",
    *(f"nvidia-public/{path.name}" for path in sorted((RECORDINGS / "nvidia-public").iterdir())),
    *(f"amd-public/{path.name}" for path in sorted((RECORDINGS / "amd-public").iterdir())),
)
ODD = ("nvlink-", "silent-nvlink-", "p2p-refused-", "numa-node-")
"""How machines of tests/rule_cases are called whose links, grants or NUMA nodes are odd."""


@cache
def nodes() -> Mapping[str, Callable[[], gputop.NodeAnswers]]:
    """All demos and recordings, and machines that are odd in what is asked, by name."""
    found = {name: partial(gputop.demo, name) for name in names()}
    found |= {name: partial(gputop.load, RECORDINGS / name) for name in RECORDED}
    odd = (case for case in cases() if case.name.startswith(ODD))
    return found | {case.name: partial(gputop.NodeAnswers, case.snapshot) for case in odd}


def answers_of(check: ForeignCheck, node: gputop.NodeAnswers) -> tuple[Answer, Answer] | None:
    """Their answer and ours; None where the node has no GPU or lacks the facts of theirs."""
    theirs = check.asked(node.snapshot) if node.gpus else NO_FACTS
    return None if theirs == NO_FACTS else (theirs, check.ours(node))


def compared() -> dict[str, dict[str, tuple[Answer, Answer]]]:
    """Place -> node -> their answer and ours, of all nodes whose facts their logic would have."""
    found: dict[str, dict[str, tuple[Answer, Answer]]] = {check.place: {} for check in CHECKS}
    for name, read in nodes().items():
        try:
            node = read()
        except gputop.GputopError:  # a text that `--from` refuses, with the reason
            continue
        for check in CHECKS:
            if (pair := answers_of(check, node)) is not None:
                found[check.place][name] = pair
    return found


def table() -> str:
    """The page docs/library-compared.md."""
    known = compared()
    rows = []
    for check in CHECKS:
        answers = known[check.place]
        apart = {name: pair for name, pair in answers.items() if pair[0] != pair[1]}
        kinds = Counter(f"{_said(theirs)} for {_said(ours)}" for theirs, ours in apart.values())
        how = "; ".join(f"{count} × {kind}" for kind, count in kinds.most_common())
        rows.append(
            f"| {check.place} | {check.question} | {len(answers)} | {len(apart)} | {how or '-'} | "
            f"{check.wrong if apart else '-'} |"
        )
    rest = "\n".join(f"- {place}: {why}." for place, why in NO_LOGIC)
    return HEAD + "\n".join(rows) + "\n\n" + REST + rest + "\n"


def _said(answer: Answer) -> str:
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return "not known" if answer is None else str(answer) or "none"


HEAD = """# What others ask by hand, and what gputop says

Nine public projects ask in fourteen places which GPUs may use P2P, which NVLinks are up and which
NUMA node is near, each with code of its own. Here their logic, written anew from their threads and
sources, runs over all demos, all recordings of `tests/recordings` whose facts it needs, and
machines of `tests/rule_cases` that are odd in just that; beside it runs a script of a few lines on
[the library](library.md). Both are in `tests/support/foreign_checks.py`; a test keeps this page.

"Yes for no" is yes by their logic where the library says no; "not known" is what no fact here
decides.

| place | question | nodes | apart on | how | why |
| --- | --- | --- | --- | --- | --- |
"""
REST = "Three places have nothing to compare:\n\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(table())
