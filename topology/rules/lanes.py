"""Lanes of PCIe links: fewer than both ends have, or than siblings have where a guest hides one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from ..expectation.links import pcie_gbs
from ..machine import Gpu, PciDevice
from ..units import gbs
from ..wiring.wires import PCIE_GTS
from .case import Case
from .finding import NOTICE, SLOW, Evidence, Finding, Fix
from .rule import Rule

_WIDTH = "sysfs current_link_width, max_link_width"


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
    found = {
        gpu.address
        for gpu in case.gpus
        if any(link.now < link.most for link in _links(case, gpu.address))
    }
    return found | {one.device for one in _by_siblings(case, found)}


def _check_width(case: Case) -> Iterable[Finding] | None:
    ends = [gpu.address for gpu in case.gpus]
    ends += [nic.address for nic in case.machine.rdma if nic.address and case.pci(nic.address)]
    read = False
    found: list[_Narrow] = []
    for end in ends:
        links = _links(case, end)
        read = read or bool(links)
        found += [link for link in links if link.now < link.most]
    widths = [_width(case, gpu) for gpu in case.gpus]
    if not read and sum(width is not None for width in widths) < 2:
        return None
    found += _by_siblings(case, {one.device for one in found})
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
    """Every link of the way up of which both ends were read."""
    chain = case.way_up(end)
    found = []
    for device, above in pairwise(chain):
        most = _most(device, above)
        if device.link_width_now and most:
            found.append(_Narrow(end, device.address, device.link_width_now, most, _WIDTH))
    return found


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
            found.append(_Narrow(gpu.address, gpu.address, now, most, "NVML or sysfs, siblings"))
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
                command=f"lspci -vv -s {first.link} | grep -E 'LnkCap|LnkSta'",
                needs_root=True,
            ),
            Fix(text="Seat the card or its riser again; look at the slot's bifurcation."),
        ],
    )


def _width_price(case: Case, link: _Narrow) -> str:
    gpu = case.machine.gpu(link.device)
    device = case.pci(link.link)
    gts = device.link_speed_max_gts if device is not None else None
    gen = next((gen for gen, rate in PCIE_GTS.items() if rate == gts), None)
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
    evidence="lanes now and at most of each link from a GPU or RDMA device up",
    disproof="LnkSta Width equal to the smaller LnkCap Width of both ends in `lspci -vv`",
    sources=("NVIDIA/open-gpu-kernel-modules#1010", "NVIDIA/nccl#1614", "NVIDIA/NVSentinel#890"),
    check=_check_width,
)
