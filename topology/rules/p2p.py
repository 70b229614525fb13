"""P2P that the driver refuses: over NVLink, by the product, by the chipset, by a setting."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from . import vendors
from .case import Case
from .finding import BROKEN, BY_DESIGN, NOTICE, SLOW, Evidence, Finding, Fix
from .pairs import BELOW_SWITCH, NOT_GRANTED, OK, Pair, devices_of, named
from .rule import Rule

STATUS = "NVML nvmlDeviceGetP2PStatus"
PRODUCT = "gpu not supported"
REGISTRY = "disabled by registry key"
TOPOLOGY = "topology not supported"
"""Between sockets of older hosts P2P never worked."""
CONSUMER = re.compile(r"geforce|titan", re.IGNORECASE)
"""Boards whose driver refuses P2P with other words too: CNS or NS on a GeForce is the product."""
FORCED = re.compile(r"ForceP2P|RMForceStaticBar1|PeerMappingOverride", re.IGNORECASE)
_SHOWN = 4


def _whole(case: Case) -> list[Pair]:
    """Pairs whose P2P means something: under MIG and confidential computing it is off."""
    software = case.machine.software
    if software is not None and software.confidential_computing == "on":
        return []
    return [pair for pair in case.pairs if not pair.mig and _kept(pair)]


def _kept(pair: Pair) -> bool:
    return "vgpu" not in (pair.one.virtualization, pair.other.virtualization)


def _check_nvlink(case: Case) -> Iterable[Finding] | None:
    told = [pair for pair in _whole(case) if pair.words or _nvlink_words(pair)]
    if not told:
        return None
    asked = [pair for pair in told if pair.letters.startswith("NV")]
    refused = [pair for pair in asked if pair.granted is False]
    over_pcie = [
        pair for pair in asked if pair.granted and any(word != OK for word in _nvlink_words(pair))
    ]
    found = []
    if refused:
        found.append(
            _nvlink(
                case,
                refused,
                BROKEN,
                f"NVLinks are up, but the driver refuses P2P: {named(case, refused)}",
                "NCCL stops at start: it takes the refusal on an NVLink path for a hardware "
                "fault, unless NCCL_IGNORE_DISABLED_P2P=1 is set; then all goes over host memory.",
            )
        )
    if over_pcie:
        found.append(
            _nvlink(
                case,
                over_pcie,
                SLOW,
                f"NVLinks are up, but P2P does not use them: {named(case, over_pcie)}",
                "The driver grants P2P over PCIe alone. NCCL counts on NVLink here, and gets a "
                "tenth of it.",
            )
        )
    return found


def _nvlink_words(pair: Pair) -> list[str]:
    return [grant.p2p_nvlink for grant in pair.grants if grant.p2p_nvlink is not None]


def _nvlink(
    case: Case, pairs: Sequence[Pair], severity: str, title: str, consequence: str
) -> Finding:
    return NVLINK.finding(
        severity,
        title,
        devices=devices_of(pairs),
        evidence=[
            *(_said(case, pair) for pair in pairs[:_SHOWN]),
            Evidence(
                what=f"relation of {named(case, pairs, 1)}",
                value=f"{pairs[0].letters}: the links are trained",
                source="NVML nvmlDeviceGetNvLinkState",
            ),
        ],
        consequence=consequence,
        fix=[
            Fix(
                text="Compare the state of the fabric of all GPUs.",
                command="nvidia-smi -q | grep -A4 Fabric",
            ),
            Fix(
                text="Start the fabric manager of the driver's version, or reset the GPUs.",
                command="systemctl restart nvidia-fabricmanager",
                needs_root=True,
            ),
        ],
    )


def _said(case: Case, pair: Pair) -> Evidence:
    """The word against P2P, of the management library or of the runtime that a probe asked."""
    said = {word for grant in pair.grants for word in (grant.p2p_read, grant.p2p_write)}
    if not pair.grants or (NOT_GRANTED in pair.asked and said <= {OK, None}):
        return Evidence(
            what=f"P2P of {case.name(pair.ends[0])} and {case.name(pair.ends[1])}",
            value=NOT_GRANTED if NOT_GRANTED in pair.asked else "granted",
            source="probe p2p, cudaDeviceCanAccessPeer or hipDeviceCanAccessPeer",
        )
    grant = next((g for g in pair.grants if g.p2p_read != OK or g.p2p_nvlink != OK), pair.grants[0])
    words = {
        "read": grant.p2p_read,
        "write": grant.p2p_write,
        "NVLink": grant.p2p_nvlink,
        "PCI": grant.p2p_pci,
    }
    return Evidence(
        what=f"P2P of {case.name(grant.src)} to {case.name(grant.dst)}",
        value=", ".join(f"{what}: {word}" for what, word in words.items() if word is not None),
        source=vendors.source([pair.one], STATUS),
    )


def _check_product(case: Case) -> Iterable[Finding] | None:
    return _split(case, by_product=True)


def _check_refused(case: Case) -> Iterable[Finding] | None:
    return _split(case, by_product=False)


def _split(case: Case, *, by_product: bool) -> list[Finding] | None:
    told = [pair for pair in _whole(case) if pair.words]
    if not told:
        return None
    asked = [pair for pair in told if not pair.fast]
    groups: dict[str, list[Pair]] = {}
    for pair in asked:
        word = next((word for word in pair.words if word != OK), None)
        if word is not None and _is_product(pair, word) == by_product:
            groups.setdefault(word, []).append(pair)
    made = _by_product if by_product else _by_platform
    return [made(case, pairs, word) for word, pairs in groups.items()]


def _is_product(pair: Pair, word: str) -> bool:
    if word == PRODUCT:
        return True
    consumer = any(CONSUMER.search(gpu.name or "") for gpu in (pair.one, pair.other))
    return consumer and word in ("chipset not supported", "not supported", NOT_GRANTED)


def _by_product(case: Case, pairs: Sequence[Pair], word: str) -> Finding:
    model = pairs[0].one.name or "this model"
    return BY_PRODUCT.finding(
        BY_DESIGN,
        f"no P2P between {case.names(devices_of(pairs))}: the product does not have it",
        devices=devices_of(pairs),
        evidence=[_said(case, pair) for pair in pairs[:_SHOWN]],
        consequence=f"The driver grants no P2P on {model} ({word}). NCCL goes through host memory "
        "(SHM), and no setting of the firmware changes that." + _staged(case, pairs),
    )


def _by_platform(case: Case, pairs: Sequence[Pair], word: str) -> Finding:
    near = [pair for pair in pairs if pair.letters in BELOW_SWITCH]
    severity = SLOW if word == REGISTRY or near else NOTICE
    if word == TOPOLOGY and not near:
        severity = BY_DESIGN
    shown = near or list(pairs)
    why = (
        "A switch could carry it; staged through host memory it takes two copies."
        if near
        else "NCCL would not use it over a host bridge by default."
    )
    if word == REGISTRY:
        why = "A parameter of the NVIDIA module switches it off: every copy goes over host memory."
    asks = vendors.command(case.gpus, "nvidia-smi topo -p2p r", "amd-smi topology")
    fix = [Fix(text="See what the driver grants.", command=asks)]
    if word == REGISTRY:
        fix.append(
            Fix(
                text="Take the key out of the module's options and load it again.",
                command="grep -r nvidia /etc/modprobe.d; cat /proc/driver/nvidia/params",
            )
        )
    else:
        fix.append(
            Fix(text="Try a newer driver: it carries the list of chipsets that are supported.")
        )
    return REFUSED.finding(
        severity,
        f"the driver refuses P2P ({word}): {named(case, shown)}",
        devices=devices_of(pairs),
        evidence=[_said(case, pair) for pair in shown[:_SHOWN]],
        consequence=why + _staged(case, shown),
        fix=fix,
    )


def _staged(case: Case, pairs: Sequence[Pair]) -> str:
    ends = {pair.ends for pair in pairs} | {pair.ends[::-1] for pair in pairs}
    measured = [
        one.value
        for one in case.figures("staged_bandwidth")
        if (one.src, one.dst) in ends and one.value is not None
    ]
    return f" Measured through host memory: {min(measured):.3g} GB/s." if measured else ""


def _check_forced(case: Case) -> Iterable[Finding] | None:
    host = case.machine.host
    if host is None:
        return None
    asked = [pair for pair in _whole(case) if pair.words and not pair.fast]
    if host.why("nvidia_registry") is not None and not asked:
        return None
    keys = [key for key in host.nvidia_registry if FORCED.search(key)]
    evidence = [
        Evidence(what="key of the NVIDIA module", value=key, source="/proc/driver/nvidia/params")
        for key in keys
    ]
    open_ones = [
        pair
        for pair in asked
        if pair.granted and all("GeForce RTX 40" in (g.name or "") for g in (pair.one, pair.other))
    ]
    evidence += [_said(case, pair) for pair in open_ones[:_SHOWN]]
    if not evidence:
        return []
    arrived = {one.verdict for one in case.figures("bytes_arrive")}
    seen = (
        " The bytes were measured and arrived."
        if arrived == {"arrived"}
        else " A grant is no proof here: measure whether the bytes arrive."
    )
    return [
        P2P_FORCED.finding(
            BY_DESIGN if arrived == {"arrived"} else NOTICE,
            "P2P is forced by a setting or a changed NVIDIA module",
            devices=devices_of(open_ones) if not keys else (),
            evidence=evidence,
            consequence="The driver grants P2P that this product does not have." + seen,
            fix=[Fix(text="Measure it.", command="gputop probe p2p nccl")],
        )
    ]


_THREADS = ("nvbandwidth#13", "nccl#1637", "nccl#1127")
NVLINK = Rule(
    id="nvlink-p2p-refused",
    peers="D04",
    title="NVLinks that are up while P2P over them is refused",
    evidence="P2P status of each pair that NVLink joins",
    disproof="OK in `nvidia-smi topo -p2p r` and `-p2p n` for the pair",
    sources=("NVIDIA/nccl#2329", "NVIDIA/nccl src/graph/paths.cc", "NVIDIA/NVSentinel#883"),
    check=_check_nvlink,
    implied_by=("fabric-state", "fabric-manager", "fabric-health", "gpu-lost"),
)
BY_PRODUCT = Rule(
    id="p2p-refused-by-product",
    peers="D14",
    title="GPUs whose product has no P2P",
    evidence="P2P status of each pair",
    disproof="OK in `nvidia-smi topo -p2p r` for the pair",
    sources=tuple(f"NVIDIA/{thread}" for thread in _THREADS),
    check=_check_product,
)
REFUSED = Rule(
    id="p2p-refused",
    peers="D14",
    title="P2P refused by chipset, topology or a setting",
    evidence="P2P status of each pair",
    disproof="OK in `nvidia-smi topo -p2p r` for the pair",
    sources=("NVIDIA/nvbandwidth#15", "NVIDIA/nccl#1127", "nvml.h nvmlGpuP2PStatus_t"),
    check=_check_refused,
)
P2P_FORCED = Rule(
    id="p2p-forced",
    peers="D14",
    title="P2P that a setting or a changed module forces",
    evidence="keys of the NVIDIA module, P2P status of boards that have none",
    disproof="no such key in /proc/driver/nvidia/params, and a module as NVIDIA ships it",
    sources=("noonghunna/club-3090#873", "tinygrad/open-gpu-kernel-modules#29"),
    check=_check_forced,
)

RULES = (NVLINK, REFUSED, BY_PRODUCT, P2P_FORCED)
