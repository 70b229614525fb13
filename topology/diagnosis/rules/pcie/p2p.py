"""P2P that the driver refuses, that a product lacks, or that a setting forces."""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from ....expectation.links import pcie_gbs
from ....expectation.references import pcie_practical
from ....hardware.vendors import AMD, NVIDIA
from ....model import quantities
from ....model.finding import Finding
from ....model.severity import BROKEN, BY_DESIGN, NOTICE, SLOW, Severity
from ....model.units import gbs
from ... import vendors
from ...case import Case
from ...pairs import BELOW_SWITCH, NOT_GRANTED, OK, Pair, devices_of, named
from ...rule import Found, Proof, Rule, faulty, needed
from ...shared.fabric_words import RESTART

_GENERIC = "GeForce RTX 40"
"""Boards of which none has P2P."""
_ARRIVED = {"arrived"}
STATUS = "NVML nvmlDeviceGetP2PStatus"
SHOWN = 4


def whole_pairs(case: Case) -> list[Pair]:
    """Pairs whose grants mean something: MIG and confidential computing switch P2P off."""
    software = case.machine.software
    if software is not None and software.confidential:
        return []
    return [pair for pair in case.pairs if not pair.mig and _kept(pair)]


def _kept(pair: Pair) -> bool:
    return not pair.one.is_vgpu and not pair.other.is_vgpu


def grant_of(case: Case, pair: Pair) -> Proof:
    """The word that refuses P2P, by the management library or by the runtime in a probe."""
    said = {word for grant in pair.grants for word in (grant.p2p_read, grant.p2p_write)}
    if not pair.grants or (NOT_GRANTED in pair.asked and said <= {OK, None}):
        return (
            f"P2P of {case.name(pair.ends[0])} and {case.name(pair.ends[1])}",
            NOT_GRANTED if NOT_GRANTED in pair.asked else "granted",
            "probe p2p, cudaDeviceCanAccessPeer or hipDeviceCanAccessPeer",
        )
    grant = next((g for g in pair.grants if g.p2p_read != OK or g.p2p_nvlink != OK), pair.grants[0])
    words = {
        "read": grant.p2p_read,
        "write": grant.p2p_write,
        "NVLink": grant.p2p_nvlink,
        "PCI": grant.p2p_pci,
    }
    return (
        f"P2P of {case.name(grant.src)} to {case.name(grant.dst)}",
        ", ".join(f"{what}: {word}" for what, word in words.items() if word is not None),
        vendors.source([pair.one], STATUS),
    )


def _check_nvlink(case: Case) -> Found:
    pairs = needed([pair for pair in whole_pairs(case) if pair.words or _nvlink_words(pair)])
    asked = [pair for pair in pairs if pair.code.startswith("NV")]
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
    incapable = [pair for pair in asked if pair not in refused and not _capable(pair)]
    if incapable:
        found.append(
            _nvlink(
                case,
                incapable,
                SLOW,
                f"NVLinks are up, but the driver denies them P2P: {named(case, incapable)}",
                "NCCL leaves out links without this capability, and goes over PCIe.",
            )
        )
    return found


def _capable(pair: Pair) -> bool:
    links = [link for gpu in (pair.one, pair.other) for link in gpu.nvlinks_up]
    return all(link.p2p_capable is not False for link in links)


def _nvlink_words(pair: Pair) -> list[str]:
    return [grant.p2p_nvlink for grant in pair.grants if grant.p2p_nvlink is not None]


def _nvlink(
    case: Case, pairs: Sequence[Pair], severity: Severity, title: str, impact: str
) -> Finding:
    return NVLINK.finding(
        severity,
        title,
        devices=devices_of(pairs),
        evidence=[
            *(grant_of(case, pair) for pair in pairs[:SHOWN]),
            (
                f"relation of {named(case, pairs, 1)}",
                f"{pairs[0].code}: the links are trained",
                "NVML nvmlDeviceGetNvLinkState",
            ),
        ],
        impact=impact,
        fix=[
            "Compare the state of the fabric of all GPUs. $ nvidia-smi -q | grep -A4 Fabric",
            RESTART,
            (
                "If that does not help, reset the GPUs while nothing uses them. "
                "# nvidia-smi --gpu-reset"
            ),
        ],
    )


PRODUCT = "gpu not supported"
REGISTRY = "disabled by registry key"
TOPOLOGY = "topology not supported"
"""Between sockets of older hosts P2P never worked."""
CONSUMER = re.compile(r"geforce|titan", re.IGNORECASE)
"""Boards where the driver's other words of refusal, CNS or NS, mean the product as well."""


def _check_product(case: Case) -> Found:
    return _split(case, by_product=True)


def _check_refused(case: Case) -> Found:
    return _split(case, by_product=False)


def _split(case: Case, *, by_product: bool) -> list[Finding] | None:
    reported = [pair for pair in whole_pairs(case) if pair.words]
    if not reported:
        return None
    asked = [pair for pair in reported if not pair.fast]
    able = {gpu.name for pair in reported if _granted(pair) for gpu in (pair.one, pair.other)}
    groups: dict[str, list[Pair]] = {}
    for pair in asked:
        word = next((word for word in pair.words if word != OK), None)
        if word is not None and _is_product(pair, word, able) == by_product:
            groups.setdefault(word, []).append(pair)
    made = _by_product if by_product else _by_platform
    return [made(case, pairs, word) for word, pairs in groups.items()]


def _granted(pair: Pair) -> bool:
    return all(word == OK for word in pair.words)


def _is_product(pair: Pair, word: str, able: Collection[str | None]) -> bool:
    """Whether a product lacks P2P; `able`: names of boards of which another pair here has it."""
    if word == PRODUCT:
        return True
    if pair.one.name in able or pair.other.name in able:
        return False
    consumer = any(CONSUMER.search(gpu.name or "") for gpu in (pair.one, pair.other))
    return consumer and word in ("chipset not supported", "not supported", NOT_GRANTED)


def _by_product(case: Case, pairs: Sequence[Pair], word: str) -> Finding:
    model = pairs[0].one.name or "this model"
    return BY_PRODUCT.finding(
        BY_DESIGN,
        f"no P2P between {case.names(devices_of(pairs))}: the product does not have it",
        devices=devices_of(pairs),
        evidence=[grant_of(case, pair) for pair in pairs[:SHOWN]],
        impact=f"The driver grants no P2P on {model} ({word}). {case.words.library} goes "
        "through host memory "
        "(SHM), and no setting of the firmware changes that." + _staged(case, pairs),
    )


def _by_platform(case: Case, pairs: Sequence[Pair], word: str) -> Finding:
    # The hypervisor invents the tree of a virtual machine: a switch there proves nothing.
    near = [pair for pair in pairs if pair.code in BELOW_SWITCH and not case.in_vm]
    severity = SLOW if word == REGISTRY or near else BY_DESIGN if word == TOPOLOGY else NOTICE
    shown = near or list(pairs)
    what, why = _why_refused(case, shown, word, near=bool(near))
    asks = vendors.command(case.gpus, nvidia="nvidia-smi topo -p2p r", amd="amd-smi topology")
    if word == REGISTRY:
        remedy = (
            "Take the key out of the module's options and load it again. "
            "$ grep -r nvidia /etc/modprobe.d; cat /proc/driver/nvidia/params"
        )
    elif vendors.amd([gpu for pair in pairs for gpu in (pair.one, pair.other)]):
        remedy = (
            "See whether the kernel has CONFIG_HSA_AMD_P2P and the BARs hold the memory: "
            "amdgpu needs both for P2P over PCIe. $ grep HSA_AMD_P2P /boot/config-$(uname -r)"
        )
    else:
        remedy = "Try a newer driver: it carries the list of chipsets that are supported."
    return REFUSED.finding(
        severity,
        f"{what}: {named(case, shown)}",
        devices=devices_of(pairs),
        evidence=[grant_of(case, pair) for pair in shown[:SHOWN]],
        impact=why + _staged(case, shown),
        fix=[f"See what the driver grants. $ {asks}", remedy],
    )


def _relayed(case: Case, pairs: Sequence[Pair]) -> bool:
    """Whether the library is predicted to pass the bytes of all these pairs through another GPU."""
    if case.prediction is None:
        return False
    relayed = {
        (pair.src_bus_id, pair.dst_bus_id) for pair in case.prediction.pairs if pair.via is not None
    }
    return all((one, other) in relayed for one, other in (pair.ends for pair in pairs))


def _staged(case: Case, pairs: Sequence[Pair]) -> str:
    ends = {pair.ends for pair in pairs} | {pair.ends[::-1] for pair in pairs}
    measured = [
        figure.value
        for figure in case.figures(quantities.STAGED)
        if (figure.src, figure.dst) in ends and figure.value is not None
    ]
    return f" Measured through host memory: {min(measured):.3g} GB/s." if measured else ""


_THREADS = ("nvbandwidth#13", "nccl#1637", "nccl#1127")
WITHOUT = re.compile(r"\bGeForce RTX [2-5]0[5-9]0\b", re.IGNORECASE)
"""GeForce since Turing; older ones had P2P over PCIe, and boards for workstations have it."""


UNBRIDGED = re.compile(r"\bGeForce RTX (?:[45]0[5-9]0|30[5-8]0|20[56]0)\b", re.IGNORECASE)
"""Those of them that take no NVLink bridge either: fast copies between others may go over one."""


def _without_p2p(pair: Pair) -> bool:
    return all(_GENERIC in (gpu.name or "") for gpu in (pair.one, pair.other))


_FASTER = 1.25
"""A direct copy at this multiple of one through the host is no copy through the host."""
_BOTH = 1.3
"""What both directions of a copy through the host reach together stays below this multiple of what
the link carries one way: every byte crosses it twice."""


def _by_measurement(case: Case, pair: Pair) -> Proof | None:
    """A measured copy that proves P2P of a pair, whatever a table says of the product."""
    sku = case.sku(pair.one)
    share = pcie_practical(sku.pcie_gen) if sku is not None else None
    line = pcie_gbs(sku.pcie_gen, sku.pcie_width) if sku is not None else None
    for src, dst in (pair.ends, pair.ends[::-1]):
        known = {
            quantity: figure
            for quantity in (quantities.WRITE, quantities.STAGED, quantities.TOGETHER)
            for figure in case.figures(quantity)
            if (figure.src, figure.dst) == (src, dst) and figure.value and not figure.wrong
        }
        what = f"copies of {case.name(src)} to {case.name(dst)}"
        direct, staged = known.get(quantities.WRITE), known.get(quantities.STAGED)
        if direct and staged and (direct.value or 0.0) > _FASTER * (staged.value or 0.0):
            value = f"{gbs(direct.value)} with P2P, {gbs(staged.value)} through host memory"
            return what, value, direct.source
        both = known.get(quantities.TOGETHER)
        if both and line and share and (both.value or 0.0) > _BOTH * line * share.fraction:
            return what, f"{gbs(both.value)} both ways together", both.source
    return None


def _check(case: Case) -> Found:
    pairs = [pair for pair in whole_pairs(case) if pair.one.name and pair.other.name]
    if not pairs or any(pair.words for pair in pairs):
        return None
    without = [pair for pair in pairs if not pair.fast and WITHOUT.search(_models(pair))]
    without = faulty([pair for pair in without if _by_measurement(case, pair) is None])
    devices = devices_of(without)
    return BY_NAME.finding(
        BY_DESIGN,
        f"no P2P between {case.names(devices)}: the product does not have it",
        devices=devices,
        evidence=[("model", ", ".join(sorted({*map(_models, without)})), case.source)],
        impact=f"NVIDIA's driver grants no P2P over PCIe on these cards. "
        f"{case.words.library} goes through host memory (SHM), and no setting of the firmware "
        "changes that; a patched driver may, at the owner's risk.",
        fix=["Ask the driver; GNS or CNS means no. $ nvidia-smi topo -p2p r"],
    )


def _models(pair: Pair) -> str:
    return ", ".join(sorted({pair.one.name or "", pair.other.name or ""}))


FORCED = re.compile(r"ForceP2P|PcieP2PType", re.IGNORECASE)
"""Keys that ask for P2P which the driver does not grant."""
BESIDE = re.compile(r"RMForceStaticBar1|PeerMappingOverride", re.IGNORECASE)
"""Keys that changed modules need too, and that NVIDIA documents for other ends: P2PDMA of NVMe
drives on every x86 host, and mappings of a NIC for NVSHMEM and GPUDirect Async. They prove
nothing by themselves."""


def _why_refused(case: Case, pairs: Sequence[Pair], word: str, *, near: bool) -> tuple[str, str]:
    """What is refused, and what that costs."""
    if _relayed(case, pairs):
        return (
            f"no direct P2P ({word}), another GPU relays it",
            f"{case.words.library} goes over {case.words.links} through a GPU that both reach, by "
            "P2P from hop to hop.",
        )
    what = f"the driver refuses P2P ({word})"
    if word == REGISTRY:
        module = "A parameter of the NVIDIA module switches it off"
        return what, f"{module}: every copy goes over host memory."
    if near:
        return what, "A switch could carry it; staged through host memory it takes two copies."
    return what, f"{case.words.library} would not use it over a host bridge by default."


def _works_unasked(case: Case) -> Iterator[tuple[tuple[str, str], Proof]]:
    """Pairs of models without P2P whose copies take it all the same, with the figure."""
    for pair in whole_pairs(case):
        if UNBRIDGED.search(_models(pair)) and (proof := _by_measurement(case, pair)):
            yield pair.ends, proof


def _keys(case: Case, wanted: re.Pattern[str]) -> list[Proof]:
    keys = filter(wanted.search, case.host.nvidia_registry)
    return [("key of the NVIDIA module", key, "/proc/driver/nvidia/params") for key in keys]


_FORCED = "P2P is forced by a setting or a changed NVIDIA module"
_UNASKED = "P2P works between {}, which NVIDIA's own driver does not grant: a changed NVIDIA module"
_INTACT = "The bytes were measured and arrived."
_UNMEASURED = "{} is no proof here: measure whether data arrives intact."


def _check_forced(case: Case) -> Found:
    asked = [pair for pair in whole_pairs(case) if pair.words and not pair.fast]
    fast = dict(_works_unasked(case))
    unread = case.machine.host is None or case.host.why("nvidia_registry") is not None
    if unread and not asked and not fast:
        return None
    keys = _keys(case, FORCED)
    granted = [pair for pair in asked if pair.granted and _without_p2p(pair)]
    if keys or granted or fast:
        keys += _keys(case, BESIDE)
    grants = [grant_of(case, pair) for pair in granted[:SHOWN]]
    evidence = faulty([*keys, *grants, *[*fast.values()][:SHOWN]])
    proven = {figure.verdict for figure in case.figures(quantities.BYTES_ARRIVE)} == _ARRIVED
    who = [] if keys else sorted({*devices_of(granted), *chain(*fast)})
    return P2P_FORCED.finding(
        BY_DESIGN if proven or fast else NOTICE,
        _UNASKED.format(case.names(who)) if fast and who else _FORCED,
        devices=who,
        evidence=evidence,
        impact=f"The driver grants P2P that this product does not have. "
        f"{_INTACT if proven else _UNMEASURED.format('Speed' if fast else 'A grant')}",
        fix=["Measure it. $ gputop probe p2p nccl"],
    )


NVLINK = Rule(
    id="nvlink-p2p-refused",
    family="D04",
    title="NVLinks that are up while P2P over them is refused",
    evidence="P2P status of each pair that NVLink joins",
    vendor=NVIDIA.id,
    disproof="OK in `nvidia-smi topo -p2p r` and `-p2p n` for the pair",
    sources=("NVIDIA/nccl#2329", "NVIDIA/nccl src/graph/paths.cc", "NVIDIA/NVSentinel#883"),
    check=_check_nvlink,
    implied_by=(
        "fabric-state",
        "fabric-manager",
        "fabric-partition",
        "fabric-health",
        "gpu-lost",
    ),
)
BY_PRODUCT = Rule(
    id="p2p-refused-by-product",
    family="D14",
    title="GPU models without P2P",
    evidence="P2P status of each pair",
    disproof="OK in `nvidia-smi topo -p2p r` for the pair",
    disproof_by=((AMD.id, "ENABLED between the two in `amd-smi topology`"),),
    sources=tuple(f"NVIDIA/{thread}" for thread in _THREADS),
    check=_check_product,
)
REFUSED = Rule(
    id="p2p-refused",
    family="D14",
    title="P2P refused by chipset, topology or a setting",
    evidence="P2P status of each pair",
    disproof="OK in `nvidia-smi topo -p2p r` for the pair",
    disproof_by=((AMD.id, "ENABLED between the two in `amd-smi topology`"),),
    sources=(
        "NVIDIA/nvbandwidth#15",
        "NVIDIA/nccl#1127",
        "nvml.h nvmlGpuP2PStatus_t",
        "Linux drivers/gpu/drm/amd/amdkfd/Kconfig",
    ),
    check=_check_refused,
)
BY_NAME = Rule(
    id="p2p-not-in-product",
    family="D14",
    title="GPU models without P2P, by name",
    evidence="the models of the GPUs, where the P2P status of no pair was read",
    vendor=NVIDIA.id,
    disproof="OK in `nvidia-smi topo -p2p r` for the pair",
    sources=("NVIDIA/nvbandwidth#13", "NVIDIA/nccl#1637", "NVIDIA/nccl#1127"),
    check=_check,
    implied_by=("p2p-refused-by-product",),
)
P2P_FORCED = Rule(
    id="p2p-forced",
    family="D14",
    title="P2P that a setting or a changed module forces",
    evidence="keys of the NVIDIA module; P2P status and measured copies of boards that have none",
    vendor=NVIDIA.id,
    disproof="no such key in /proc/driver/nvidia/params, and a module as NVIDIA ships it",
    sources=(
        "noonghunna/club-3090#873",
        "tinygrad/open-gpu-kernel-modules#29",
        "docs.nvidia.com/gpudirect-storage: troubleshooting-guide, NVMe P2PDMA Troubleshooting",
        "gpudirect/libgdsync README",
    ),
    check=_check_forced,
)
RULES = (NVLINK, REFUSED, BY_PRODUCT, BY_NAME, P2P_FORCED)
