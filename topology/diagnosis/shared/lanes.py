"""Lanes of PCIe links: fewer than both ends have, or than siblings where an end is hidden.

Lanes that a probe read while a copy ran count as well: a link may lose some only under load.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from ...expectation.links import FIRST_RESTING, generation_of, pcie_gbs
from ...model import quantities
from ...model.machine import Gpu, PciDevice, PciKind
from ...model.snapshot import Measurement
from .. import vendors
from ..case import Case

_WIDTH = "sysfs current_link_width, max_link_width"
COPIES = (quantities.HOST_TO_DEVICE, quantities.DEVICE_TO_HOST)
LEAST_SHARE = 0.75
"""A copy at this share of a link's rate or more shows that no lane is missing."""


class Narrow(msgspec.Struct, frozen=True):
    """One link with fewer lanes than it should have."""

    device: str
    """The GPU or NIC that it serves."""
    link: str
    """Its lower end."""
    now: int
    most: int
    source: str


def narrow(case: Case) -> set[str]:
    """Addresses of the GPUs whose way up has a link with too few lanes."""
    found = {link.device for gpu in case.gpus for link in too_few(case, gpu.address)}
    found |= {link.device for link in (*by_siblings(case, found), *by_itself(case, found))}
    return found | {link.device for link in under_load(case, found)}


def links_of(case: Case, end: str) -> list[Narrow]:
    """Every link of the way up of which both ends were read.

    A GPU that NVLink-C2C joins to its CPU does not copy over PCIe.
    """
    gpu = case.machine.gpu(end)
    sku = case.sku(gpu) if gpu is not None else None
    coherent = gpu is not None and (
        gpu.c2c_enabled or (sku is not None and sku.c2c_gbs and gpu.c2c_enabled is not False)
    )
    chain = () if coherent else case.way_up(end)
    found = []
    for device, above in pairwise(chain):
        most = None if _rests(device, above) else _most(device, above)
        if device.link_width_now and most:
            found.append(Narrow(end, device.address, device.link_width_now, most, _WIDTH))
    return found


def too_few(case: Case, end: str) -> list[Narrow]:
    """Links of the way up with too few lanes, unless a copy was faster than those lanes allow."""
    few = [link for link in links_of(case, end) if link.now < link.most]
    return [link for link in few if not _refuted(case, link)]


def _refuted(case: Case, link: Narrow) -> bool:
    device = case.pci(link.link)
    gen = generation_of(device.link_speed_max_gts if device is not None else None)
    carries = pcie_gbs(gen, link.now) if gen else None
    return carries is not None and any(
        figure.src == link.device and (figure.value or 0.0) > carries
        for quantity in COPIES
        for figure in case.figures(quantity, "pinned")
    )


def loaded(case: Case) -> dict[str, tuple[int, Measurement]]:
    """Lanes of each GPU as a probe read them while it copied, and the slowest copy with them."""
    found: dict[str, tuple[int, Measurement]] = {}
    figures = [figure for quantity in COPIES for figure in case.figures(quantity, "pinned")]
    for figure in sorted(figures, key=lambda figure: figure.value or 0.0):
        lanes = figure.details.get("pcie_width")
        if figure.src and figure.value is not None and type(lanes) is int and lanes > 0:
            found.setdefault(figure.src, (lanes, figure))
    return found


def under_load(case: Case, known: set[str]) -> list[Narrow]:
    """GPUs with fewer lanes during a copy than both ends have, than at rest, or than siblings."""
    loads = loaded(case)
    found = []
    for gpu in case.gpus:
        if gpu.address in known or gpu.address not in loads:
            continue
        now, figure = loads[gpu.address]
        most, beside = _should(case, gpu, loads)
        whole = pcie_gbs(_loaded_gen(figure) or gpu.pcie_gen_max or 0, most)
        if now >= most or (whole is not None and (figure.value or 0.0) >= LEAST_SHARE * whole):
            continue
        said = vendors.source([gpu], "NVML")
        source = f"{figure.source}, {said} during the copy; x{most} by {beside}"
        found.append(Narrow(gpu.address, gpu.address, now, most, source))
    return found


def _should(case: Case, gpu: Gpu, loads: dict[str, tuple[int, Measurement]]) -> tuple[int, str]:
    """The lanes that a GPU should have under load, and the source of that; 0 where unknown."""
    chain = case.way_up(gpu.address)
    if _lanes_of_slot(chain) is not None and chain[0].link_width_max:
        return min(chain[0].link_width_max, chain[1].link_width_max or 0), "both ends"
    # NVML counts a slot in where it sees one, so that its greatest width proves nothing in a guest.
    same = [
        loads[other.address][0]
        for other in case.machine.gpus
        if other.address in loads and other.name == gpu.name
    ]
    most = max(same, default=0)
    if gpu.name and sum(1 for width in same if width < most) * 2 <= len(same):
        rest = width_now(case, gpu) or 0
        return (rest, "the reading at rest") if rest > most else (most, "its siblings")
    return width_now(case, gpu) or 0, "the reading at rest"


def _loaded_gen(figure: Measurement) -> int | None:
    gen = figure.details.get("pcie_generation")
    return gen if isinstance(gen, int) and not isinstance(gen, bool) and gen > 0 else None


def _rests(device: PciDevice, above: PciDevice) -> bool:
    """Whether both ends may support L0p; one older end rules it out."""
    gen, slot = (generation_of(end.link_speed_max_gts) for end in (device, above))
    return (gen or 0) >= FIRST_RESTING and (slot is None or slot >= FIRST_RESTING)


def _most(device: PciDevice, above: PciDevice) -> int | None:
    """Lanes that both ends have; None where the slot's end hides (a guest, an inner port)."""
    if above.link_width_max is None or device.link_width_max is None:
        return None
    if device.kind == PciKind.DOWNSTREAM:
        return None  # inside the switch there is no link
    return min(device.link_width_max, above.link_width_max)


def by_siblings(case: Case, known: set[str]) -> list[Narrow]:
    """GPUs with fewer lanes than GPUs of their model here, where the slot's end is hidden.

    Where all have the same few lanes, that may be how the machine is built.
    """
    lanes = [(gpu, width_now(case, gpu)) for gpu in case.machine.gpus if gpu.name]
    read = [
        (gpu, width)
        for gpu, width in lanes
        if width is not None and (gpu.pcie_gen_max or 0) < FIRST_RESTING
    ]
    found = []
    for gpu, now in read:
        if (
            gpu.address in known
            or gpu not in case.gpus
            or _lanes_of_slot(case.way_up(gpu.address)) is not None
        ):
            continue
        same = [width for other, width in read if other.name == gpu.name]
        if now < max(same) and same.count(now) * 2 <= len(same):
            source = f"{vendors.source([gpu], 'NVML')} or sysfs, siblings"
            found.append(Narrow(gpu.address, gpu.address, now, max(same), source))
    return found


QUARTER = 4


def by_itself(case: Case, known: set[str]) -> list[Narrow]:
    """GPUs with a quarter or less of their own lanes, where no other end proves a fault.

    A slot may have half of them by design; a quarter is a slot of the chipset, a riser, or lanes
    that are lost. What the slot has may not be known, or be as little.
    """
    found = []
    for gpu in case.gpus:
        device, now = case.pci(gpu.address), width_now(case, gpu)
        most = (device.link_width_max if device is not None else None) or gpu.pcie_width_max
        gen = generation_of(device.link_speed_max_gts if device is not None else None)
        resting = (gen or gpu.pcie_gen_max or 0) >= FIRST_RESTING
        if gpu.address in known or not now or not most or resting:
            continue
        slot = _lanes_of_slot(case.way_up(gpu.address))
        if now * QUARTER <= most and (slot is None or slot <= now):
            source = "LnkSta and LnkCap of the GPU alone; what the slot has is not known"
            if slot is not None:
                source = f"LnkSta and LnkCap of the GPU; the port above it has x{slot}"
            found.append(Narrow(gpu.address, gpu.address, now, most, source))
    return found


def _lanes_of_slot(chain: Sequence[PciDevice]) -> int | None:
    return chain[1].link_width_max if len(chain) > 1 else None


def width_now(case: Case, gpu: Gpu) -> int | None:
    """The present lanes of a GPU's own link; None where they are not known."""
    device = case.pci(gpu.address)
    if device is not None and device.link_width_now:
        return device.link_width_now
    reading = case.reading(gpu)
    return (reading.pcie_width or None) if reading is not None else None
