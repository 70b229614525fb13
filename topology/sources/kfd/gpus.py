"""GPUs from KFD's topology and the files of amdgpu in sysfs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ...hardware.amd_parts import PARTED, PARTS_OF_MODE
from ...model.machine import CacheKind, Gpu, GpuCache, GpuPair, MemoryBank, XgmiLink
from ...model.part import PartialNode, Raw
from ...model.record import Gap, gaps_of
from ...model.snapshot import Problem, ProblemKind
from ..amdgpu.settings import DeviceAnswers, settings
from ..files.answers import absent_text, cut_off, part, under
from .nodes import (
    CACHE_CPU,
    CACHE_DATA,
    CACHE_INSTRUCTION,
    PCIE,
    PUBLIC,
    VRAM,
    XGMI,
    Bank,
    KfdCache,
    KfdLink,
    KfdNode,
    nodes,
)

MODES = {1: "SPX"} | {count: mode for mode, count in PARTS_OF_MODE.items()}
"""Modes of a package by its number of parts; it is CPX where each part has one XCD."""
HIDDEN = "KFD hides nodes here, and parts of this package may be among them"
SHARED_ID = "all parts of a package have one unique_id"
ORIGIN = "kfd"
_NO_GAP = ("partition", "parent", "package_parts", "xgmi")

KINDS = {
    CACHE_DATA: CacheKind.DATA,
    CACHE_INSTRUCTION: CacheKind.INSTRUCTION,
    CACHE_DATA | CACHE_INSTRUCTION: CacheKind.BOTH,
}
_MOST_KIB = 1 << 40

WEIGHT_HOP = 15
WEIGHT_PACKAGE = 13
WEIGHT_PARTS = 2 * WEIGHT_PACKAGE + WEIGHT_HOP
CONSTANT_MBS = 50_000
"""25 GT/s x 16, the rate that kernels without a table of speeds state for all models
(amdgpu_xgmi.c)."""
AT_25_GTS = ("gfx90a",)
"""The only targets whose links really run at that rate (data sheets)."""
NO_ATOMICS = 1 << 2 | 1 << 3
NO_DMA = 1 << 4
"""Flags of links (kfd_crat.h, CRAT_IOLINK_FLAGS_*)."""
OLD_CONSTANT = (
    "KFD states 50 GB/s for each link, which kernels without a table of speeds state for every "
    "model"
)
IN_PACKAGE = "KFD states 819.2 GB/s, its constant for the inside of any package"
OF_PARTS = "KFD does not say how many links join parts of two packages"


def _unread(lost: Sequence[int]) -> Problem:
    which = ", ".join(map(str, lost[:4])) + " ..." * (len(lost) > 4)
    text = f"KFD's links lead to node {which}, of which there is nothing to read"
    return Problem(source=ORIGIN, kind=ProblemKind.MISMATCH, text=text)


def parse(raw: Raw) -> PartialNode:
    """Turn the answer of the source kfd into GPUs, their xGMI links and pairs."""
    absent = absent_text(raw)
    everything = nodes(raw)
    devices = part(raw, "devices")
    problems = [*cut_off(raw, ORIGIN)]
    problems += [_hidden(node) for node in everything if node.why is not None]
    chosen, twice = _chosen(everything)
    problems += twice
    lost = _lost(everything)
    if lost:
        problems.append(_unread(lost))
    whole = not lost and all(node.why is None for node in everything)
    names = {node.number: address for address, node in chosen.items()}
    counts = Counter(node.package for node in chosen.values())
    found = [
        _gpu(_Stated(node, devices.get(node.package), absent, counts[node.package], names), whole)
        for _, node in sorted(chosen.items())
    ]
    if not any(map(_denied, everything)):
        # Where a node is hidden, as in a container that was not given this GPU, only PCI shows it.
        # Or the device is a package whose other parts are there.
        found += [
            _without_node(address, device, absent)
            for address, device in sorted(devices.items())
            if address not in chosen and not (counts[address] > 0 and _is_parted(device))
        ]
    return PartialNode(
        gpus=tuple(_with_hive(found, devices)),
        pairs=pairs(everything, names),
        problems=tuple(problems),
        origin=ORIGIN,
    )


def _chosen(everything: Sequence[KfdNode]) -> tuple[dict[str, KfdNode], list[Problem]]:
    """AMD's GPUs by address; of two nodes with one address the first is taken."""
    chosen: dict[str, KfdNode] = {}
    problems: list[Problem] = []
    for node in everything:
        if node.why is None and node.is_gpu and node.values.get("vendor_id") == 0x1002:
            first = chosen.setdefault(node.address, node)
            if first is not node:
                text = f"KFD nodes {first.number} and {node.number} are both {node.address}"
                problems.append(Problem(source=ORIGIN, kind=ProblemKind.MISMATCH, text=text))
    return chosen, problems


def _lost(everything: Sequence[KfdNode]) -> list[int]:
    """Numbers of nodes that links lead to and that are not there, because a copy left them out.

    The kernel removes links together with their node; where a container may not see a node, its
    folder stays.
    """
    here = {node.number for node in everything}
    return sorted({link.to for node in everything for link in node.io_links} - here)


def _is_parted(device: Raw) -> bool:
    mode = under(device, "current_compute_partition")
    return mode in PARTED


def gfx(version: int) -> str | None:
    """Name of a target: 90010 -> "gfx90a"; the last two digits count in hexadecimal."""
    if not version:
        return None
    major, minor, step = version // 10_000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"


def _mode(node: KfdNode, count: int, *, split: bool) -> str | None:
    chiplets = node.values.get("num_xcc", 0)
    if split and chiplets == 1:
        return "CPX"
    return MODES.get(count) if chiplets > 1 else None


def _denied(node: KfdNode) -> bool:
    return "permission" in (node.why or "") or "permitted" in (node.why or "")


def _hidden(node: KfdNode) -> Problem:
    return Problem(
        source=ORIGIN,
        kind=ProblemKind.DENIED if _denied(node) else ProblemKind.FAILED,
        text=f"KFD node {node.number}: {node.why}; a GPU may be there that was not given to us",
    )


class _Stated:
    """What KFD says of a GPU beside the files of amdgpu."""

    def __init__(
        self, node: KfdNode, device: Raw, absent: str, count: int, names: Mapping[int, str]
    ) -> None:
        self.node, self.names = node, names
        self.count = count
        """Parts of its package that KFD lists."""
        # Of a split package a container may show but one part.
        self.split = count > 1 or node.part > 0 or _is_parted(device)
        self.gpu = settings(node.address, DeviceAnswers(device, absent, whole=not self.split))
        self.banks = own_banks(node)
        self.target = gfx(self.value("gfx_target_version") or 0)

    def value(self, name: str) -> int | None:
        """A property; None for 0, which says nothing."""
        return self.node.values.get(name) or None

    def uuid(self) -> str | None:
        unique = self.value("unique_id")
        known = f"GPU-{unique:016x}" if unique else self.gpu.uuid
        return None if self.split else known

    def memory_bytes(self) -> int | None:
        """Of a part, the file has what the whole package has."""
        own = sum(bank.size_bytes for bank in self.banks) or None
        return own if self.split else self.gpu.memory_bytes or own

    def pci_id(self) -> str | None:
        device = self.value("device_id")
        return f"1002:{device & 0xFFFF:04x}" if device else None

    def compute_partition(self) -> str | None:
        return self.gpu.compute_partition or _mode(self.node, self.count, split=self.split)

    def core_count(self) -> int | None:
        """Compute units; KFD counts their SIMDs, over all XCDs."""
        each = self.value("simd_per_cu")
        return (self.value("simd_count") or 0) // each or None if each else None

    def of_bank(self, field: str) -> int | None:
        """A property of the first bank of its memory."""
        return getattr(self.banks[0], field) or None if self.banks else None

    def hive(self) -> str | None:
        hive = self.value("hive_id")
        return str(hive) if hive else None


_FIELDS: dict[str, Callable[[_Stated], object]] = {
    "partition": lambda kfd: str(kfd.node.part) if kfd.split else None,
    "parent": lambda kfd: kfd.node.package if kfd.split else None,
    "uuid": _Stated.uuid,
    "compute_capability": lambda kfd: kfd.target,
    "core_count": _Stated.core_count,
    "pci_id": _Stated.pci_id,
    "memory_bytes": _Stated.memory_bytes,
    "bar1_bytes": lambda kfd: kfd.gpu.bar1_bytes or _visible(kfd.node),
    "memory_bus_bits": lambda kfd: kfd.of_bank("width_bits"),
    "clock_graphics_max_mhz": lambda kfd: kfd.value("max_engine_clk_fcompute"),
    "clock_memory_max_mhz": lambda kfd: kfd.of_bank("clock_mhz"),
    "compute_partition": _Stated.compute_partition,
    "xcd_count": lambda kfd: kfd.value("num_xcc"),
    "caches": lambda kfd: caches(kfd.node),
    "memory_banks": lambda kfd: banks(kfd.node),
    "xgmi_hive": _Stated.hive,
    "kfd_node": lambda kfd: kfd.node.number,
    "render_minor": lambda kfd: kfd.value("drm_render_minor"),
    "xgmi": lambda kfd: xgmi(kfd.node, kfd.names, kfd.target),
}


def _gpu(kfd: _Stated, whole: bool) -> Gpu:
    """One GPU. `whole`: KFD lists all there are."""
    gaps = {gap.field: gap for gap in kfd.gpu.gaps}
    if kfd.split:
        gaps["uuid"] = Gap("uuid", SHARED_ID)
        if not whole:
            gaps["package_parts"] = Gap("package_parts", HIDDEN)
    known = {field: read(kfd) for field, read in _FIELDS.items()}
    for field, value in known.items():
        if value in (None, ()) and field not in _NO_GAP:
            gaps.setdefault(field, Gap(field, _why_none(field, kfd.node)))
        elif value is not None:
            gaps.pop(field, None)
    known["package_parts"] = kfd.count if kfd.split and whole else None
    return msgspec.structs.replace(kfd.gpu, **known, gaps=tuple(gaps.values()))


def _why_none(field: str, node: KfdNode) -> str:
    if field == "caches":
        return _why_no_caches(node)
    return {"xgmi_hive": "KFD: in no hive", "memory_banks": "KFD lists no bank"}.get(
        field, "not in KFD's topology"
    )


def _why_no_caches(node: KfdNode) -> str:
    if node.caches:
        return "KFD lists none beyond level 1"
    count = node.values.get("caches_count", 0)
    return f"KFD counts {count} caches, and none could be read" if count else "KFD lists none"


def _visible(node: KfdNode) -> int | None:
    """Memory that the CPU can reach through the BAR, where KFD says that it is all of it."""
    own = own_banks(node)
    return sum(bank.size_bytes for bank in own if bank.kind == PUBLIC) or None


def _without_node(address: str, device: Raw, absent: str) -> Gpu:
    gpu = settings(address, DeviceAnswers(device, absent, whole=not _is_parted(device)))
    gaps = (*gpu.gaps, Gap("kfd_node", "KFD shows no node of this GPU"))
    return msgspec.structs.replace(gpu, gaps=gaps)


def _with_hive(gpus: Sequence[Gpu], devices: Mapping[str, Raw]) -> list[Gpu]:
    """Fill in the hops and links from the driver's own files, package by package."""
    counted = {address: _hive_counts(device) for address, device in devices.items()}
    return [_counted(gpu, counted.get(gpu.parent or gpu.address, {})) for gpu in gpus]


def _counted(gpu: Gpu, counted: Mapping[str, tuple[int, int | None]]) -> Gpu:
    """The GPU with the hops and links that its package counts to others."""
    known = {link.remote_address: link for link in gpu.xgmi}
    if gpu.partition is None:
        gaps = gaps_of(("active", "raw_gbs"), "sysfs does not say")
        for peer, (hops, _) in counted.items():
            if hops == 1:
                known.setdefault(peer, XgmiLink(remote_address=peer, gaps=gaps))
    links = tuple(_filled(gpu, known[address], counted) for address in sorted(known))
    return msgspec.structs.replace(gpu, xgmi=links)


def _filled(gpu: Gpu, link: XgmiLink, counted: Mapping[str, tuple[int, int | None]]) -> XgmiLink:
    address = link.remote_address
    package = address if gpu.partition is None else f"{address.rpartition('.')[0]}.0"
    hops, links = counted.get(package, (0, None))
    new: dict[str, int] = {}
    if hops and link.hops is None:
        new["hops"] = hops
    if links is not None and link.links is None and package != gpu.parent:
        new["links"] = links
    left = tuple(gap for gap in link.gaps if gap.field not in new)
    return msgspec.structs.replace(link, **new, gaps=left) if new else link


def _hive_counts(device: Raw) -> dict[str, tuple[int, int | None]]:
    """Hops and links from a GPU to every other GPU of its hive, by address."""
    members = part(device, "hive")
    hops, links = _octets(device, "xgmi_num_hops"), _octets(device, "xgmi_num_links")
    found: dict[str, tuple[int, int | None]] = {}
    for number, address in members.items():
        place = int(number) - 1 if number.isascii() and number.isdigit() else -1
        if isinstance(address, str) and len(hops) == len(members) and 0 <= place < len(hops):
            # The upper bits of the count of hops are the type of the link.
            count = links[place] if len(links) == len(members) else None
            found[address] = (hops[place] & 0x7, count)
    return found


def _octets(device: Raw, key: str) -> list[int]:
    text = under(device, key)
    words = text.split() if isinstance(text, str) and len(text) < 1024 else []
    return [int(word, 16) for word in words if len(word) <= 2 and _is_hex(word)]


def _is_hex(word: str) -> bool:
    return all(letter in "0123456789abcdefABCDEF" for letter in word)


def banks(node: KfdNode) -> tuple[MemoryBank, ...]:
    """The banks of the GPU's own memory, as listed; scratch and LDS are not among them."""
    return tuple(_bank(bank) for bank in own_banks(node))


def own_banks(node: KfdNode) -> tuple[Bank, ...]:
    """The banks whose memory sits on the GPU."""
    return tuple(bank for bank in node.banks if bank.kind in VRAM)


def _bank(bank: Bank) -> MemoryBank:
    return MemoryBank(
        kind="public" if bank.kind == PUBLIC else "private",
        size_bytes=bank.size_bytes,
        width_bits=bank.width_bits or None,
        clock_mhz=bank.clock_mhz or None,
    )


def caches(node: KfdNode) -> tuple[GpuCache, ...]:
    """The kinds of caches beyond level 1, nearest first, with the number of each."""
    counts: dict[KfdCache, int] = {}
    for cache in node.caches:
        if cache.level > 1 and 0 < cache.size_kib < _MOST_KIB and not cache.flags & CACHE_CPU:
            counts[cache] = counts.get(cache, 0) + 1
    return tuple(
        GpuCache(
            level=cache.level,
            kind=KINDS.get(cache.flags & 0x3, CacheKind.NOT_TOLD),
            size_bytes=cache.size_kib * 1024,
            count=count,
        )
        for cache, count in sorted(counts.items(), key=lambda item: (item[0].level, item[0].flags))
    )


# xGMI links and pairs of GPUs out of KFD's topology.
#
# Weights (kfd_crat.c, kfd_fill_gpu_xgmi_link_to_gpu): 15 for each xGMI hop; where packages show as
# parts, 13 for two parts of one package and 13 + 15 + 13 for parts of two. Bandwidths are MB/s: the
# least is one link, the most all links of the pair, 0 a pair without a link of its own, or one of
# which the kernel says nothing because it is of parts. RCCL counts hops and links in the same way
# (rocm_smi_wrap.cc, rocm_smi_getLinkInfo).
def xgmi(node: KfdNode, names: Mapping[int, str], target: str | None) -> tuple[XgmiLink, ...]:
    """The xGMI wires of a GPU; `names`: addresses of GPUs by node, `target`: its gfx name."""
    found: dict[str, XgmiLink] = {}
    for link in node.io_links:
        name = names.get(link.to)
        if link.type != XGMI or name is None or link.to == node.number:
            continue
        # A path across other GPUs is listed like a link but is none; only the pair reports it.
        if (hops_of(link.weight) or 1) == 1:
            found.setdefault(name, _wire(link, name, target))
    return tuple(found[name] for name in sorted(found))


def hops_of(weight: int) -> int | None:
    """Count xGMI hops by the weight, as RCCL does: two parts of a package are one hop apart."""
    if weight in (WEIGHT_PACKAGE, WEIGHT_PARTS):
        return 1
    return weight // WEIGHT_HOP if weight and weight % WEIGHT_HOP == 0 else None


def _wire(link: KfdLink, name: str, target: str | None) -> XgmiLink:
    gaps = [Gap("active", "KFD does not tell the state of links")]
    hops = hops_of(link.weight)
    if hops is None:
        gaps.append(Gap("hops", f"KFD's weight {link.weight} is none of a hop"))
    known = 0 < link.min_mbs <= link.max_mbs
    unknown = OF_PARTS if link.weight == WEIGHT_PARTS else "KFD states no rate"
    links = raw = None
    if link.weight == WEIGHT_PACKAGE:
        gaps += [Gap("raw_gbs", IN_PACKAGE), Gap("links", "inside a package there are none")]
    elif not known:
        gaps += gaps_of(("raw_gbs", "links"), unknown)
    else:
        links = link.max_mbs // link.min_mbs
        if link.min_mbs == CONSTANT_MBS and target not in AT_25_GTS:
            gaps.append(Gap("raw_gbs", OLD_CONSTANT))
        else:
            raw = link.max_mbs / 1000
    if not known:
        gaps += gaps_of(("bandwidth_min_gbs", "bandwidth_max_gbs"), unknown)
    if not link.weight:
        gaps.append(Gap("weight", "KFD states 0, which is no weight"))
    return XgmiLink(
        remote_address=name,
        links=links,
        raw_gbs=raw,
        hops=hops,
        weight=link.weight or None,
        bandwidth_min_gbs=link.min_mbs / 1000 if known else None,
        bandwidth_max_gbs=link.max_mbs / 1000 if known else None,
        gaps=tuple(gaps),
    )


def pairs(nodes: Sequence[KfdNode], names: Mapping[int, str]) -> tuple[GpuPair, ...]:
    """What KFD says about every ordered pair of GPUs; `names` gives addresses of GPUs by node."""
    by_number = {node.number: node for node in nodes}
    found: list[GpuPair] = []
    for src, name in names.items():
        node = by_number[src]
        direct = {link.to: link for link in (*node.p2p_links, *node.io_links)}
        for dst, other in names.items():
            if name == other:
                continue
            link = direct.get(dst)
            way = _over_cpus(node, by_number[dst], by_number)
            if link is not None and link.type in (XGMI, PCIE):
                found.append(_stated(name, other, link, way))
            else:
                found.append(_unstated(name, other, way))
    return tuple(found)


def _stated(src: str, dst: str, link: KfdLink, way: tuple[int, int] | None) -> GpuPair:
    fast = link.type == XGMI
    hops = 1 if fast else way[0] if way else None
    return GpuPair(
        src=src,
        dst=dst,
        p2p_read="ok",
        p2p_write="ok",
        p2p_atomics="not supported" if link.flags & NO_ATOMICS else "ok",
        p2p_dma="not supported" if link.flags & NO_DMA else "ok",
        link_type="xgmi" if fast else "pcie",
        hops=hops,
        weight=link.weight,
        gaps=() if hops is not None else (Gap("hops", "KFD shows no CPU next to both"),),
    )


def _unstated(src: str, dst: str, way: tuple[int, int] | None) -> GpuPair:
    """A pair that KFD joins only by its CPUs; it does not say whether P2P is granted."""
    why = "KFD lists no way between the two, and HIP was not asked"
    gaps = [Gap(f"p2p_{what}", why) for what in ("read", "write", "atomics", "dma")]
    if way is None:
        gaps += [Gap(what, why) for what in ("link_type", "hops", "weight")]
        return GpuPair(src=src, dst=dst, gaps=tuple(gaps))
    hops, weight = way
    return GpuPair(
        src=src, dst=dst, link_type="pcie", hops=hops, weight=weight or None, gaps=tuple(gaps)
    )


def _over_cpus(a: KfdNode, b: KfdNode, by_number: Mapping[int, KfdNode]) -> tuple[int, int] | None:
    """Hops and weight of the path over the CPUs, as rocm_smi counts them; weight 0 = not known."""
    near, far = _cpu(a, by_number), _cpu(b, by_number)
    if near is None or far is None:
        return None
    if near.to == far.to:
        return 2, near.weight + far.weight
    between = next((link for link in by_number[near.to].io_links if link.to == far.to), None)
    return 3, near.weight + between.weight + far.weight if between is not None else 0


def _cpu(node: KfdNode, by_number: Mapping[int, KfdNode]) -> KfdLink | None:
    for link in node.io_links:
        other = by_number.get(link.to)
        if other is not None and not other.is_gpu and other.values:
            return link
    return None
