"""Lanes of PCIe links: fewer than both ends have, or than siblings have where a guest hides one.

Lanes that a probe read while a copy ran count as well: a link may lose some only under load.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from ..expectation.links import pcie_gbs
from ..machine import Gpu, PciDevice
from ..snapshot import Measurement
from ..units import gbs
from ..wiring.wires import PCIE_GTS
from . import vendors
from .case import Case
from .finding import NOTICE, SLOW, Evidence, Finding, Fix
from .rule import Rule

_WIDTH = "sysfs current_link_width, max_link_width"
COPIES = ("h2d_bandwidth", "d2h_bandwidth")
LEAST_SHARE = 0.75
"""Share of a link's rate from which a copy shows that nothing of it is missing (peers D07)."""


class _Narrow(msgspec.Struct, frozen=True):
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
    found = {one.device for gpu in case.gpus for one in _static(case, gpu.address)}
    found |= {one.device for one in _by_siblings(case, found)}
    return found | {one.device for one in _under_load(case, found)}


def _check_width(case: Case) -> Iterable[Finding] | None:
    ends = [gpu.address for gpu in case.gpus]
    ends += [nic.address for nic in case.machine.rdma if nic.address and case.pci(nic.address)]
    read = False
    found: list[_Narrow] = []
    for end in ends:
        links = _links(case, end)
        read = read or bool(links)
        found += _static(case, end)
    loads = loaded(case)
    widths = [_width(case, gpu) for gpu in case.gpus]
    if not read and sum(width is not None for width in widths) < 2 and not loads:
        return None
    found += _by_siblings(case, {one.device for one in found})
    found += _under_load(case, {one.device for one in found})
    gpus = {gpu.address for gpu in case.gpus}
    # A bridge above several devices is one link.
    shared = {one.link for one in found if one.device in gpus}
    of_gpus = [one for one in found if one.link in shared]
    of_nics = [one for one in found if one.link not in shared]
    made = [_narrow(case, of_gpus, SLOW)] if of_gpus else []
    if of_nics:
        # A root port may name more lanes than its slot has: a sister with more proves a fault.
        sisters = any(_behind(case, one) for one in of_nics)
        made.append(_narrow(case, of_nics, SLOW if sisters else NOTICE))
    return made


def _links(case: Case, end: str) -> list[_Narrow]:
    """Every link of the way up of which both ends were read.

    A GPU that NVLink-C2C joins to its CPU does not copy over PCIe (peers D36).
    """
    gpu = case.machine.gpu(end)
    sku = case.sku(gpu) if gpu is not None else None
    coherent = gpu is not None and sku is not None and sku.c2c_gbs and gpu.c2c_enabled is not False
    chain = () if coherent else case.way_up(end)
    found = []
    for device, above in pairwise(chain):
        most = _most(device, above)
        if device.link_width_now and most:
            found.append(_Narrow(end, device.address, device.link_width_now, most, _WIDTH))
    return found


def _static(case: Case, end: str) -> list[_Narrow]:
    """Links of the way up with too few lanes, unless more went over them than those carry."""
    few = [link for link in _links(case, end) if link.now < link.most]
    return [link for link in few if not _refuted(case, link)]


def _refuted(case: Case, link: _Narrow) -> bool:
    device = case.pci(link.link)
    gen = _gen(device.link_speed_max_gts if device is not None else None)
    carries = pcie_gbs(gen, link.now) if gen else None
    return carries is not None and any(
        one.src == link.device and (one.value or 0.0) > carries
        for quantity in COPIES
        for one in case.figures(quantity, "pinned")
    )


def _gen(gts: float | None) -> int | None:
    return next((gen for gen, rate in PCIE_GTS.items() if rate == gts), None)


def loaded(case: Case) -> dict[str, tuple[int, Measurement]]:
    """Lanes of each GPU as a probe read them while it copied, and the slowest copy with them."""
    found: dict[str, tuple[int, Measurement]] = {}
    for quantity in COPIES:
        for one in case.figures(quantity, "pinned"):
            lanes = one.details.get("pcie_width")
            if not one.src or one.value is None or isinstance(lanes, bool):
                continue
            if isinstance(lanes, int) and lanes > 0:
                known = found.get(one.src)
                if known is None or one.value < (known[1].value or 0.0):
                    found[one.src] = lanes, one
    return found


def _under_load(case: Case, known: set[str]) -> list[_Narrow]:
    """GPUs with fewer lanes while a copy ran than both ends have, at rest, or siblings had then."""
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
        source = f"probe {figure.probe}, {said} during the copy; x{most} by {beside}"
        found.append(_Narrow(gpu.address, gpu.address, now, most, source))
    return found


def _should(case: Case, gpu: Gpu, loads: dict[str, tuple[int, Measurement]]) -> tuple[int, str]:
    """Lanes that a GPU should have under load, and who says so; 0 where nobody does."""
    chain = case.way_up(gpu.address)
    if _slot_known(chain) and chain[0].link_width_max:
        return min(chain[0].link_width_max, chain[1].link_width_max or 0), "both ends"
    # NVML counts a slot in where it sees one, so that its greatest width proves nothing in a guest.
    same = [
        loads[other.address][0]
        for other in case.machine.gpus
        if other.address in loads and other.name == gpu.name
    ]
    most = max(same, default=0)
    if gpu.name and sum(1 for one in same if one < most) * 2 <= len(same):
        rest = _width(case, gpu) or 0
        return (rest, "the reading at rest") if rest > most else (most, "its siblings")
    return _width(case, gpu) or 0, "the reading at rest"


def _loaded_gen(figure: Measurement) -> int | None:
    gen = figure.details.get("pcie_generation")
    return gen if isinstance(gen, int) and not isinstance(gen, bool) and gen > 0 else None


def _most(device: PciDevice, above: PciDevice) -> int | None:
    """Lanes that both ends have; None where the slot's end hides (a guest, an inner port)."""
    if above.link_width_max is None or device.link_width_max is None:
        return None
    if device.kind == "switch downstream":
        return None  # inside the switch there is no link
    return min(device.link_width_max, above.link_width_max)


def _by_siblings(case: Case, known: set[str]) -> list[_Narrow]:
    """GPUs with fewer lanes than GPUs of their model here, where the slot's end is hidden.

    Where all have the same few lanes, that may be how the machine is built.
    """
    widths = {
        gpu.address: width
        for gpu in case.machine.gpus
        if (width := _width(case, gpu)) is not None and gpu.name
    }
    found = []
    for gpu in case.gpus:
        chain = case.way_up(gpu.address)
        if gpu.address in known or gpu.address not in widths or _slot_known(chain):
            continue
        same = [o for o in case.machine.gpus if o.address in widths and o.name == gpu.name]
        most = max((widths[o.address] for o in same), default=0)
        now = widths[gpu.address]
        few = sum(1 for o in same if widths[o.address] == now)
        if now < most and few * 2 <= len(same):
            found.append(
                _Narrow(
                    gpu.address,
                    gpu.address,
                    now,
                    most,
                    f"{vendors.source([gpu], 'NVML')} or sysfs, siblings",
                )
            )
    return found


def _slot_known(chain: Sequence[PciDevice]) -> bool:
    return len(chain) > 1 and chain[1].link_width_max is not None


def _width(case: Case, gpu: Gpu) -> int | None:
    device = case.pci(gpu.address)
    if device is not None and device.link_width_now:
        return device.link_width_now
    reading = case.reading(gpu)
    return (reading.pcie_width or None) if reading is not None else None


def _behind(case: Case, link: _Narrow) -> bool:
    """Whether another RDMA device of the same kind has more lanes."""
    mine = case.pci(link.device)
    others = (case.pci(nic.address) for nic in case.machine.rdma if nic.address)
    return mine is not None and any(
        other.link_width_now is not None and other.link_width_now > link.now
        for other in others
        if other is not None and other.device_id == mine.device_id
    )


def _narrow(case: Case, found: Sequence[_Narrow], severity: str) -> Finding:
    who = list(dict.fromkeys(one.device for one in found))
    links = list({one.link: one for one in found}.values())
    first = links[0]
    return WIDTH.finding(
        severity,
        f"PCIe of {case.names(who)} has x{first.now} instead of x{first.most}",
        devices=who,
        evidence=[
            Evidence(
                what=f"lanes of the link of {case.name(one.link)}"
                + (f", on the way to {case.name(one.device)}" if one.link != one.device else ""),
                value=f"x{one.now} of x{one.most}",
                source=one.source,
            )
            for one in links[:6]
        ],
        consequence=_width_price(case, first),
        fix=[
            Fix(
                text="See what each end can do and what came up.",
                command=f"lspci -vv -s {shlex.quote(first.link)} | grep -E 'LnkCap|LnkSta'",
                needs_root=True,
            ),
            Fix(text="Seat the card or its riser again; look at the slot's bifurcation."),
        ],
    )


def _width_price(case: Case, link: _Narrow) -> str:
    gpu = case.machine.gpu(link.device)
    device = case.pci(link.link)
    gen = _gen(device.link_speed_max_gts if device is not None else None)
    if gen is None and gpu is not None:
        gen = gpu.pcie_gen_max
    now, whole = (pcie_gbs(gen, lanes) if gen else None for lanes in (link.now, link.most))
    if now is None or whole is None:
        return f"Host copies and PCIe traffic get {link.now} of {link.most} lanes."
    text = f"The link carries {gbs(now)} instead of {gbs(whole)} one way"
    sku = case.sku(gpu) if gpu is not None else None
    known = sku.figure("h2d") if sku is not None else None
    if known is not None and known.fraction:
        reach = known.fraction * now
        text += f"; a host copy reaches about {gbs(reach)} instead of {gbs(known.fraction * whole)}"
    return text + "."


WIDTH = Rule(
    id="pcie-width",
    peers="D07",
    title="PCIe links with fewer lanes than both ends have",
    evidence="lanes now and at most of each link from a GPU or RDMA device up, and lanes while the "
    "probe host copied",
    disproof="LnkSta Width equal to the smaller LnkCap Width of both ends in `lspci -vv`",
    sources=("NVIDIA/open-gpu-kernel-modules#1010", "NVIDIA/nccl#1614", "NVIDIA/NVSentinel#890"),
    check=_check_width,
)
