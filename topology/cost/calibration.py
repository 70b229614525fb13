"""What one observed step says of the others: how much slower computing is than healthy."""

from __future__ import annotations

import msgspec

from .gpu import GpuRates
from .layout import Layout, StepPlan
from .shape import ModelShape
from .step import StepTime, step_time
from .wires import WireOf

LEAST, MOST = 0.5, 20.0
"""Computing cannot take less than half of the healthy time; beyond 20 times it is another thing."""
NEAR = 1.0001


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """One layout as it was observed."""

    layout: Layout
    plan: StepPlan
    observed_s: float
    predicted_s: float
    slower: float
    """How many times as long computing takes as predicted, were it that alone."""
    wires_slower: float | None
    """The same of communication alone; None where that cannot explain it."""


def slowed(rates: GpuRates, factor: float) -> GpuRates:
    """Rates of a GPU that takes so many times as long for everything it computes."""
    return msgspec.structs.replace(
        rates,
        flops=None if rates.flops is None else rates.flops / factor,
        bytes_per_s=None if rates.bytes_per_s is None else rates.bytes_per_s / factor,
        attention=(rates.attention[0] / factor, rates.attention[1] / factor),
    )


def calibrated(
    shape: ModelShape,
    layout: Layout,
    plan: StepPlan,
    rates: GpuRates,
    wire_of: WireOf,
    observed_s: float,
) -> Calibration | str:
    """Fit the one factor of computing; a sentence where none gives the observed step."""

    def seconds(factor: float) -> float:
        found = step_time(shape, layout, plan, slowed(rates, factor), wire_of)
        return found.step_s if isinstance(found, StepTime) else 0.0

    first = step_time(shape, layout, plan, rates, wire_of)
    if isinstance(first, str):
        return first
    low, high = LEAST, MOST
    if observed_s < seconds(low):
        return (
            f"{layout.text} cannot take {observed_s:.3g} s: {first.step_s:.3g} s are predicted, "
            "and twice the healthy rates would not do; is it of another batch, or of several steps?"
        )
    if observed_s > seconds(high):
        return (
            f"{observed_s:.3g} s are over {MOST:.0f} times what is predicted of {layout.text}, "
            f"{first.step_s:.3g} s: something else than computing takes them"
        )
    while high / low > NEAR:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if seconds(middle) < observed_s else (low, middle)
    rest = first.step_s - first.exposed_s
    wires = None
    if first.exposed_s * MOST > observed_s - rest > 0:
        wires = (observed_s - rest) / first.exposed_s
    return Calibration(
        layout=layout,
        plan=plan,
        observed_s=observed_s,
        predicted_s=first.step_s,
        slower=low,
        wires_slower=wires,
    )


def told(found: Calibration) -> str:
    """What follows, as a sentence or two."""
    share = found.observed_s / found.predicted_s
    plan = found.plan
    said = (
        f"{found.layout.text} (ZeRO {plan.zero}, recompute {plan.recompute}, {plan.micro} x "
        f"{plan.accumulation}) took {found.observed_s:.3g} s where {found.predicted_s:.3g} s are "
        f"predicted ({share:.2f} times): computing takes {found.slower:.2f} times as long as on "
        "healthy GPUs in all layouts below."
    )
    if found.wires_slower is not None and found.wires_slower > 1.05 and found.slower > 1.02:
        said += (
            f" Were it communication instead, that took {found.wires_slower:.1f} times as long; "
            "one step cannot tell the two apart, and layouts that send more would lose more."
        )
    return said
