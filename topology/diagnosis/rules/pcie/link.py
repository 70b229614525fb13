"""PCIe links: fewer lanes or a lower speed than both ends support, and new replays."""

from collections.abc import Sequence

from msgspec.structs import replace

from ....expectation.cost.cost import Cost
from ....expectation.cost.costs import costs_of
from ....expectation.links import generation_of, pcie_gbs
from ....model import quantities
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.severity import NOTICE, SLOW, FigureBasis, Severity
from ....model.snapshot import Measurement
from ....model.units import gbs
from ....model.units import seconds as time_of
from ....wiring.wires import PCIE_GTS
from ... import vendors
from ...case import Case
from ...gpu_rule import of_gpus
from ...rule import Found, Rule, Step, faulty, needed
from ...shared.counters import added, both_readings, elapsed_seconds, rate
from ...shared.lanes import (
    Narrow,
    by_itself,
    by_siblings,
    links_of,
    loaded,
    too_few,
    under_load,
    width_now,
)


def _check(case: Case) -> Found:
    ends = [gpu.address for gpu in case.gpus]
    gpus = set(ends)
    ends += [nic.address for nic in case.machine.rdma if nic.address and case.pci(nic.address)]
    widths = [width for gpu in case.gpus if (width := width_now(case, gpu)) is not None]
    if not widths and not loaded(case) and not any(links_of(case, end) for end in ends):
        return None
    found = [link for end in ends for link in too_few(case, end)]
    found += by_siblings(case, {link.device for link in found})
    found += under_load(case, {link.device for link in found})
    alone = by_itself(case, {link.device for link in found})
    # A bridge above several devices is one link.
    shared = {link.link for link in found if link.device in gpus}
    mine = [link for link in found if link.link in shared]
    nics = [link for link in found if link.link not in shared]
    # A root port may report more lanes than its slot has; a sibling with more proves a fault.
    harm = SLOW if any(_behind(case, link) for link in nics) else NOTICE
    groups = ((mine, SLOW), (nics, harm), (alone, NOTICE))
    return [_finding(case, some, of) for some, of in groups if some]


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
            _both_ends(first.link),
            f"Move the card to a slot with x{first.most}, or seat it or its riser again; look at "
            "the slot's bifurcation.",
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
    if not cost.lost and cost.basis not in (FigureBasis.MEASURED, FigureBasis.SIMULATED):
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


BUSY_PERCENT = 50.0
"""Load under which no driver leaves a link at its resting speed."""


def _check_generation(case: Case) -> Found:
    copied, busy = _under_copies(case), _while_busy(case)
    if copied is None and busy is None:
        return None
    said = {device for finding in copied or () for device in finding.devices}
    return [
        *(copied or ()),
        *_busy(case, [row for row in busy or () if row[0].address not in said]),
    ]


def _while_busy(case: Case) -> list[tuple[Gpu, int, int, float]] | None:
    """GPUs at work whose link is slower than the card's own; None where no load was read."""
    known = [
        (gpu, now.pcie_gen, _generation(case, gpu) or gpu.pcie_gen_max_device or 0, load)
        for gpu in case.gpus
        if (now := case.reading(gpu)) is not None
        and now.pcie_gen
        and (load := now.utilization_percent) is not None
    ]
    if not known:
        return None
    return [row for row in known if row[1] < row[2] and row[3] >= BUSY_PERCENT]


def _busy(case: Case, slow: Sequence[tuple[Gpu, int, int, float]]) -> list[Finding]:
    if not slow:
        return []
    gpu, seen, most, load = slow[0]
    return [
        of_gpus(
            GENERATION,
            case,
            slow,
            NOTICE,
            f"PCIe of {{gpus}} is at gen{seen} of gen{most} at a load of {load:.0f} %",
            (
                "PCIe of {gpu} at work",
                lambda _, seen, most, load: f"gen{seen} of gen{most}, load {load:.0f} %",
                vendors.source([gpu], "NVML"),
            ),
            impact="A GPU at work has its link at full speed, a resting one has not. Whether "
            "copies are slow was not measured.",
            fix=["Measure it. $ gputop probe host", _both_ends(gpu.address)],
        )
    ]


def _under_copies(case: Case) -> list[Finding] | None:
    figures = [
        (figure, figure.details.get("pcie_generation"))
        for quantity in LIVE
        for figure in case.figures(quantity, "pinned")
        if figure.value is not None
    ]
    known = [(figure, seen) for figure, seen in figures if isinstance(seen, int)]
    if not known:
        return None
    least = case.threshold(GENERATION, "minimum_share")
    slow: dict[str, tuple[Gpu, Measurement, int, int, float]] = {}
    for figure, seen in known:
        gpu = case.machine.gpu(figure.src or "")
        most = (_generation(case, gpu) if gpu is not None else None) or 0
        if gpu is None or not 0 < seen < most:
            continue
        whole = pcie_gbs(most, gpu.pcie_width_max or 16)
        # A port inside a switch may report a low speed, so the copy rate decides (nccl#1614).
        if whole is not None and (figure.value or 0.0) < least * whole:
            slow.setdefault(gpu.address, (gpu, figure, seen, most, whole))
    if not slow:
        return []
    found = list(slow.values())
    gpu, figure, seen, most, whole = found[0]
    return [
        of_gpus(
            GENERATION,
            case,
            found,
            SLOW,
            f"PCIe of {{gpus}} stays at gen{seen} under load, gen{most} is possible",
            (
                "PCIe of {gpu} while a copy ran",
                lambda _, figure, seen, most, whole: (
                    f"gen{seen} of gen{most}, {gbs(figure.value)} of {gbs(whole)}"
                ),
                lambda gpu, figure, *_: (
                    f"{figure.source}, {vendors.source([gpu], 'NVML')} during the copy"
                ),
            ),
            impact=f"Host copies get {gbs(figure.value)} where the link could carry "
            f"{gbs(whole)} one way.",
            fix=[
                _both_ends(gpu.address),
                "Seat the card again; set the slot's speed and switch off ASPM.",
            ],
        )
    ]


def _generation(case: Case, gpu: Gpu) -> int | None:
    """The generation that GPU and slot can both do."""
    rates = [d.link_speed_max_gts for d in case.way_up(gpu.address)[:2] if d.link_speed_max_gts]
    slot = max((gen for gen, gts in PCIE_GTS.items() if rates and gts <= min(rates)), default=None)
    known = [gen for gen in (gpu.pcie_gen_max, slot) if gen is not None]
    return min(known, default=None)


def _both_ends(address: str) -> Step:
    return (
        "See what each end can do and what came up. "
        "# lspci -vv -s {:address} | grep -E 'LnkCap|LnkSta'",
        address,
    )


def _check_replays(case: Case) -> Found:
    elapsed = elapsed_seconds(case)
    if elapsed is None:
        return None
    counts = [
        (gpu, added(now.pcie_replays, before.pcie_replays))
        for gpu, now, before in both_readings(case)
    ]
    known = needed([(gpu, count) for gpu, count in counts if count is not None])
    sick = faulty([(gpu, count) for gpu, count in known if count])
    worst = max(rate(count, elapsed, MINUTE_SECONDS) for _, count in sick)
    often = worst >= case.threshold(REPLAYS, "per_minute")
    source = vendors.source(case.gpus, "NVML nvmlDeviceGetPcieReplayCounter")
    return of_gpus(
        REPLAYS,
        case,
        sick,
        SLOW if often else NOTICE,
        f"PCIe replays of {{gpus}} grew in {time_of(elapsed)}",
        (
            f"replays added on {{gpu}} in {time_of(elapsed)}",
            lambda _, count: str(count),
            f"{source}, two readings",
        ),
        impact="Packets are sent again: host copies and P2P over PCIe slow down, and the "
        "link may lose lanes or speed."
        if often
        else "A few packets were sent again, which costs nothing. Watch whether it goes on.",
        fix=[
            vendors.step(
                case.gpus,
                "Watch the counter.",
                nvidia="nvidia-smi -q -d PCIE | grep -i replay",
                amd="amd-smi metric --pcie",
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
    evidence="PCIe generation read while a copy of probe host ran, and its GB/s, or beside a load "
    "of the GPU; never at rest",
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
