"""The link of a pair, or of a GPU and its host: as it should be, and as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, combinations

import msgspec

from ..hardware.specs import BoardLinks, Sku
from ..model.machine import Gpu
from ..model.snapshot import Measurement
from ..model.units import figure as three
from ..node import Node
from ..wiring.gpu_names import gpu_label
from ..wiring.paths import Path
from ..wiring.wires import PCIE_EFFICIENCY, PCIE_GTS, WireKind
from .judgement import number_of

SAME = 0.98
"""Share from which two rates count as equal."""
FIRST_RESTING = 6
"""PCIe generation from which a link gives up lanes at rest (L0p): few then prove nothing."""
PCIE = WireKind.PCIE
FAST = (WireKind.NVLINK, WireKind.NVSWITCH, WireKind.XGMI)


class LinkRates(msgspec.Struct, frozen=True, kw_only=True):
    """Payload rates one way, GB/s."""

    kind: WireKind
    name: str
    """For people: "18 NVLinks", "PCIe gen5 x16"."""
    design_gbs: float
    """The rate by the model, or the rate of the wiring where the model leaves that open."""
    now_gbs: float
    """The present rate."""
    missing: tuple[str, ...] = ()
    """What has less than it should have, as clauses."""
    switched: bool = False
    """Whether it goes through NVSwitches, where the same links lead to every other GPU."""
    gen: int | None = None
    width: int | None = None
    gone: bool = False
    """Whether all its fast links are down; `now_gbs` is then the rate of another path."""


def generation_of(gts: float | None) -> int | None:
    """PCIe generation of a rate in GT/s; None for a rate that no generation has."""
    return next((gen for gen, rate in PCIE_GTS.items() if rate == gts), None)


def pcie_gbs(gen: int, width: int) -> float | None:
    """Line rate of a PCIe link one way, GB/s."""
    if gen not in PCIE_GTS or width <= 0:
        return None
    return round(PCIE_GTS[gen] * width / 8 * PCIE_EFFICIENCY[gen], 3)


def proven(link: LinkRates, one_way_gbs: float | None) -> LinkRates:
    """The link without the doubts that a measured rate refutes, because a reading may be old."""
    if not link.missing or one_way_gbs is None or not link.now_gbs < one_way_gbs < float("inf"):
        return link
    return msgspec.structs.replace(link, now_gbs=link.design_gbs, missing=(), gone=False)


def of_one_model(node: Node, src: str | None, dst: str | None) -> tuple[Gpu, Gpu, Sku] | None:
    """Two GPUs and their model; None where they are not two of one model that is known."""
    one, other = node.devices.gpu(src), node.devices.gpu(dst)
    if one is None or other is None or one is other:
        return None
    sku = node.devices.sku(one)
    return None if sku is None or node.devices.sku(other) != sku else (one, other, sku)


def link_of_pair(node: Node, one: Gpu, other: Gpu, sku: Sku) -> LinkRates | None:
    """The link of two GPUs of one model; None where no rate is known."""
    if (direct := _by_switches(one, other, sku)) is not None:
        return direct
    path = node.pairs.path(one.address, other.address)
    rated = path is not None and path.kind in FAST and path.payload_gbs is not None
    if path is not None and rated:
        return None if path.relayed else _fast(node, path, (one, other), sku)
    told = _told(node, one, other, sku)
    if told is not None or path is None:
        return told
    return _over_pcie(node, (one, other), sku) if path.kind is PCIE else None


def _over_pcie(node: Node, ends: tuple[Gpu, Gpu], sku: Sku) -> LinkRates | None:
    """The narrower slot of a pair; where fast links should join it, what is missing of them."""
    sides = [side for gpu in ends if (side := host_link(node, gpu, sku)) is not None]
    if len(sides) < 2:
        return None
    narrow = min(sides, key=lambda side: side.now_gbs)
    switched = sku.fabric is BoardLinks.SWITCHED
    gone = _down(node, ends, sku) if switched else ()
    if sku.full_mesh:
        gone = mesh_links_down(ends)
    if sku.pair_gbs and gone:
        return LinkRates(
            kind=WireKind.NVLINK if switched else WireKind.XGMI,
            name=narrow.name,
            design_gbs=sku.pair_gbs,
            now_gbs=narrow.now_gbs,
            missing=gone,
            switched=switched,
            gone=True,
        )
    return msgspec.structs.replace(
        narrow,
        design_gbs=min(side.design_gbs for side in sides),
        missing=tuple(chain.from_iterable(side.missing for side in sides)),
    )


def _short(now: float, design: float, ends: Sequence[Gpu], sku: Sku) -> tuple[str, ...]:
    """What a link has less than it should: NVLinks of `ends` that are down, else its rate."""
    if now >= SAME * design:
        return ()
    few = tuple(
        f"{gpu_label(gpu)} has {len(gpu.nvlinks_up)} of {sku.link_count} NVLinks up"
        for gpu in ends
        if len(gpu.nvlinks_up) < (sku.link_count or 0)
    )
    return few or (f"the link carries {three(now)} of {three(design)} GB/s",)


def _by_switches(one: Gpu, other: Gpu, sku: Sku) -> LinkRates | None:
    """The link of two GPUs that reach each other over NVSwitches alone, from their counts.

    It is what the graph says, without building it; None where the graph has to say.
    """
    if sku.fabric is not BoardLinks.SWITCHED or not sku.pair_gbs or not sku.link_gbs:
        return None
    whole = all(link.to_switch for link in (*one.nvlinks_up, *other.nvlinks_up))
    mine, theirs = (Counter(link.remote_address for link in gpu.nvlinks_up) for gpu in (one, other))
    count = sum((mine & theirs).values())
    if not whole or not count:
        return None
    now = count * sku.link_gbs
    return LinkRates(
        kind=WireKind.NVLINK,
        name=f"{count} NVLinks",
        design_gbs=sku.pair_gbs,
        now_gbs=now,
        missing=_short(now, sku.pair_gbs, (one, other), sku),
        switched=True,
    )


def _told(node: Node, one: Gpu, other: Gpu, sku: Sku) -> LinkRates | None:
    """The NVLinks that a matrix of letters tells of (NV18), at the rate of the model's links."""
    pair = node.machine.pair(one.address, other.address)
    count = None if pair is None else pair.nvlinks_reported
    if not count or not sku.link_gbs or sku.link_kind.startswith("xgmi"):
        return None
    now = count * sku.link_gbs
    switched = sku.fabric is BoardLinks.SWITCHED and not _shared_out(node, count, sku)
    design = (switched and sku.pair_gbs) or now
    few = now < SAME * design
    said = f"{gpu_label(one)} and {gpu_label(other)} are joined by {count} NVLinks"
    return LinkRates(
        kind=WireKind.NVLINK,
        name=f"{count} NVLinks",
        design_gbs=design,
        now_gbs=now,
        missing=(f"{said}, {three(design)} GB/s need more",) if few else (),
        switched=switched,
    )


def _shared_out(node: Node, count: int, sku: Sku) -> bool:
    """Whether every pair has the same part of a GPU's links: a board of few GPUs without switches.

    Four H100 SXM have six links to each of the other three (NVIDIA/cuda-samples issue 392).
    """
    gpus = node.machine.gpus
    told = {
        pair.nvlinks_reported
        for one, other in combinations(gpus, 2)
        if (pair := node.machine.pair(one.address, other.address)) is not None
    }
    return told == {count} and count * (len(gpus) - 1) == sku.link_count


def _down(node: Node, ends: tuple[Gpu, Gpu], sku: Sku) -> tuple[str, ...]:
    """Name the ends whose NVLinks are all down while those of a sibling are up.

    Where none is up in the whole box, that may be how the box was handed out.
    """
    if not any(node.devices.links_up.values()):
        return ()
    return tuple(
        f"{gpu_label(gpu)} has 0 of {sku.link_count or len(gpu.nvlinks)} NVLinks up"
        for gpu in ends
        if gpu.nvlinks and all(link.active is False for link in gpu.nvlinks)
    )


def mesh_links_down(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """The pairs of a mesh that have lost their xGMI link, as clauses."""
    down = [(gpu, _far_ends_down(gpu)) for gpu in gpus]
    return tuple(
        f"the xGMI link of {gpu_label(one)} and {gpu_label(other)} is down"
        for (one, from_one), (other, from_other) in combinations(down, 2)
        if other.address in from_one or one.address in from_other
    )


def _far_ends_down(gpu: Gpu) -> set[str]:
    """The GPUs that it says its xGMI link is down to, while others of its links are up."""
    if not any(link.active for link in gpu.xgmi):
        return set()
    return {link.remote_address for link in gpu.xgmi if link.active is False}


def _most_bridged(node: Node, sku: Sku) -> int:
    """The most links of any pair of this model on bridges: siblings count before any table."""
    if sku.fabric is not BoardLinks.BRIDGE:
        return 0
    joined = Counter(
        (gpu.address, link.remote_address)
        for gpu in node.machine.gpus
        if node.devices.sku(gpu) == sku
        for link in gpu.nvlinks_up
        if link.to_gpu and link.remote_address
    )
    return max(joined.values(), default=0)


def _fast(node: Node, path: Path, ends: tuple[Gpu, Gpu], sku: Sku) -> LinkRates | None:
    narrowest, now = path.narrowest, path.payload_gbs
    if narrowest is None or now is None:
        return None
    # Where the model leaves the wiring open (bridges, cube meshes, the blades of MI250X), what is
    # wired is the design.
    by_model = {
        WireKind.NVSWITCH: sku.fabric is BoardLinks.SWITCHED,
        WireKind.XGMI: sku.full_mesh,
    }
    xgmi = path.kind is WireKind.XGMI
    design = (by_model.get(path.kind) and sku.pair_gbs) or now
    missing: tuple[str, ...] = ()
    wired, most = narrowest.count, _most_bridged(node, sku)
    if wired and wired < most:
        design = now * most / wired
        missing = (f"{wired} NVLinks join this pair, {most} join another pair of this box",)
    return LinkRates(
        kind=WireKind.XGMI if xgmi else WireKind.NVLINK,
        name=narrowest.name(),
        design_gbs=design,
        now_gbs=now,
        missing=missing or _short(now, design, () if xgmi else ends, sku),
        switched=path.kind is WireKind.NVSWITCH,
    )


def host_link(
    node: Node, gpu: Gpu, sku: Sku, figure: Measurement | None = None
) -> LinkRates | None:
    """The link of a GPU to its host.

    What was read while the copy ran has precedence over the reading of the machine: an idle link
    shows a low generation (NVIDIA/open-gpu-kernel-modules#731).
    """
    if sku.c2c_gbs and gpu.c2c_enabled is not False:
        # Where a CPU has two GPUs each has half of its links, which the data sheet adds up.
        rate = gpu.c2c_gbs or sku.c2c_gbs
        return LinkRates(kind=WireKind.C2C, name="NVLink-C2C", design_gbs=rate, now_gbs=rate)
    gen = sku.pcie_gen
    if "pcie_gen" in sku.unconfirmed and gpu.pcie_gen_max_device:
        gen = gpu.pcie_gen_max_device
    design = pcie_gbs(gen, sku.pcie_width)
    if design is None:
        return None
    gen_now, width_now = _seen(node, gpu, figure)
    gen_now, width_now = gen_now or gen, width_now or sku.pcie_width
    now = pcie_gbs(gen_now, width_now) or design
    missing: tuple[str, ...] = ()
    if now < SAME * design:
        missing = (
            f"{gpu_label(gpu)} runs at PCIe gen{gen_now} x{width_now} instead of "
            f"gen{gen} x{sku.pcie_width}",
        )
    return LinkRates(
        kind=PCIE,
        name=f"PCIe gen{gen_now} x{width_now}",
        design_gbs=design,
        now_gbs=min(now, design),
        missing=missing,
        gen=gen,
        width=sku.pcie_width,
    )


def _seen(node: Node, gpu: Gpu, figure: Measurement | None) -> tuple[int | None, int | None]:
    """PCIe generation and lanes: as read under load, else the most the slot can do."""
    gen = width = None
    if figure is not None:
        read = number_of(figure, "pcie_generation"), number_of(figure, "pcie_width")
        gen, width = (None if value is None else int(value) for value in read)
    if width is None:
        device = node.devices.pci(gpu.address)
        width = device.link_width_now if device is not None else None
    if width is None:
        reading = node.reading(gpu.address)
        width = reading.pcie_width if reading is not None else None
    return gen or gpu.pcie_gen_max, width or gpu.pcie_width_max
