"""All layouts of a model over some GPUs, the fastest that fit first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec

from .gpu import GpuRates
from .layout import Layout, StepPlan, why_not
from .peak import MemoryPeak, memory_peak
from .shape import ModelShape
from .step import GRADIENTS, SHARDED, StepTime, step_time
from .wires import WireOf
from .work import WHOLE, Recompute, utilisation, work_of

TOKENS_EACH = 16384
"""Tokens of a GPU and step where nobody says: enough for data parallelism to hide, see bounds."""
MOST_TOKENS = 1 << 24
"""Of a step over all GPUs where nobody says: those of Llama 3 405B (arXiv 2407.21783, table 4)."""
MOST_GROUPS = 8
"""Groups of layers that a stage is tried with: so many has Llama 3 405B in Megatron's recipes."""
LONG_SEQUENCE = 32768
"""From this length on a sequence may be divided as well (context parallelism)."""
MICROS = (1, 2, 4)


class Free(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; None is left to the search."""

    sequence: int
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | None = None
    cp: int | None = None
    micro: int | None = None
    accumulation: int | None = None
    batch: int | None = None
    """Sequences of a step, over all GPUs."""
    interleave: int | None = None
    zero: int | None = None
    recompute: Recompute | None = None


class RankedLayout(msgspec.Struct, frozen=True, kw_only=True):
    """One layout with the way of training it that is fastest among those that fit."""

    layout: Layout
    plan: StepPlan
    peak: MemoryPeak
    fits: bool | None
    """None where the memory of the GPU is not known."""
    time: StepTime | None
    why_none: str = ""
    tokens: int = 0
    """Tokens of a step, over all GPUs."""
    flop_per_token: float = 0.0
    """Forward and backward, causal."""
    used: float | None = None
    """Share of the peak on paper that the model's FLOP are (MFU, all scores counted)."""

    @property
    def tokens_per_s(self) -> float:
        """Over all GPUs; 0 where the time is not known."""
        return self.tokens / self.time.step_s if self.time is not None else 0.0

    @property
    def tflops(self) -> float | None:
        """Of the model, forward and backward, causal: what each GPU reaches."""
        if self.time is None:
            return None
        return self.flop_per_token * self.tokens_per_s / self.layout.gpus / 1e12

    @property
    def replica_tokens(self) -> float | None:
        """Tokens of a replica between two reductions; None without data parallelism.

        ZeRO-3 gathers for every micro-batch, the other stages reduce once a step.
        """
        if self.layout.dp * self.layout.cp == 1:
            return None
        passes = 1 if self.plan.zero >= 3 else self.plan.accumulation
        return passes * self.plan.micro * self.plan.sequence / self.layout.cp

    @property
    def hides_tokens(self) -> float | None:
        """From so many on what a replica sends takes no longer than what it computes."""
        tokens, time = self.replica_tokens, self.time
        if tokens is None or time is None:
            return None
        sent = sum(one.seconds for one in time.exposed if one.what in (GRADIENTS, SHARDED))
        computed = time.products_s + time.attention_s + time.between_s
        return tokens * sent / computed


def divisors(number: int) -> list[int]:
    """All of them, from small to large."""
    return [one for one in range(1, number + 1) if number % one == 0]


def layouts(shape: ModelShape, gpus: int, each: int, free: Free) -> Iterator[Layout]:
    """All that divide the model and take all GPUs."""
    for tp in _asked(free.tp, [one for one in divisors(each) if one <= each]):
        for pp in _asked(free.pp, divisors(gpus)):
            if gpus % (tp * pp):
                continue
            rest = gpus // (tp * pp)
            longest = rest if free.sequence >= LONG_SEQUENCE else 1
            for cp in _asked(free.cp, [one for one in divisors(rest) if one <= longest]):
                if rest % cp or (free.dp is not None and rest // cp != free.dp):
                    continue
                for ep in _asked(free.ep, divisors(rest) if shape.experts else [1]):
                    made = Layout(tp=tp, pp=pp, dp=rest // cp, ep=ep, cp=cp)
                    if not why_not(shape, made, each):
                        yield made


def _asked(value: int | None, several: list[int]) -> list[int]:
    return several if value is None else [value]


def sequences_of(gpus: int, free: Free) -> int:
    """Sequences of a step over all GPUs where accumulation is not told."""
    if free.batch is not None:
        return free.batch
    most = max(1, MOST_TOKENS // free.sequence)
    return min(gpus * max(1, TOKENS_EACH // free.sequence), most)


def groups_of(shape: ModelShape, layout: Layout, count: int, free: Free) -> list[int]:
    """Groups of layers that each stage may have: one, and the most that divide its layers.

    More than one need micro-batches in multiples of the stages (Megatron-LM, arXiv 2104.04473).
    """
    if layout.pp == 1:
        return [1]
    layers = -(-shape.layers // layout.pp)
    tried = range(1, MOST_GROUPS + 1) if free.interleave is None else (free.interleave,)
    could = [one for one in tried if not layers % one and (one == 1 or not count % layout.pp)]
    return sorted({could[0], could[-1]}) if could else []


def plans(
    shape: ModelShape, layout: Layout, gpus: int, free: Free, base: StepPlan
) -> Iterator[StepPlan]:
    """The ways to train a layout that are tried."""
    zeros = [0] if layout.dp * layout.cp == 1 else [1, 3] if layout.pp == 1 else [1]
    agains = [Recompute.NONE, Recompute.FULL] if free.recompute is None else [free.recompute]
    for micro in _asked(free.micro, list(MICROS)):
        count = free.accumulation
        if count is None:
            count, odd = divmod(sequences_of(gpus, free), layout.dp * micro)
            if odd or not count:
                if free.micro is None or free.batch is not None:
                    continue
                count = max(1, count)
        tried = itertools.product(
            _asked(free.zero, zeros), agains, groups_of(shape, layout, count, free)
        )
        for zero, again, groups in tried:
            yield msgspec.structs.replace(
                base, micro=micro, accumulation=count, zero=zero, recompute=again,
                interleave=groups,
            )  # fmt: skip


def ranked(
    shape: ModelShape,
    gpus: int,
    each: int,
    free: Free,
    base: StepPlan,
    rates: GpuRates,
    wire_of: WireOf,
) -> list[RankedLayout]:
    """Every layout once, the fastest that fit first, then those that do not."""
    found = []
    for layout in layouts(shape, gpus, each, free):
        every = plans(shape, layout, gpus, free, base)
        tried = [_one(shape, layout, plan, rates, wire_of) for plan in every]
        if tried:
            found.append(min(tried, key=_order))
    return sorted(found, key=_order)


def fits_from(
    shape: ModelShape, each: int, free: Free, base: StepPlan, memory: int, most: int = 1024
) -> int | None:
    """The fewest nodes of one, two, four and so on over which something fits; None: not even so."""
    nodes = 1
    while nodes <= most:
        for layout in layouts(shape, nodes * each, each, free):
            for plan in plans(shape, layout, nodes * each, free, base):
                if memory_peak(shape, layout, plan).needed <= memory:
                    return nodes
        nodes *= 2
    return None


def _order(one: RankedLayout) -> tuple[int, float]:
    """What fits by speed; what does not by how much memory it lacks."""
    if one.fits is False:
        return 2, one.peak.needed
    return (1, 0.0) if one.time is None else (0, -one.tokens_per_s)


def _one(
    shape: ModelShape, layout: Layout, plan: StepPlan, rates: GpuRates, wire_of: WireOf
) -> RankedLayout:
    peak = memory_peak(shape, layout, plan)
    fits = None if rates.memory_bytes is None else peak.needed <= rates.memory_bytes
    tokens = plan.micro * plan.accumulation * layout.dp * plan.sequence
    made = RankedLayout(layout=layout, plan=plan, peak=peak, fits=fits, time=None, tokens=tokens)
    flop = work_of(shape, plan.sequence).model
    made = msgspec.structs.replace(made, flop_per_token=flop)
    if fits is False:
        return msgspec.structs.replace(made, why_none="it does not fit")
    time = step_time(shape, layout, plan, rates, wire_of)
    if isinstance(time, str):
        return msgspec.structs.replace(made, why_none=time)
    used = None
    if rates.sheet_flops:
        whole = work_of(shape, plan.sequence, WHOLE).model
        used = utilisation(whole, tokens / time.step_s, layout.gpus, rates.sheet_flops)
    return msgspec.structs.replace(made, time=time, used=used)
