"""Why a pair of devices is as fast as it is: topology, grant, figures."""

from __future__ import annotations

from ..expectation.judge import Judge
from ..expectation.judgement import ESTIMATE, Expected, Judgement, percent
from ..expectation.pairs import OF_PAIRS, QUANTITIES
from ..hardware.vendors import AMD
from ..model import quantities
from ..model.machine import Gpu, GpuPair
from ..model.page import ASSUMED, READ, Fact, Fix, Page
from ..model.snapshot import DataVerdict, Measurement
from ..model.units import figure, gbs
from ..node import Node
from ..wiring.codes import Relation
from ..wiring.ends import switch_links
from ..wiring.likeness import XGMI
from ..wiring.packages import packages
from ..wiring.paths import Path, path_between
from ..wiring.relations import relation
from ..wiring.wires import WireKind
from .edge import rate_facts
from .links import mesh_facts, missing_links
from .naming import name
from .nccl import pair_decision, transport_claim, transport_facts

NVLINKS = (WireKind.NVLINK, WireKind.NVSWITCH)
PEERS = (*NVLINKS, WireKind.XGMI)
"""Paths on which peer copies need not touch PCIe."""
GRANT = "NVML nvmlDeviceGetP2PStatus"
AMD_GRANT = "amdsmi amdsmi_topo_get_p2p_status"
KFD_GRANT = "KFD io_links and p2p_links, and their flags"
KFD_LISTS = "the kernel lists the pair as joined for peers; no byte was moved"
LETTERS = "codes of nvidia-smi topo -m (NCCL's differ)"
RCCL_LETTERS = "codes of PCIe distance, XGMI as in rocm-smi (RCCL's differ)"
RELAY = "which GPUs lie between is not told: this is the widest of the shortest ways"
NOT_A_TEST = "the driver looks this up by model, chipset and topology; no byte was moved"
OK, NOT_SUPPORTED = "ok", "not supported"
WORDS = {
    "gpu not supported": "the driver offers these GPUs no P2P: by design of the model, or MIG",
    "chipset not supported": "the driver does not offer P2P on this chipset",
    "topology not supported": "the driver does not offer P2P across this part of the topology",
    "disabled by registry key": "a registry key of the driver module switches P2P off",
    NOT_SUPPORTED: "the driver does not offer it for this pair",
}
"""What the words of nvmlGpuP2PStatus_t (nvml.words.P2P_STATUS) mean for a pair."""

TITLES = {
    quantities.WRITE: "How fast was it, one way?",
    quantities.BOTH_WAYS: "How fast was it while the other way ran too?",
    quantities.TOGETHER: "How fast were both ways, added?",
    quantities.READ: "How fast was reading, one way?",
    quantities.KERNEL_WRITE: "How fast did a kernel write there?",
    quantities.KERNEL_READ: "How fast did a kernel read there?",
    quantities.STAGED: "How fast was it through the host's memory?",
    quantities.CONCURRENT: "How fast was it while others copied?",
    quantities.LATENCY: "How long does a small copy take?",
    quantities.KERNEL_LATENCY: "How long does a load of a kernel take?",
    quantities.BYTES_ARRIVE: "Data verified?",
    quantities.CAN_ACCESS: "Can one reach the other's memory?",
    quantities.SEND_RECEIVE: "How fast does NCCL or RCCL move data here?",
    quantities.TRANSPORT: "What did NCCL or RCCL use when it ran?",
}
SWEEPS = (quantities.WRITE_SWEEP,)
"""Curves, which are drawn and not described in words."""


def why_pair(node: Node, a: str, b: str) -> Page:
    """Explain how `a` reaches `b`, in the order of the questions: could they, may they, do they."""
    title = f"{name(node, a)} → {name(node, b)}"
    if a == b:
        return Page.why(title=title, claim="A device and itself: nothing has to be crossed.")
    machine = node.snapshot.machine
    found = node.matrix.cell(a, b) or relation(machine, a, b)
    path = path_between(node.graph, a, b)
    one, other = machine.gpu(a), machine.gpu(b)
    ends = [gpu for gpu in (one, other) if gpu is not None]
    amd = bool(ends) and all(gpu.vendor == AMD.id for gpu in ends)
    facts = [_relation(found, amd=amd), *_path(node, path)]
    trouble = ("", "")
    dies = any(
        {a, b} == set(package.members) for package in packages(node.graph) if not package.shared
    )
    claim = _claim(found, path, machine.pair(a, b), dies=dies)
    if one is not None and other is not None:
        pair = machine.pair(a, b) or machine.pair(b, a)
        facts += mesh_facts(one, path)
        facts += [*_fabric(node, one, other), *_mig(node, one, other), *_grant(pair, one)]
        trouble = _trouble(node, one, other, pair)
        if one.mig_enabled or other.mig_enabled:
            claim = f"{found.code} on the board, but MIG is on: no P2P between the two."
        facts += measured_facts(node, one, other, path)
        decision = pair_decision(node, a, b)
        if decision is not None and node.prediction is not None:
            claim += f" {transport_claim(node.prediction, decision)}"
            if not decision.p2p and path is not None and path.kind in PEERS:
                claim = f"{claim[:-1]}, not {'xGMI' if path.kind is WireKind.XGMI else 'NVLink'}."
            facts += transport_facts(node, a, b)
    return Page.why(
        title=title,
        claim=claim,
        facts=tuple(facts),
        impact=trouble[0] or _consequence(path),
        fix=(Fix(text=trouble[1]),) if trouble[1] else (),
    )


def _claim(found: Relation, path: Path | None, pair: GpuPair | None, *, dies: bool) -> str:
    if path is None:
        return f"{found.code}: {found.meaning}. No path between the two can be drawn."
    if found.code == "?" and path.kind is WireKind.PCIE and path.payload_gbs is None:
        return f"{found.code}: {found.meaning}."
    if path.kind is WireKind.XGMI and path.wires[0].inside:
        return f"{found.code}: {path.wires[0].source}."
    way = {
        WireKind.NVLINK: "NVLink joins them directly",
        WireKind.NVSWITCH: "NVLink through the NVSwitches joins them",
        WireKind.XGMI: f"xGMI joins them directly{', as the two dies of one package' * dies}",
        WireKind.NET: "only a network interface joins them",
    }.get(path.kind, "PCIe joins them")
    weight = None if pair is None else pair.weight
    hops = "" if weight is None else f" (the driver's weight is {weight}, 15 for each hop)"
    if path.relayed:
        way = f"xGMI leads over other GPUs{hops}"
    elif found.code == XGMI and path.kind is WireKind.PCIE:
        way = f"the driver says xGMI{hops}, of which no link was read; PCIe, which it need not take"
    unread = "at a rate that no source tells"
    rate = unread if path.payload_gbs is None else f"{gbs(path.payload_gbs)} one way"
    limit = "" if path.complete or path.payload_gbs is None else " at most"
    return f"{found.code}: {way}, {rate}{limit} (payload)."


def _relation(found: Relation, *, amd: bool) -> Fact:
    return Fact(
        what="How are they connected?",
        value=f"{found.code}: {found.meaning}",
        because="; ".join(found.evidence),
        source=RCCL_LETTERS if amd else LETTERS,
        basis=found.basis,
    )


def _path(node: Node, path: Path | None) -> list[Fact]:
    if path is None:
        return []
    names = [name(node, vertex) for vertex in path.nodes]
    switches = {end for edge in path.edges for end in edge} - {path.nodes[0], path.nodes[-1]}
    if path.kind is WireKind.NVSWITCH and len(switches) > 1:
        names[1] = f"{len(switches)} NVSwitches"
    facts = [_way(names, path)]
    if path.narrowest is None or path.bottleneck is None:
        alone = path.wires[0] if len(path.wires) == 1 else None
        return facts if alone is None else [*facts, *rate_facts(alone, "What is that link?")]
    if len(path.wires) > 1:
        step = path.bottleneck
        because = f"the narrowest of {len(path.wires)} steps"
        if not path.complete and not path.relayed:
            between = any(vertex.startswith("socket:") for vertex in path.nodes)
            part = "the rate between CPUs" if between else "a part of the way"
            because += f"; {part} cannot be read and could be lower"
        at = f"{names[step]} – {names[step + 1]}: {path.narrowest.words()}"
        basis = READ if path.complete and not path.narrowest.assumed else ASSUMED
        facts.append(
            Fact(what="Where is it narrowest?", value=at, because=because, basis=basis, source="")
        )
    return [*facts, *rate_facts(path.narrowest, "What is that link?")]


def _way(names: list[str], path: Path) -> Fact:
    question, answer = "Which route does data take?", " → ".join(names)
    if not path.relayed:
        return Fact(what=question, value=answer, because="", source="")
    return Fact(
        what=question,
        value=f"xGMI, for example {answer}",
        because=f"{RELAY}; the driver maps the memory of all GPUs of a hive over xGMI, also where "
        "RCCL counts a pair without a link of its own over PCIe",
        source="amdgpu amdgpu_xgmi_same_hive",
        basis=ASSUMED,
    )


def _fabric(node: Node, one: Gpu, other: Gpu) -> list[Fact]:
    if not switch_links(one) or not switch_links(other):
        return []
    states: list[str] = []
    for gpu in (one, other):
        fabric = gpu.fabric
        state = None if fabric is None else fabric.state
        words = "not told" if state is None else state
        if fabric is not None and state == "completed" and fabric.status is not None:
            words += f" ({fabric.status})"
        states.append(f"{name(node, gpu.address)} {words}")
    because = "GPUs have to register with the NVSwitch fabric before NVLink carries P2P"
    known = {None if gpu.fabric is None else gpu.fabric.state for gpu in (one, other)}
    if known == {None}:
        because = one.why("fabric") or other.why("fabric") or "the driver was not asked"
    elif known <= {None, "not supported"}:
        because = "boards before Hopper do not register, so this says nothing here"
    elif len({gpu.fabric.partition for gpu in (one, other) if gpu.fabric}) > 1:
        because = "they are in different partitions of it, which NCCL asks between hosts alone"
    return [
        Fact(
            what="Is the NVSwitch fabric up?",
            value=", ".join(states),
            because=because,
            source="NVML nvmlDeviceGetGpuFabricInfoV",
        )
    ]


def _words(pair: GpuPair) -> list[tuple[str, str | None]]:
    if pair.link_type is not None or pair.p2p_dma is not None:
        return [
            ("read", pair.p2p_read),
            ("write", pair.p2p_write),
            ("atomics", pair.p2p_atomics),
            ("copy engines", pair.p2p_dma),
        ]
    return [
        ("read", pair.p2p_read),
        ("write", pair.p2p_write),
        ("NVLink", pair.p2p_nvlink),
        ("atomics", pair.p2p_atomics),
        ("PCIe", pair.p2p_pci),
    ]


def _mig(node: Node, one: Gpu, other: Gpu) -> list[Fact]:
    parted = [name(node, gpu.address) for gpu in (one, other) if gpu.mig_enabled]
    if not parted:
        return []
    return [
        Fact(
            what="Is MIG on?",
            value=f"yes: {', '.join(parted)}",
            because="parts of a GPU get no P2P, neither over NVLink nor over PCIe: by design",
            source="NVML nvmlDeviceGetMigMode",
        )
    ]


def _grant(pair: GpuPair | None, gpu: Gpu) -> list[Fact]:
    question = "Does the driver grant P2P?"
    if pair is None or pair.p2p_read is None:
        why = pair.why("p2p_read") if pair is not None else "no driver was asked"
        return [Fact(what=question, value="not known", because=why or "not asked", source="")]
    words = ", ".join(f"{what} {word or 'not known'}" for what, word in _words(pair))
    because = WORDS.get(pair.p2p_read, NOT_A_TEST)
    if pair.link_type is not None and gpu.kfd_node is not None and gpu.index is None:
        because = KFD_LISTS if pair.p2p_read == OK else because
        return [Fact(what=question, value=words, because=because, source=KFD_GRANT)]
    if pair.p2p_read == OK and pair.p2p_nvlink == OK and pair.p2p_pci == NOT_SUPPORTED:
        because += "; PCIe not supported beside NVLink ok is normal on boards with NVLink"
    elif pair.p2p_read == OK and pair.p2p_nvlink not in ("ok", None):
        because += "; granted over PCIe, not over NVLink"
    source = GRANT if pair.link_type is None else AMD_GRANT
    return [Fact(what=question, value=words, because=because, source=source)]


def _trouble(node: Node, one: Gpu, other: Gpu, pair: GpuPair | None) -> tuple[str, str]:
    """Say what is proven to be wrong with a pair, and what to do; ("", "") for nothing."""
    if one.mig_enabled or other.mig_enabled:
        return "With MIG on there are no peer copies between the two: NCCL goes by the host.", ""
    joined = path_between(node.graph, one.address, other.address)
    if joined is None or joined.kind not in NVLINKS or pair is None:
        return "", ""
    for gpu in (one, other):
        fabric = gpu.fabric
        failed = fabric is not None and fabric.joined
        if failed and fabric is not None and fabric.status not in (None, "Success"):
            return (
                f"{name(node, gpu.address)} registered with the fabric with the status "
                f"{fabric.status!r}: NVLink P2P can fail although the links are up.",
                "Read the fabric manager's log (journalctl -u nvidia-fabricmanager), restart it "
                "or reset the GPU; in a virtual machine or container its owner has to.",
            )
    if pair.p2p_nvlink is not None and pair.p2p_nvlink != OK:
        return (
            f"NVLinks between the two are up, but the driver says {pair.p2p_nvlink!r} to P2P over "
            "NVLink: copies and collectives take another way, or fail.",
            "See whether the fabric is up on every GPU (nvidia-smi -q, section Fabric) and "
            "whether the module disables P2P (/proc/driver/nvidia/params).",
        )
    for gpu in (one, other):
        missing = missing_links(node, gpu)
        if missing is not None:
            return (
                f"{name(node, gpu.address)}: {missing.claim} {missing.impact}",
                missing.fix,
            )
    return "", ""


def _consequence(path: Path | None) -> str:
    if path is None:
        return ""
    if path.kind in PEERS:
        return "Peer copies between the two need not touch PCIe or the CPUs."
    if any(vertex.startswith("socket:") for vertex in path.nodes):
        return "Traffic of this pair shares the link between the CPUs with everything else there."
    if any(vertex.startswith(("pci", "numa:")) for vertex in path.nodes):
        return "Traffic of this pair goes through the CPU's PCIe root, with or without P2P."
    return "Peer copies between the two can stay below their PCIe switch."


# What was measured between two GPUs, beside what a healthy pair reaches.
def measured_facts(node: Node, one: Gpu, other: Gpu, path: Path | None) -> list[Fact]:
    """State every figure that the snapshot holds for a pair; the collector keeps the newest."""
    found = [
        item
        for item in node.snapshot.measurements
        if (item.src, item.dst) == (one.address, other.address) and item.quantity not in SWEEPS
    ]
    judge = Judge(node.snapshot, node.prediction)
    judged = zip(found, judge.judge(found), strict=True)
    facts = [_measured(item, path, judgement) for item, judgement in judged]
    if not any(item.quantity in QUANTITIES for item in found):
        asked = Measurement(
            probe="", quantity=quantities.WRITE, src=one.address, dst=other.address, unit="GB/s"
        )
        facts.append(_expected(judge.expected(asked), path))
    if not found:
        facts.append(
            Fact(
                what="What was measured?",
                value="not tested yet",
                because="press p to measure this pair",
                source="",
            )
        )
    return facts


def _expected(expected: Expected, path: Path | None) -> Fact:
    question = "What should a copy reach, one way?"
    made = expected.band
    if made is None:
        return Fact(what=question, value="no reference", because=expected.note, source="")
    parts = []
    if path is not None and path.payload_gbs:
        share = made.healthy / path.payload_gbs
        parts.append(f"{percent(share)} of the payload rate, as others measured")
    if made.reach is not None:
        parts.append(f"{gbs(made.reach)} with what is there")
    parts += made.scaled
    return Fact(
        what=question,
        value=f"about {gbs(made.healthy)}",
        because="; ".join(parts),
        source=f"{made.basis} figure of {made.source}",
        basis=ASSUMED if made.basis == ESTIMATE else READ,
    )


def _measured(item: Measurement, path: Path | None, judgement: Judgement) -> Fact:
    question = TITLES.get(item.quantity, f"{item.quantity}?")
    how = [*filter(None, (item.engine, item.way, item.method))]
    source = item.source + (f" ({', '.join(how)})" if how else "")
    if item.value is None:
        answer = item.verdict or "no figure"
        because = item.why_none or item.why("value") or _verdict(item)
        return Fact(what=question, value=answer, because=because, source=source, basis=item.basis)
    answer = f"{figure(item.value)} {item.unit or ''}".strip()
    if item.low is not None and item.high is not None:
        answer += f" ({figure(item.low)} to {figure(item.high)})"
    parts: list[str] = []
    _, ways = QUANTITIES.get(item.quantity, ("", None))
    if item.wrong:
        parts.append("the data that arrived was wrong, so the speed means nothing")
    elif item.quantity in OF_PAIRS:
        if ways and path is not None and path.payload_gbs and item.unit == "GB/s":
            payload = path.payload_gbs * ways
            parts.append(f"{percent(item.value / payload)} of {gbs(payload)} payload")
        parts.append(_judged(judgement))
    return Fact(
        what=question, value=answer, because="; ".join(parts), source=source, basis=item.basis
    )


def _judged(judgement: Judgement) -> str:
    made = judgement.band
    text: str = judgement.verdict
    text += f" ({judgement.note})" if judgement.note else ""
    text += f", {judgement.cause}" if judgement.cause else ""
    if made is None or made.basis == ESTIMATE:
        return text
    unit = gbs(made.healthy) if made.unit == "GB/s" else f"{figure(made.healthy)} {made.unit}"
    return f"healthy is about {unit} ({made.basis} figure of {made.source}): {text}"


def _verdict(item: Measurement) -> str:
    if item.quantity == quantities.BYTES_ARRIVE and item.verdict == DataVerdict.ARRIVED:
        return "a kernel stored into the other GPU's memory and that GPU read it back, byte by byte"
    return ""
