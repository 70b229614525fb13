"""PCIe links: fewer lanes or a lower speed than both ends support, and new replays."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from msgspec.structs import replace

from ....expectation.cost.cost import Cost
from ....expectation.cost.costs import costs_of
from ....expectation.links import pcie_gbs
from ....model import quantities
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.page import MEASURED, SIMULATED, Fix
from ....model.severity import NOTICE, SLOW, Severity
from ....model.snapshot import Measurement
from ....model.units import gbs
from ....model.units import seconds as time_of
from ....wiring.wires import PCIE_GTS
from ... import vendors
from ...case import Case
from ...rule import Found, Rule
from ...shared.counters import added, elapsed_seconds, rate
from ...shared.lanes import (
    Narrow,
    by_siblings,
    generation_of,
    links_of,
    loaded,
    too_few,
    under_load,
    width_now,
)


def _check(case: Case) -> Found:
    ends = [gpu.address for gpu in case.gpus]
    ends += [nic.address for nic in case.machine.rdma if nic.address and case.pci(nic.address)]
    read = False
    found: list[Narrow] = []
    for end in ends:
        links = links_of(case, end)
        read = read or bool(links)
        found += too_few(case, end)
    loads = loaded(case)
    widths = [width_now(case, gpu) for gpu in case.gpus]
    if not read and sum(width is not None for width in widths) < 2 and not loads:
        return None
    found += by_siblings(case, {link.device for link in found})
    found += under_load(case, {link.device for link in found})
    gpus = {gpu.address for gpu in case.gpus}
    # A bridge above several devices is one link.
    shared = {link.link for link in found if link.device in gpus}
    of_gpus = [link for link in found if link.link in shared]
    of_nics = [link for link in found if link.link not in shared]
    made = [_finding(case, of_gpus, SLOW)] if of_gpus else []
    if of_nics:
        # A root port may report more lanes than its slot has; a sibling with more proves a fault.
        sisters = any(_behind(case, of_nic) for of_nic in of_nics)
        made.append(_finding(case, of_nics, SLOW if sisters else NOTICE))
    return made


def _behind(case: Case, link: Narrow) -> bool:
    """Whether another RDMA device of the same kind has more lanes."""
    mine = case.pci(link.device)
    others = (case.pci(nic.address) for nic in case.machine.rdma if nic.address)
    return mine is not None and any(
        other.link_width_now is not None and other.link_width_now > link.now
        for other in others
        if other is not None and other.device_id == mine.device_id
    )


def _finding(case: Case, found: Sequence[Narrow], severity: Severity) -> Finding:
    who = list(dict.fromkeys(link.device for link in found))
    links = list({link.link: link for link in found}.values())
    first = links[0]
    cost = _cost(case, first)
    return WIDTH.finding(
        severity,
        f"PCIe of {case.names(who)} has x{first.now} instead of x{first.most}",
        brief=f"PCIe x{first.now} of x{first.most}",
        devices=who,
        evidence=[
            (
                f"lanes of the link of {case.name(link.link)}"
                + (f", on the way to {case.name(link.device)}" if link.link != link.device else ""),
                f"x{link.now} of x{link.most}",
                link.source,
            )
            for link in links[:6]
        ],
        impact=_price(case, first),
        cost="" if cost is None else cost.brief,
        fix=[
            (
                "See what each end can do and what came up. "
                f"# lspci -vv -s {shlex.quote(first.link)} | grep -E 'LnkCap|LnkSta'"
            ),
            "Seat the card or its riser again; look at the slot's bifurcation.",
        ],
    )


def _rates(case: Case, link: Narrow) -> tuple[float | None, float | None]:
    """What the link carries now and with all its lanes, GB/s one way."""
    gpu = case.machine.gpu(link.device)
    device = case.pci(link.link)
    gen = generation_of(device.link_speed_max_gts if device is not None else None)
    if gen is None and gpu is not None:
        gen = gpu.pcie_gen_max
    now, whole = (pcie_gbs(gen, lanes) if gen else None for lanes in (link.now, link.most))
    return now, whole


def _cost(case: Case, link: Narrow) -> Cost | None:
    """What host copies lose; None where nothing is known of them."""
    now, whole = _rates(case, link)
    cost = costs_of(case.node).host(link.device)
    if now is None or whole is None or cost is None or cost.healthy is None:
        return None
    if not cost.lost and cost.basis not in (MEASURED, SIMULATED):
        # Lanes that only a copy showed, or of a link further up.
        cost = replace(cost, here=cost.healthy * now / whole)
    return cost


def _price(case: Case, link: Narrow) -> str:
    now, whole = _rates(case, link)
    if now is None or whole is None:
        return f"Host copies and PCIe traffic get {link.now} of {link.most} lanes."
    text = f"The link carries {gbs(now)} instead of {gbs(whole)} one way"
    cost = _cost(case, link)
    if cost is not None and cost.lost:
        text += f"; {cost.text}"
    return text + "."


MINUTE_SECONDS = 60.0
LIVE = (quantities.HOST_TO_DEVICE, quantities.DEVICE_TO_HOST)


def _check_generation(case: Case) -> Found:
    figures = [
        figure
        for quantity in LIVE
        for figure in case.figures(quantity, "pinned")
        if figure.value is not None and isinstance(figure.details.get("pcie_generation"), int)
    ]
    if not figures:
        return None
    least = case.threshold(GENERATION, "minimum_share")
    slow: dict[str, tuple[Gpu, Measurement, int, float]] = {}
    for figure in figures:
        gpu = case.machine.gpu(figure.src or "")
        most = _generation(case, gpu) if gpu is not None else None
        seen = figure.details["pcie_generation"]
        if gpu is None or most is None or not 0 < seen < most:
            continue
        whole = pcie_gbs(most, gpu.pcie_width_max or 16)
        # A port inside a switch may report a low speed, so the copy rate decides (nccl#1614).
        if whole is not None and (figure.value or 0.0) < least * whole:
            slow.setdefault(gpu.address, (gpu, figure, most, whole))
    if not slow:
        return []
    who = list(slow)
    _, figure, most, whole = slow[who[0]]
    seen = figure.details["pcie_generation"]
    return GENERATION.finding(
        SLOW,
        f"PCIe of {case.names(who)} stays at gen{seen} under load, gen{most} is possible",
        devices=who,
        evidence=[
            (
                f"PCIe of {case.name(gpu)} while a copy ran",
                (
                    f"gen{figure.details['pcie_generation']} of gen{best}, {gbs(figure.value)} of "
                    f"{gbs(rate_)}"
                ),
                f"{figure.source}, {vendors.source([gpu], 'NVML')} during the copy",
            )
            for gpu, figure, best, rate_ in slow.values()
        ],
        impact=f"Host copies get {gbs(figure.value)} where the link could carry "
        f"{gbs(whole)} one way.",
        fix=[
            (
                "See what each end can do and what came up. "
                f"# lspci -vv -s {shlex.quote(who[0])} | grep -E 'LnkCap|LnkSta'"
            ),
            "Seat the card again; set the slot's speed and switch off ASPM.",
        ],
    )


def _generation(case: Case, gpu: Gpu) -> int | None:
    """The generation that GPU and slot can both do."""
    rates = [d.link_speed_max_gts for d in case.way_up(gpu.address)[:2] if d.link_speed_max_gts]
    slot = max((gen for gen, gts in PCIE_GTS.items() if rates and gts <= min(rates)), default=None)
    known = [gen for gen in (gpu.pcie_gen_max, slot) if gen is not None]
    return min(known, default=None)


def _check_replays(case: Case) -> Found:
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
    return REPLAYS.finding(
        SLOW if often else NOTICE,
        f"PCIe replays of {case.names(sick)} grew in {time_of(elapsed)}",
        devices=sick,
        evidence=[
            (
                f"replays added on {case.name(address)} in {time_of(elapsed)}",
                str(grown[address]),
                vendors.source(case.gpus, "NVML nvmlDeviceGetPcieReplayCounter") + ", two readings",
            )
            for address in sick
        ],
        impact="Packets are sent again: host copies and P2P over PCIe slow down, and the "
        "link may lose lanes or speed."
        if often
        else "A few packets were sent again, which costs nothing. Watch whether it goes on.",
        fix=[
            Fix(
                text="Watch the counter.",
                command=vendors.command(
                    case.gpus,
                    nvidia="nvidia-smi -q -d PCIE | grep -i replay",
                    amd="amd-smi metric --pcie",
                ),
            ),
            "If it goes on, seat the card or its riser again.",
        ],
    )


WIDTH = Rule(
    id="pcie-width",
    family="D07",
    title="PCIe links with fewer lanes than both ends support",
    evidence="lanes now and at most of each link from a GPU or RDMA device up, and lanes while the "
    "probe host copied",
    disproof="LnkSta Width equal to the smaller LnkCap Width of both ends in `lspci -vv`",
    sources=("NVIDIA/open-gpu-kernel-modules#1010", "NVIDIA/nccl#1614", "NVIDIA/NVSentinel#890"),
    check=_check,
)
GENERATION = Rule(
    id="pcie-generation",
    family="D07",
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
    family="D07",
    title="PCIe replays that were added between two readings",
    evidence="replay counter of each GPU, now and earlier on the same boot",
    over_time=True,
    disproof="equal counters in two readings; a total says nothing",
    sources=("NVIDIA/DCGM DCGM_LIMIT_MAX_PCIREPLAY_RATE", "local-inference-lab/rtx6kpro PR 88"),
    check=_check_replays,
    thresholds=(("per_minute", 8.0),),
)
RULES = (WIDTH, GENERATION, REPLAYS)
