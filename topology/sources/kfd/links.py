"""xGMI links and pairs of GPUs out of KFD's topology.

Weights (kfd_crat.c, kfd_fill_gpu_xgmi_link_to_gpu): 15 for each xGMI hop; where packages show as
parts, 13 for two parts of one package and 13 + 15 + 13 for parts of two. Bandwidths are MB/s: the
least is one link, the most all links of the pair, 0 a pair without a link of its own, or one of
which the kernel says nothing because it is of parts. RCCL counts hops and links in the same way
(rocm_smi_wrap.cc, rocm_smi_getLinkInfo).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...model.machine import GpuPair, XgmiLink
from ...model.record import Gap
from .nodes import PCIE, XGMI, KfdLink, KfdNode

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
    inside, parts = link.weight == WEIGHT_PACKAGE, link.weight == WEIGHT_PARTS
    links = raw = None
    if inside:
        gaps += [Gap("raw_gbs", IN_PACKAGE), Gap("links", "inside a package there are none")]
    elif parts and not known:
        gaps += [Gap("raw_gbs", OF_PARTS), Gap("links", OF_PARTS)]
    elif known:
        links = link.max_mbs // link.min_mbs
        if link.min_mbs == CONSTANT_MBS and target not in AT_25_GTS:
            gaps.append(Gap("raw_gbs", OLD_CONSTANT))
        else:
            raw = link.max_mbs / 1000
    else:
        gaps += [Gap("raw_gbs", "KFD states no rate"), Gap("links", "KFD states no rate")]
    if not known:
        why = OF_PARTS if parts else "KFD states no rate"
        gaps += [Gap(f"bandwidth_{end}_gbs", why) for end in ("min", "max")]
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
            if link is not None and link.type in (XGMI, PCIE):
                found.append(
                    _stated(name, other, link, _over_cpus(node, by_number[dst], by_number))
                )
            else:
                found.append(_unstated(name, other, _over_cpus(node, by_number[dst], by_number)))
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
