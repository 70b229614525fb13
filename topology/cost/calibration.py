"""What one observed step says of the others: how much slower computing is than healthy."""

from __future__ import annotations

import msgspec

from .gpu import GpuRates
from .layout import Layout, StepPlan
from .memory import KernelStyle
from .shape import ModelShape
from .step import StepTime, step_time
from .wires import WireOf

LEAST, MOST = 0.5, 20.0
"""Computing cannot take less than half of the healthy time; beyond 20 times it is another thing."""
HOSTS = 8.0
"""No host is known to launch more slowly than so many times the usual."""
NEAR = 1.0001


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """One layout as it was observed, and the one factor that explains it."""

    layout: Layout
    plan: StepPlan
    observed_s: float
    predicted_s: float
    slower: float
    """How many times as long computing takes as predicted; 1 where the host is taken for it."""
    host_slower: float | None = None
    """The same of launches by the host, where they are taken for the reason."""
    wires_slower: float | None = None
    """The same of communication alone; None where that cannot explain it."""

    def rates(self, rates: GpuRates) -> GpuRates:
        """Rates of the GPUs for all layouts."""
        return slowed(rates, self.slower)

    def plan_of(self, plan: StepPlan) -> StepPlan:
        """A plan of any layout on this host."""
        return msgspec.structs.replace(plan, host=plan.host * (self.host_slower or 1.0))


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
    found = Calibration(
        layout=layout,
        plan=plan,
        observed_s=observed_s,
        predicted_s=first.step_s,
        slower=1.0,
        wires_slower=_wires(first, observed_s),
    )
    if _by_host(plan, first, observed_s):
        return msgspec.structs.replace(found, host_slower=observed_s / first.host_s)
    while high / low > NEAR:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if seconds(middle) < observed_s else (low, middle)
    return msgspec.structs.replace(found, slower=low)


def _by_host(plan: StepPlan, first: StepTime, observed_s: float) -> bool:
    """Whether the host is taken for the reason: in eager PyTorch, beyond what healthy GPUs differ.

    Two H200 computed within 2 % of what is predicted, and their host launched 4.5 times as slowly.
    """
    eager = plan.style is KernelStyle.EAGER
    return eager and observed_s > first.most_s and observed_s < HOSTS * first.host_s


def _wires(first: StepTime, observed_s: float) -> float | None:
    """The factor of communication alone; None where that is no explanation."""
    rest = first.step_s - first.exposed_s
    if first.exposed_s * MOST > observed_s - rest > 0:
        return (observed_s - rest) / first.exposed_s
    return None


def told(found: Calibration) -> str:
    """What follows, as a sentence or two."""
    share = found.observed_s / found.predicted_s
    plan = found.plan
    said = (
        f"{found.layout.text} (ZeRO {plan.zero}, recompute {plan.recompute}, {plan.micro} x "
        f"{plan.accumulation}) took {found.observed_s:.3g} s where {found.predicted_s:.3g} s are "
        f"predicted ({share:.2f} times): "
    )
    if found.host_slower is not None:
        said += (
            f"launches are taken for the reason, for which this host needs {found.host_slower:.1f} "
            "times as long as a usual one, in all layouts below."
        )
    else:
        said += (
            f"computing takes {found.slower:.2f} times as long as on healthy GPUs in all layouts "
            "below."
        )
    wires = found.wires_slower
    if wires is not None and wires > 1.05 and max(found.slower, found.host_slower or 1) > 1.02:
        said += (
            f" Were it communication instead, that took {wires:.1f} times as long; one step cannot "
            "tell them apart, and layouts that send more would lose more."
        )
    return said
