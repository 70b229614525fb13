"""The link of a pair, or of a GPU and its host: as it should be, and as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import msgspec

from ..hardware.specs import BoardLinks, Sku
from ..model.machine import Gpu
from ..model.snapshot import Measurement
from ..model.units import figure as three
from ..wiring.gpu_names import gpu_label
from ..wiring.links import same_fabric
from ..wiring.paths import Path
from ..wiring.wires import PCIE_EFFICIENCY, PCIE_GTS
from .node import JudgedNode, number_of

SAME = 0.98
"""Share from which two rates count as equal."""
FAST = ("nvlink", "nvswitch", "xgmi")


class LinkRates(msgspec.Struct, frozen=True, kw_only=True):
    """Payload rates one way, GB/s."""

    kind: str
    """"nvlink", "xgmi", "pcie" or "c2c"."""
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


def link_of_pair(node: JudgedNode, one: Gpu, other: Gpu, sku: Sku) -> LinkRates | None:
    """The link of two GPUs of one model; None where no rate is known."""
    if (direct := _by_switches(one, other, sku)) is not None:
        return direct
    path = node.path(one, other)
    rated = path is not None and path.kind in FAST and path.payload_gbs is not None
    if not rated and (told := _told(node, one, other, sku)):
        return told
    if path is None or path.relayed:
        return None
    if path.kind in FAST:
        now = path.payload_gbs
        return None if now is None else _fast(node, path, now, (one, other), sku)
    if path.kind != "pcie":
        return None
    sides = [host_link(node, gpu, sku) for gpu in (one, other)]
    known = [side for side in sides if side is not None]
    if len(known) < 2:
        return None
    narrow = min(known, key=lambda side: side.now_gbs)
    down = _down(node, (one, other), sku) if sku.fabric == BoardLinks.SWITCHED else None
    if sku.pair_gbs and down:
        return LinkRates(
            kind="nvlink",
            name=narrow.name,
            design_gbs=sku.pair_gbs,
            now_gbs=narrow.now_gbs,
            missing=down,
            switched=True,
            gone=True,
        )
    if sku.full_mesh and sku.pair_gbs and (gone := mesh_links_down((one, other))):
        return LinkRates(
            kind="xgmi",
            name=narrow.name,
            design_gbs=sku.pair_gbs,
            now_gbs=narrow.now_gbs,
            missing=gone,
            gone=True,
        )
    return msgspec.structs.replace(
        narrow,
        design_gbs=min(side.design_gbs for side in known),
        missing=tuple(text for side in known for text in side.missing),
    )


def _by_switches(one: Gpu, other: Gpu, sku: Sku) -> LinkRates | None:
    """The link of two GPUs that reach each other over NVSwitches alone, from their counts.

    It is what the graph says, without building it; None where the graph has to say.
    """
    if sku.fabric != BoardLinks.SWITCHED or not sku.pair_gbs or not sku.link_gbs:
        return None
    ends = [
        Counter(link.remote_address for link in gpu.nvlinks if link.active) for gpu in (one, other)
    ]
    whole = all(
        link.remote_kind == "nvswitch"
        for gpu in (one, other)
        for link in gpu.nvlinks
        if link.active
    )
    count = sum((ends[0] & ends[1]).values())
    if not whole or not count or not same_fabric(one, other):
        return None
    now = count * sku.link_gbs
    missing = [
        f"{gpu_label(gpu)} has {sum(links.values())} of {sku.link_count} NVLinks up"
        for gpu, links in zip((one, other), ends, strict=True)
        if sku.link_count and sum(links.values()) < sku.link_count
    ]
    if now >= SAME * sku.pair_gbs:
        missing = []
    elif not missing:
        missing = [f"the link carries {three(now)} of {three(sku.pair_gbs)} GB/s"]
    return LinkRates(
        kind="nvlink",
        name=f"{count} NVLinks",
        design_gbs=sku.pair_gbs,
        now_gbs=now,
        missing=tuple(missing),
        switched=True,
    )


def _told(node: JudgedNode, one: Gpu, other: Gpu, sku: Sku) -> LinkRates | None:
    """The NVLinks that a matrix of letters tells of (NV18), at the rate of the model's links."""
    pair = node.machine.pair(one.address, other.address)
    count = None if pair is None else pair.nvlinks_reported
    if not count or not sku.link_gbs or sku.link_kind.startswith("xgmi"):
        return None
    now = count * sku.link_gbs
    switched = sku.fabric == BoardLinks.SWITCHED
    design = sku.pair_gbs if switched and sku.pair_gbs else now
    few = now < SAME * design
    said = f"{gpu_label(one)} and {gpu_label(other)} are joined by {count} NVLinks"
    return LinkRates(
        kind="nvlink",
        name=f"{count} NVLinks",
        design_gbs=design,
        now_gbs=now,
        missing=(f"{said}, {three(design)} GB/s need more",) if few else (),
        switched=switched,
    )


def _down(node: JudgedNode, ends: tuple[Gpu, Gpu], sku: Sku) -> tuple[str, ...]:
    """Name the ends whose NVLinks are all down while those of a sibling are up.

    Where none is up in the whole box, that may be how the box was handed out.
    """
    if not any(link.active for gpu in node.machine.gpus for link in gpu.nvlinks):
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


def _most_bridged(node: JudgedNode, sku: Sku) -> int:
    """The most links of any pair of this model in the node: siblings count before any table."""
    joined = Counter(
        (gpu.address, link.remote_address)
        for gpu in node.machine.gpus
        if node.sku(gpu) == sku
        for link in gpu.nvlinks
        if link.active and link.remote_kind == "gpu" and link.remote_address
    )
    return max(joined.values(), default=0)


def _fast(node: JudgedNode, path: Path, now: float, ends: tuple[Gpu, Gpu], sku: Sku) -> LinkRates:
    xgmi = path.kind == "xgmi"
    switched = path.kind == "nvswitch" and sku.fabric == BoardLinks.SWITCHED
    # Where the model leaves the wiring open (bridges, cube meshes, the blades of MI250X), what is
    # wired is the design.
    design = sku.pair_gbs if sku.pair_gbs and (switched or (xgmi and sku.full_mesh)) else now
    missing: list[str] = []
    wired = path.narrowest.count if path.narrowest is not None else None
    most = _most_bridged(node, sku) if sku.fabric == BoardLinks.BRIDGE and wired and not xgmi else 0
    if wired and wired < most:
        design = now * most / wired
        missing.append(f"{wired} NVLinks join this pair, {most} join another pair of this box")
    if now < SAME * design and not missing:
        for gpu in ends:
            up = sum(1 for link in gpu.nvlinks if link.active)
            if sku.link_count and up < sku.link_count and not xgmi:
                missing.append(f"{gpu_label(gpu)} has {up} of {sku.link_count} NVLinks up")
    if now < SAME * design and not missing:
        missing.append(f"the link carries {three(now)} of {three(design)} GB/s")
    narrowest = path.narrowest
    return LinkRates(
        kind="xgmi" if xgmi else "nvlink",
        name=narrowest.name() if narrowest is not None else path.kind,
        design_gbs=design,
        now_gbs=now,
        missing=tuple(missing),
        switched=path.kind == "nvswitch",
    )


def host_link(
    node: JudgedNode, gpu: Gpu, sku: Sku, figure: Measurement | None = None
) -> LinkRates | None:
    """The link of a GPU to its host.

    What was read while the copy ran has precedence over the reading of the machine: an idle link
    shows a low generation (NVIDIA/open-gpu-kernel-modules#731).
    """
    if sku.c2c_gbs and gpu.c2c_enabled is not False:
        # Where a CPU has two GPUs each has half of its links, which the data sheet adds up.
        rate = gpu.c2c_gbs or sku.c2c_gbs
        return LinkRates(kind="c2c", name="NVLink-C2C", design_gbs=rate, now_gbs=rate)
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
        kind="pcie",
        name=f"PCIe gen{gen_now} x{width_now}",
        design_gbs=design,
        now_gbs=min(now, design),
        missing=missing,
        gen=gen,
        width=sku.pcie_width,
    )


def _seen(node: JudgedNode, gpu: Gpu, figure: Measurement | None) -> tuple[int | None, int | None]:
    """PCIe generation and lanes: as read under load, else the most the slot can do."""
    gen = width = None
    if figure is not None:
        read = number_of(figure, "pcie_generation"), number_of(figure, "pcie_width")
        gen, width = (None if value is None else int(value) for value in read)
    if width is None:
        device = node.machine.pci_device(gpu.address)
        width = device.link_width_now if device is not None else None
    if width is None:
        reading = node.snapshot.readings.gpu(gpu.address)
        width = reading.pcie_width if reading is not None else None
    return gen or gpu.pcie_gen_max, width or gpu.pcie_width_max
