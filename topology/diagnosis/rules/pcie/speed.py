"""PCIe links that are slower under load than both ends allow, and new replays."""

from __future__ import annotations

import shlex

from ....expectation.links import pcie_gbs
from ....model import quantities
from ....model.machine import Gpu
from ....model.page import Fix
from ....model.severity import NOTICE, SLOW
from ....model.snapshot import Measurement
from ....model.units import gbs
from ....model.units import seconds as time_of
from ....wiring.wires import PCIE_GTS
from ... import vendors
from ...case import Case
from ...rule import Found, Rule
from ...shared.counters import added, elapsed_seconds, rate

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

RULES = (GENERATION, REPLAYS)
