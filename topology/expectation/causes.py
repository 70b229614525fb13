"""Observed physical reasons for a low figure: limits, throttling, a shared GPU."""

from __future__ import annotations

from ..model.machine import Gpu
from ..model.snapshot import Measurement
from ..wiring.graph import gpu_label
from .node import JudgedNode, words_of

THROTTLES = {
    "hw-thermal": "slowed down by its temperature (hardware)",
    "sw-thermal": "slowed down by its temperature (driver)",
    "thermal": "slowed down by its temperature",
    "prochot": "slowed down by its temperature",
    "hw-power-brake": "slowed down by the server's power brake",
    "hw-slowdown": "slowed down by hardware",
    "application-clocks": "held at clocks that somebody set",
    "applications-clocks": "held at clocks that somebody set",
    "sync-boost": "held at the clocks of its sync boost group",
}
"""Idle and display clocks do not count, and neither does a power cap at the usual limit, which a
large GEMM always meets (Azure/azurehpc-health-checks takes it for normal)."""
POWER_CAP = "sw-power-cap"
LOWERED = 0.97
"""Share of the usual limit below which a power limit counts as lowered."""


def seen(node: JudgedNode, figure: Measurement) -> tuple[str, ...]:
    """The reasons for this figure's GPUs, as clauses."""
    found: list[str] = []
    throttle = [_plain(word) for word in words_of(figure, "throttle")]
    gpus = [gpu for gpu in (node.gpu(figure.src), node.gpu(figure.dst)) if gpu is not None]
    who = gpu_label(gpus[0]) if len(gpus) == 1 else "a GPU"
    found += dict.fromkeys(f"{who} was {THROTTLES[word]}" for word in throttle if word in THROTTLES)
    if figure.unit == "TFLOP/s" and (not throttle or POWER_CAP in throttle):
        found += [text for gpu in gpus or node.machine.gpus if (text := _limit(node, gpu))]
    if figure.details.get("shared"):
        found.append("the GPU was shared with another process")
    elif forced := figure.details.get("forced"):
        who = forced if isinstance(forced, str) else "a GPU was in use"
        found.append(f"the measurement was forced: {who}")
    return tuple(found)


def explains(figure: Measurement) -> bool:
    """Whether what was observed explains a low figure.

    Clocks decide matrix products and memory, but hardly the copies over a link.
    """
    if figure.details.get("shared") or figure.details.get("forced"):
        return True
    return figure.unit == "TFLOP/s" or figure.quantity.startswith("memory_")


def _plain(word: str) -> str:
    return word.lower().replace("_", "-").replace(" ", "-")


def _limit(node: JudgedNode, gpu: Gpu) -> str:
    """Say that a power limit was lowered; "" where it was not or is not known."""
    sku = node.sku(gpu)
    usual = gpu.power_limit_default_watts
    if sku is not None and sku.tdp_watts and "tdp_w" not in sku.unconfirmed:
        usual = sku.tdp_watts
    limit = gpu.power_limit_watts
    if not limit or not usual or limit >= LOWERED * usual:
        return ""
    return f"{gpu_label(gpu)} has a power limit of {limit:.0f} W instead of {usual:.0f} W"
