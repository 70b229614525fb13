"""The band of a figure between two GPUs."""

from __future__ import annotations

import msgspec

from ..hardware.specs import GOOD, BoardLinks, Sku, pcie_pairs
from ..model import quantities
from ..model.machine import Gpu
from ..model.snapshot import Measurement
from ..node import Node
from ..wiring.codes import UNKNOWN
from ..wiring.wires import WireKind
from .judgement import ESTIMATE, Expected, band
from .links import PCIE, SAME, LinkRates, host_link, link_of_pair, of_one_model, proven
from .references import Share, pcie_practical, published

QUANTITIES = {
    quantities.WRITE: ("p2p_uni", 1.0),
    quantities.WRITE_SWEEP: ("p2p_uni", 1.0),
    quantities.READ: ("p2p_read", 1.0),
    quantities.KERNEL_WRITE: ("p2p_kernel_write", 1.0),
    quantities.KERNEL_READ: ("p2p_kernel_read", 1.0),
    quantities.BOTH_WAYS: ("p2p_bidir", 1.0),
    quantities.TOGETHER: ("p2p_bidir", 2.0),
}
"""Quantity -> the figure of the table, and the number of directions that the value adds up."""
OF_PAIRS = (
    *QUANTITIES,
    quantities.KERNEL_LATENCY,
    quantities.CONCURRENT,
    quantities.CONCURRENT_TOTAL,
)
HUB = ("one to all", "all to one")
"""Patterns in which one GPU has a link of its own to each other one, where they are a mesh."""
PLATEAU_BYTES = 64 << 20
"""Smaller copies do not fill a link: nvbandwidth copies 512 MiB."""
ACROSS, BELOW_A_SWITCH = "SYS", "PIX"


def expected(node: Node, figure: Measurement) -> Expected:
    """The band of a healthy pair of this kind."""
    if figure.quantity == quantities.CONCURRENT_TOTAL:
        return _total(node, figure)
    pair = of_one_model(node, figure.src, figure.dst)
    if pair is None:
        ends = node.devices.gpu(figure.src), node.devices.gpu(figure.dst)
        two = None not in ends and ends[0] is not ends[1]
        note = "no table holds this pair of models"
        return Expected(note=note if two else "the snapshot does not hold both GPUs")
    if pair[0].mig_enabled or pair[1].mig_enabled:
        return Expected(note="MIG takes P2P away; no reference holds")
    if "staged" in (figure.engine or ""):
        return Expected(note="perhaps staged through the host's memory, which is no P2P")
    link = link_of_pair(node, *pair)
    if link is None:
        return Expected(note="the rate of the link between the two is not known")
    if (by_model := _of_board(node, pair)) is not None:
        return _copy(node, figure, pair, by_model, assumed=True)
    if figure.quantity == quantities.KERNEL_LATENCY:
        return _latency(figure, pair[2], link)
    if figure.quantity == quantities.CONCURRENT:
        return _concurrent(figure, pair[2], link)
    return _copy(node, figure, pair, link)


def _of_board(node: Node, pair: tuple[Gpu, Gpu, Sku]) -> LinkRates | None:
    """The link that boards of this model have, where a text tells of none and of no other way."""
    one, other, sku = pair
    told = one.nvlinks or other.nvlinks or node.pairs.kind(one.address, other.address) != UNKNOWN
    if told or sku.fabric is not BoardLinks.SWITCHED or not sku.pair_gbs:
        return None
    name = f"{sku.link_count or 'its'} NVLinks"
    return LinkRates(
        kind=WireKind.NVLINK,
        name=name,
        design_gbs=sku.pair_gbs,
        now_gbs=sku.pair_gbs,
        switched=True,
    )


def _copy(
    node: Node,
    figure: Measurement,
    pair: tuple[Gpu, Gpu, Sku],
    link: LinkRates,
    *,
    assumed: bool = False,
) -> Expected:
    size = figure.bytes_per_copy
    if size is not None and size < PLATEAU_BYTES:
        return Expected(note="a copy this small does not fill the link; judge 64 MiB and more")
    if figure.quantity not in QUANTITIES:
        return Expected(note="no published figure fits links that were not read")
    quantity, ways = QUANTITIES[figure.quantity]
    link = proven(link, None if figure.value is None else figure.value / ways)
    share = share_of(node, *pair, link, quantity)
    if share is None:
        return Expected(note="no published figure fits this model and kind of path")
    if assumed:
        share = msgspec.structs.replace(share, basis=ESTIMATE)
    return _expected(share, link, ways, figure.unit)


def share_of(
    node: Node, one: Gpu, other: Gpu, sku: Sku, link: LinkRates, quantity: str
) -> Share | None:
    """The share of the link's payload that a healthy pair reaches."""
    if link.kind is not PCIE:
        return published(sku.name, quantity)
    letters = node.pairs.kind(one.address, other.address)
    # Over PCIe a copy engine reads as fast as it writes (nvbandwidth issue 50 shows reads).
    if (quantity := quantity.replace("p2p_read", "p2p_uni")) not in ("p2p_uni", "p2p_bidir"):
        return None
    fit = [
        item
        for item in pcie_pairs()
        if letters in item.relations
        and item.figure.quantity == quantity
        and item.figure.fraction is not None
    ]
    # Between sockets the CPUs decide, and those of another generation say nothing.
    if letters == ACROSS:
        fit = [item for item in fit if (item.gen, item.width) == (link.gen, link.width)]
    # The row of this slot's rate before another one's.
    fit.sort(key=lambda item: (item.gen, item.width) != (link.gen, link.width))
    if not fit:
        return None if letters == ACROSS else pcie_practical(link.gen or 0)
    best = fit[0]
    # A virtual machine may draw one host bridge where there are switches or two sockets;
    # through a host bridge the rate is the CPU's, and the reference is of one server.
    same = (best.gen, best.width) == (link.gen, link.width)
    sure = same and letters == BELOW_A_SWITCH and not node.machine.in_vm
    return Share(
        fraction=best.figure.fraction or 0.0,
        basis=best.figure.kind if sure else ESTIMATE,
        source=best.figure.source,
        least=best.least,
        most=best.most,
    )


def _expected(share: Share, link: LinkRates, ways: float, unit: str | None) -> Expected:
    healthy = share.fraction * link.design_gbs * ways
    reach = share.fraction * link.now_gbs * ways if link.missing and not link.gone else None
    scaled = list(link.missing)
    published_at = share.one_way_gbs
    if (
        published_at is not None
        and not link.gone
        and abs(published_at - link.design_gbs) > (1 - SAME) * published_at
    ):
        scaled.insert(0, f"counted for {link.name}")
    made = band(
        healthy, unit or "GB/s", share.basis, share.source, scaled=tuple(scaled), reach=reach
    )
    if share.least is not None and share.most is not None:
        made = msgspec.structs.replace(
            made,
            low=share.least * link.design_gbs * ways * GOOD,
            high=share.most * link.design_gbs * ways / GOOD,
        )
    return Expected(band=made, causes=link.missing, settled=link.gone)


def hint(node: Node, figure: Measurement) -> str:
    """Say that a pair with fast links is as slow as PCIe; "" where it is not.

    Links train without the fabric, so an active link proves no P2P over it
    (Dstack-TEE/dstack pull request 1167).
    """
    pair = of_one_model(node, figure.src, figure.dst)
    if pair is None or not figure.value:
        return ""
    link, slot = link_of_pair(node, *pair), host_link(node, pair[0], pair[2])
    if link is None or slot is None or link.kind is PCIE or slot.kind is not PCIE:
        return ""
    ways = QUANTITIES[figure.quantity][1]
    if figure.value > slot.design_gbs * ways or slot.design_gbs > link.now_gbs / 2:
        return ""
    return (
        f"no more than {slot.name} carries: the bytes may not use the {link.name} at all, although "
        "active links are seen"
    )


def _latency(figure: Measurement, sku: Sku, link: LinkRates) -> Expected:
    known = sku.figure("p2p_kernel_latency")
    if known is None or link.kind is not WireKind.NVLINK or known.unit != figure.unit:
        return Expected(note="no published latency fits this model and kind of path")
    return Expected(band=band(known.measured, known.unit, known.kind, known.source))


def _concurrent(figure: Measurement, sku: Sku, link: LinkRates) -> Expected:
    """An estimate of what a pair reaches while others copy.

    In a ring every GPU sends and receives: the pair's own figure both ways. A hub of a mesh has a
    link of its own to each peer: one pair's figure.
    """
    variant = figure.variant or ""
    quantity = "p2p_bidir" if variant.startswith("ring") else ""
    if variant.startswith(HUB) and not link.switched:
        quantity = "p2p_uni"
    share = published(sku.name, quantity) if quantity and link.kind is not PCIE else None
    if share is None:
        return Expected(note="no published figure fits this pattern of copies")
    return _expected(
        Share(fraction=share.fraction, basis=ESTIMATE, source=f"{share.source}, one pair alone"),
        link,
        1.0,
        figure.unit,
    )


def hub_links(node: Node, figure: Measurement) -> tuple[Sku, list[LinkRates]] | None:
    """The model of a mesh's hub and its links to all others; None for any other figure."""
    hub = node.devices.gpu(figure.src or figure.dst)
    sku = node.devices.sku(hub) if hub is not None else None
    others = [gpu for gpu in node.machine.gpus if gpu is not hub]
    everyone = figure.details.get("pairs") == len(others) > 1
    if hub is None or sku is None or not everyone or not (figure.variant or "").startswith(HUB):
        return None
    if any(node.devices.sku(other) != sku for other in others):
        return None
    links = [link_of_pair(node, hub, other, sku) for other in others]
    found = [link for link in links if link is not None and link.kind is not PCIE and not link.gone]
    if len(found) < len(others) or any(link.switched for link in found):
        return None
    return sku, found


def _total(node: Node, figure: Measurement) -> Expected:
    """All links of a mesh's hub at once: the sum of what each pair gives, as an estimate."""
    found = hub_links(node, figure)
    share = published(found[0].name, "p2p_uni") if found is not None else None
    if found is None or share is None:
        return Expected(note="no published figure fits this pattern of copies")
    links = found[1]
    design = sum(link.design_gbs for link in links)
    now = sum(link.now_gbs for link in links)
    missing = tuple(text for link in links for text in link.missing)
    source = f"{share.source}, one pair alone, times {len(links)}"
    made = band(
        share.fraction * design,
        figure.unit or "GB/s",
        ESTIMATE,
        source,
        scaled=missing,
        reach=share.fraction * now if missing else None,
    )
    return Expected(band=made, causes=missing)
