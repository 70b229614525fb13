"""PCIe links that are narrower or slower than both ends allow, and replays that were added."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from ..expectation.links import pcie_gbs
from ..machine import Gpu, PciDevice
from ..snapshot import Measurement
from ..units import gbs
from ..units import seconds as time_of
from ..wiring.wires import PCIE_GTS
from .case import Case
from .counters import added, elapsed_seconds, rate
from .finding import NOTICE, SLOW, Evidence, Finding, Fix
from .rule import Rule

MINUTE_SECONDS = 60.0
LIVE = ("h2d_bandwidth", "d2h_bandwidth")
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
    # A bridge above several devices is one link.
    unique = list({one.link: one for one in found}.values())
    return [_narrow(case, unique, found)] if unique else []


def _links(case: Case, end: str) -> list[_Narrow]:
    """Every link of the way up of which both ends were read."""
    chain = case.way_up(end)
    found = []
    for device, above in pairwise(chain):
        most = _most(device, above)
        if device.link_width_now is not None and most is not None:
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
    if device is not None and device.link_width_now is not None:
        return device.link_width_now
    reading = case.reading(gpu)
    return reading.pcie_width if reading is not None else None


def _narrow(case: Case, links: Sequence[_Narrow], all_: Sequence[_Narrow]) -> Finding:
    who = list(dict.fromkeys(one.device for one in all_))
    first = links[0]
    return WIDTH.finding(
        SLOW,
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


def _check_generation(case: Case) -> Iterable[Finding] | None:
    figures = [
        one
        for quantity in LIVE
        for one in case.figures(quantity, "pinned")
        if one.value is not None and isinstance(one.details.get("pcie_generation"), int)
    ]
    if not figures:
        return None
    least = case.threshold(GENERATION, "minimum_share")
    slow: dict[str, tuple[Gpu, Measurement, int, float]] = {}
    for one in figures:
        gpu = case.machine.gpu(one.src or "")
        most = _generation(case, gpu) if gpu is not None else None
        seen = one.details["pcie_generation"]
        if gpu is None or most is None or not 0 < seen < most:
            continue
        whole = pcie_gbs(most, gpu.pcie_width_max or 16)
        # A port inside a switch may name a low speed; what was copied decides (nccl#1614).
        if whole is not None and (one.value or 0.0) < least * whole:
            slow.setdefault(gpu.address, (gpu, one, most, whole))
    if not slow:
        return []
    who = list(slow)
    _, one, most, whole = slow[who[0]]
    seen = one.details["pcie_generation"]
    return [
        GENERATION.finding(
            SLOW,
            f"PCIe of {case.names(who)} stays at gen{seen} under load, gen{most} is possible",
            devices=who,
            evidence=[
                Evidence(
                    what=f"PCIe of {case.name(gpu.address)} while a copy ran",
                    value=f"gen{figure.details['pcie_generation']} of gen{best}, "
                    f"{gbs(figure.value)} of {gbs(rate_)}",
                    source=f"probe {figure.probe}, NVML during the copy",
                )
                for gpu, figure, best, rate_ in slow.values()
            ],
            consequence=f"Host copies get {gbs(one.value)} where the link could carry {gbs(whole)} "
            "one way.",
            fix=[
                Fix(
                    text="See what each end can do and what came up.",
                    command=f"lspci -vv -s {who[0]} | grep -E 'LnkCap|LnkSta'",
                    needs_root=True,
                ),
                Fix(text="Seat the card again; set the slot's speed and switch off ASPM."),
            ],
        )
    ]


def _generation(case: Case, gpu: Gpu) -> int | None:
    """The generation that GPU and slot can both do."""
    rates = [d.link_speed_max_gts for d in case.way_up(gpu.address)[:2] if d.link_speed_max_gts]
    slot = max((gen for gen, gts in PCIE_GTS.items() if rates and gts <= min(rates)), default=None)
    known = [gen for gen in (gpu.pcie_gen_max, slot) if gen is not None]
    return min(known, default=None)


def _check_replays(case: Case) -> Iterable[Finding] | None:
    elapsed = elapsed_seconds(case)
    if elapsed is None:
        return None
    grown: dict[str, int] = {}
    for gpu in case.gpus:
        now, before = case.reading(gpu), case.earlier_reading(gpu)
        count = added(now.pcie_replays, before.pcie_replays) if now and before else None
        if count is not None:
            grown[gpu.address] = count
    if not grown:
        return None
    sick = [address for address, count in grown.items() if count]
    if not sick:
        return []
    worst = max(rate(grown[address], elapsed, MINUTE_SECONDS) for address in sick)
    often = worst >= case.threshold(REPLAYS, "per_minute")
    return [
        REPLAYS.finding(
            SLOW if often else NOTICE,
            f"PCIe replays of {case.names(sick)} grew in {time_of(elapsed)}",
            devices=sick,
            evidence=[
                Evidence(
                    what=f"replays added on {case.name(address)} in {time_of(elapsed)}",
                    value=str(grown[address]),
                    source="NVML nvmlDeviceGetPcieReplayCounter, two readings",
                )
                for address in sick
            ],
            consequence="Packets are sent again: host copies and P2P over PCIe slow down, and the "
            "link may lose lanes or speed."
            if often
            else "A few packets were sent again, which costs nothing. Watch whether it goes on.",
            fix=[
                Fix(
                    text="Watch the counter.",
                    command="nvidia-smi -q -d PCIE | grep -i replay",
                ),
                Fix(text="If it goes on, seat the card or its riser again."),
            ],
        )
    ]


WIDTH = Rule(
    id="pcie-width",
    peers="D07",
    title="PCIe links with fewer lanes than both ends have",
    evidence="lanes now and at most of each link from a GPU or RDMA device up",
    disproof="LnkSta Width equal to the smaller LnkCap Width of both ends in `lspci -vv`",
    sources=("NVIDIA/open-gpu-kernel-modules#1010", "NVIDIA/nccl#1614", "NVIDIA/NVSentinel#890"),
    check=_check_width,
)
GENERATION = Rule(
    id="pcie-generation",
    peers="D07",
    title="PCIe links that stay slow under load",
    evidence="probe host: PCIe generation read while a copy ran, and its GB/s; never at rest",
    disproof="the full generation during a copy, or more than three quarters of the link's rate",
    sources=("NVIDIA/open-gpu-kernel-modules#731", "NVIDIA/open-gpu-kernel-modules#1010"),
    check=_check_generation,
    implied_by=("pcie-width",),
    thresholds=(("minimum_share", 0.75),),
)
REPLAYS = Rule(
    id="pcie-replays",
    peers="D07",
    title="PCIe replays that were added between two readings",
    evidence="replay counter of each GPU, now and earlier on the same boot",
    disproof="equal counters in two readings; a total says nothing",
    sources=("NVIDIA/DCGM DCGM_LIMIT_MAX_PCIREPLAY_RATE", "local-inference-lab/rtx6kpro PR 88"),
    check=_check_replays,
    thresholds=(("per_minute", 8.0),),
)

RULES = (WIDTH, GENERATION, REPLAYS)
