"""Seconds of a step of a layout: computing, what communication is exposed, the bubble."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..expectation.calls.kinds import CollectiveKind, bus_share
from .gpu import GpuRates
from .layer import Spent, head, layer, optimizer_seconds
from .layout import Layout, StepPlan
from .memory import KernelStyle
from .shape import ModelShape
from .wires import NETWORK, SIZES, GroupWire, WireOf
from .work import Recompute

HIDES = 0.95
"""Share of a backward pass behind which gradients can be reduced: not the last bucket's."""
SLOWED = 0.3
"""What computing loses while a collective takes some of the multiprocessors: products lose whole
waves of tiles. Two H200 without P2P, seven runs: 0 to 0.44; with P2P, where a collective is short
and holds them while it waits for the other rank, 0.9 to 1.7."""
HELD = 0.1
"""What products and attention of a pipeline inside a node lose to a receive that waits on the GPU:
it holds up to 32 of 132 multiprocessors. Two H200, six runs that the GPU binds: 0.08 to 0.32."""
DTENSOR_S = 250e-6
"""Of the host for each product with a DTensor in each pass, to redistribute and to dispatch."""

GRADIENTS, SHARDED = "data: gradients", "data: parameters and gradients"
"""What data parallelism sends."""
SPREAD = 0.1
"""Of the rates of healthy GPUs: two H100 of one kind differ by 5 % in products, shapes by more."""
COPIED_BYTES = 12
"""For each parameter that FSDP gathers: copied out of the gathered buffer forward and backward, and
gradients into the buffer that is scattered, each read and written in 16 bits."""
HOST_ADAM_S = 0.25e-9
"""Of a host for each parameter that it updates (CPU-Adam of ZeRO-Offload, arXiv 2101.06840: 2.57 s
for ten billion)."""
MEGATRON_BUCKET, MEGATRON_EACH = 40_000_000, 1_000_000
"""Parameters of a bucket of Megatron's distributed optimizer, at least and for each rank."""
MEETING = 5
"""Where host and GPU take about as long, each waits for the other in turns: a step is the norm of
this order of both. 66 steps of two H200 fit orders from 4 to 8; the larger alone was 4 % too short
in the middle and a third at worst."""
SHARDED_S = 1e-3
"""Of the host for each layer that FSDP gathers and scatters in a step."""


class Exposed(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of communication in a step."""

    what: str
    """"tensor: all-reduce"."""
    wire: str
    seconds: float
    """Of the wire, hidden or not."""
    exposed_s: float
    bytes_sent: float
    """That one GPU sends."""


class StepTime(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a layout."""

    step_s: float
    products_s: float
    attention_s: float
    between_s: float
    optimizer_s: float
    bubble_s: float
    host_s: float
    """What the host needs to launch a step; the step is no shorter."""
    exposed: tuple[Exposed, ...]
    least_s: float
    """Where healthy machines differ: the rates of products by a tenth, wires by their band."""
    most_s: float

    @property
    def compute_s(self) -> float:
        """Of the GPU that has most to do, without the bubble."""
        return self.products_s + self.attention_s + self.between_s + self.optimizer_s

    @property
    def exposed_s(self) -> float:
        """All communication that nothing hides."""
        return sum(one.exposed_s for one in self.exposed)

    @property
    def launch_bound(self) -> bool:
        """Whether the host is the limit."""
        return self.host_s > self.compute_s + self.exposed_s + self.bubble_s


def parameters_of(shape: ModelShape, layout: Layout, *, first: bool = True) -> float:
    """Parameters on the fullest GPU: one stage's, with the embedding or with the head."""
    layers = -(-shape.layers // layout.pp)
    dense = shape.attention_layer + shape.norms / (shape.layers + 0.5)
    fed = shape.dense_feed_forward / shape.layers
    experts = shape.all_experts / shape.layers / layout.ep
    ends = shape.embedding if first else shape.head
    if layout.pp == 1:
        ends = shape.embedding + (0 if shape.tied else shape.head)
    return (layers * (dense + fed + experts) + ends) / layout.tp


def experts_of(shape: ModelShape, layout: Layout) -> float:
    """The part of them that expert parallelism divides already."""
    layers = -(-shape.layers // layout.pp)
    return layers * shape.all_experts / shape.layers / layout.ep / layout.tp


def _of_hops(layout: Layout, wire_of: WireOf) -> GroupWire | None:
    """What the slowest hop of a pipeline goes by: some leave a node, and others may not."""
    stride = layout.gpus // layout.pp
    two, every = wire_of(min(2, layout.pp), stride), wire_of(layout.pp, stride)
    if two is None or every is None or every.name != NETWORK:
        return two
    inside, leaving = (one.seconds(CollectiveKind.SEND, SIZES[2]) for one in (two, every))
    return every if leaving > inside else two


def step_time(
    shape: ModelShape, layout: Layout, plan: StepPlan, rates: GpuRates, wire_of: WireOf
) -> StepTime | str:
    """The time of a step, or why it cannot be told, as a sentence."""
    parts = _stage(shape, layout, plan, rates)
    if parts is None:
        return f"the rates of {rates.name} in {plan.dtype} are not known"
    wires = {
        "tp": wire_of(layout.tp, 1),
        "cp": wire_of(layout.cp, layout.tp),
        "dp": wire_of(layout.dp * layout.cp, layout.tp),
        "ep": wire_of(layout.ep, layout.tp),
        "pp": _of_hops(layout, wire_of),
    }
    unknown = [name for name, wire in wires.items() if wire is None]
    if unknown:
        return f"what joins the ranks of {', '.join(unknown)} is not known"
    known = {name: wire for name, wire in wires.items() if wire is not None}
    forward, backward, last = parts
    inside = _inside(shape, layout, plan, known)
    blocking = sum(one.exposed_s for one in inside) / plan.accumulation
    one_pass = forward.gpu + backward.gpu + blocking
    passes = plan.accumulation
    bubble = (layout.pp - 1) * (one_pass - last) / plan.interleave  # others have no head
    hops = _hops(shape, layout, plan, known["pp"])
    mine = parameters_of(shape, layout, first=False)
    reduced = _gradients(shape, layout, plan, known["dp"], (forward.gpu, backward.gpu), mine)
    ways = layout.dp * layout.cp if plan.zero >= 1 else 1
    of_experts = experts_of(shape, layout)
    updated = (mine - of_experts) / ways + of_experts / max(1, ways / layout.ep)
    moved = _off_loaded(updated, plan, rates)
    if isinstance(moved, str):
        return moved
    updating = 0.0 if moved else optimizer_seconds(updated, plan, rates) or 0.0
    reduced += moved
    exposed = tuple(one for one in (*inside, *hops, *reduced) if one.seconds)
    gpu = passes * one_pass + bubble + updating + sum(one.exposed_s for one in (*hops, *reduced))
    host = passes * (forward.host + backward.host) + _more_host(shape, layout, plan)
    host *= plan.host
    slowed = SLOWED * sum(one.seconds - one.exposed_s for one in reduced)  # not by the host
    slowed += _copies(layout, plan, rates, mine)
    if layout.pp > 1 and known["pp"].name != NETWORK:
        slowed += HELD * passes * (forward.busy + backward.busy)
    least, most = _range(exposed, known.values())
    rest = gpu + slowed - sum(one.exposed_s for one in exposed)
    return StepTime(
        step_s=_meeting(gpu + slowed, host),
        least_s=_meeting((1 - SPREAD) * rest + least, host),
        most_s=_meeting((1 + SPREAD) * rest + most, host),
        products_s=passes * (forward.products + backward.products),
        attention_s=passes * (forward.attention + backward.attention),
        between_s=passes * (forward.between + backward.between) + slowed,
        optimizer_s=updating,
        bubble_s=bubble,
        host_s=host,
        exposed=exposed,
    )


def _meeting(gpu: float, host: float) -> float:
    """Seconds of a step whose GPU and whose host take so long."""
    return float((gpu**MEETING + host**MEETING) ** (1 / MEETING))


def _off_loaded(parameters: float, plan: StepPlan, rates: GpuRates) -> list[Exposed] | str:
    """What it takes to update these parameters of each GPU in the memory of the host.

    Gradients go there and weights come back, each 16 bits wide; nothing is taken to overlap.
    """
    if not plan.offload:
        return []
    if not rates.host_bytes_per_s:
        return "the rate of the link to the host is not known, which off-load is bound by"
    copies = 4.0 * parameters / rates.host_bytes_per_s
    adam = HOST_ADAM_S * parameters * rates.sharing
    sent = 2.0 * parameters
    return [
        Exposed(
            what="host: gradients and weights", wire="the host link", seconds=copies,
            exposed_s=copies, bytes_sent=sent,
        ),
        Exposed(
            what="host: AdamW", wire="the CPUs", seconds=adam, exposed_s=adam,
            bytes_sent=0.0,
        ),
    ]  # fmt: skip


def _range(exposed: Iterable[Exposed], wires: Iterable[GroupWire]) -> tuple[float, float]:
    """Seconds of what is exposed, at the highest and at the lowest bandwidth of each wire."""
    of_name: dict[str, tuple[float, float]] = {}
    for wire in wires:
        low, high = of_name.get(wire.name, (1.0, 1.0))
        of_name[wire.name] = min(low, wire.least), max(high, wire.most)
    parts = [(one.exposed_s, *of_name.get(one.wire, (1.0, 1.0))) for one in exposed]
    return (
        sum(seconds / high for seconds, _, high in parts),
        sum(seconds / low for seconds, low, _ in parts),
    )


def _more_host(shape: ModelShape, layout: Layout, plan: StepPlan) -> float:
    """What DTensor and FSDP cost the host in eager PyTorch."""
    if plan.style is not KernelStyle.EAGER:
        return 0.0
    products = 7 if shape.gated else 6
    each = products * 2 * DTENSOR_S if layout.tp > 1 else 0.0
    each += SHARDED_S if plan.zero >= 3 and layout.dp > 1 else 0.0
    return plan.accumulation * -(-shape.layers // layout.pp) * each


def _copies(layout: Layout, plan: StepPlan, rates: GpuRates, parameters: float) -> float:
    """Seconds that FSDP copies between parameters and its buffers, in eager PyTorch."""
    if plan.zero < 3 or layout.dp == 1 or plan.style is not KernelStyle.EAGER:
        return 0.0
    return plan.accumulation * parameters * COPIED_BYTES / (rates.bytes_per_s or 1.0)


def _stage(
    shape: ModelShape, layout: Layout, plan: StepPlan, rates: GpuRates
) -> tuple[Spent, Spent, float] | None:
    """The last stage's passes over one micro-batch, and the seconds of the head alone in them."""
    layers = -(-shape.layers // layout.pp)
    kinds = [(shape.expert_layers / shape.layers, True)] if shape.experts else []
    kinds.append((1 - shape.expert_layers / shape.layers, False))
    total = head(shape, layout, plan, rates)
    if total is None:
        return None
    forward, backward = total
    last = forward.gpu + backward.gpu
    for share, experts in kinds:
        passes = layer(shape, layout, plan, rates, experts=experts)
        if passes is None:
            return None
        again = passes[0] if plan.recompute is Recompute.FULL else Spent()
        forward = forward.plus(passes[0].times(share * layers))
        backward = backward.plus(passes[1].plus(again).times(share * layers))
    return forward, backward, last


def _call(
    what: str, wire: GroupWire, collective: CollectiveKind, size: float, count: float
) -> Exposed:
    """So many calls that nothing hides."""
    seconds = count * wire.seconds(collective, size)
    sent = count * size * bus_share(collective, wire.ranks) if wire.ranks > 1 else 0.0
    return Exposed(what=what, wire=wire.name, seconds=seconds, exposed_s=seconds, bytes_sent=sent)


def _inside(
    shape: ModelShape, layout: Layout, plan: StepPlan, wires: dict[str, GroupWire]
) -> list[Exposed]:
    """Collectives inside a layer, of all micro-batches: no product can go on without them."""
    layers, passes = -(-shape.layers // layout.pp), plan.accumulation
    tokens = plan.micro * plan.sequence / layout.cp
    size = 2.0 * tokens * shape.hidden
    found = []
    if layout.tp > 1:
        again = plan.reduces[0] if plan.recompute is Recompute.FULL else 0
        count = passes * (layers * (sum(plan.reduces) + again) + 2)
        found.append(
            _call("tensor: all-reduce", wires["tp"], CollectiveKind.ALL_REDUCE, size, count)
        )
    if layout.cp > 1:
        keys = 4.0 * tokens * layout.cp * shape.kv_heads * shape.head_dim / layout.tp
        calls = passes * layers * 3
        found.append(_call("context: keys", wires["cp"], CollectiveKind.ALL_GATHER, keys, calls))
    if layout.ep > 1:
        sent = size * shape.active_experts / layout.tp
        share = shape.expert_layers / shape.layers
        exchanges = passes * layers * share * 4
        found.append(
            _call("experts: all-to-all", wires["ep"], CollectiveKind.ALL_TO_ALL, sent, exchanges)
        )
    return found


def _hops(shape: ModelShape, layout: Layout, plan: StepPlan, wire: GroupWire) -> list[Exposed]:
    """What a stage sends to the next one: at the ends of the pipeline nothing hides it."""
    if layout.pp == 1:
        return []
    size = 2.0 * plan.micro * plan.sequence / layout.cp * shape.hidden / layout.tp
    each = wire.seconds(CollectiveKind.SEND, size)
    calls = 2 * plan.accumulation * plan.interleave
    bare = min(calls, 2 * (layout.pp - 1) + plan.accumulation * plan.interleave)
    return [
        Exposed(
            what="pipeline: send",
            wire=wire.name,
            seconds=calls * each,
            exposed_s=bare * each,
            bytes_sent=calls * size,
        )
    ]


def _gradients(
    shape: ModelShape,
    layout: Layout,
    plan: StepPlan,
    wire: GroupWire,
    passes: tuple[float, float],
    parameters: float,
) -> list[Exposed]:
    """What data parallelism sends, and how much of it the passes do not hide."""
    if wire.ranks < 2:
        return []
    weights = 2.0 * parameters
    largest = 2.0 * shape.vocabulary * shape.hidden / layout.tp
    if plan.zero >= 3:
        return _sharded(shape, layout, plan, wire, passes, weights)
    bucket = plan.bucket_bytes
    if plan.zero >= 1:
        bucket = max(bucket, 2 * MEGATRON_BUCKET, 2 * MEGATRON_EACH * wire.ranks)
    buckets = max(1.0, weights / bucket)
    size = min(bucket, weights)
    if plan.zero == 0:
        each = wire.seconds(CollectiveKind.ALL_REDUCE, size)
        last = wire.seconds(CollectiveKind.ALL_REDUCE, min(largest, weights))
    else:
        each = wire.seconds(CollectiveKind.REDUCE_SCATTER, size)
        each += wire.seconds(CollectiveKind.ALL_GATHER, size)
        last = wire.seconds(CollectiveKind.REDUCE_SCATTER, min(largest, weights))
    total = buckets * each
    bare = min(total, max(total - HIDES * passes[1], last))
    return [
        Exposed(
            what=GRADIENTS,
            wire=wire.name,
            seconds=total,
            exposed_s=bare,
            bytes_sent=2 * weights * (wire.ranks - 1) / wire.ranks,
        )
    ]


def _sharded(
    shape: ModelShape,
    layout: Layout,
    plan: StepPlan,
    wire: GroupWire,
    passes: tuple[float, float],
    weights: float,
) -> list[Exposed]:
    """ZeRO-3: each layer is gathered forward and backward, and its gradients are scattered."""
    layers = -(-shape.layers // layout.pp)
    ends = 2.0 * shape.hidden * shape.vocabulary * (1 if shape.tied else 2) / layout.tp
    ends = ends if layout.pp == 1 else ends / 2
    each = max(1.0, (weights - ends) / layers)
    gather = wire.seconds(CollectiveKind.ALL_GATHER, each)
    scatter = wire.seconds(CollectiveKind.REDUCE_SCATTER, each)
    outer = (
        wire.seconds(CollectiveKind.ALL_GATHER, ends),
        wire.seconds(CollectiveKind.REDUCE_SCATTER, ends),
    )
    forward, backward = layers * gather, layers * (gather + scatter)
    bare = max(forward - HIDES * passes[0], gather) + outer[0]
    bare += max(backward - HIDES * passes[1], gather + scatter) + outer[1]
    count = float(plan.accumulation)
    sent = 3 * count * weights * (wire.ranks - 1) / wire.ranks
    seconds = count * (forward + backward + sum(outer))
    return [
        Exposed(
            what=SHARDED,
            wire=wire.name,
            seconds=seconds,
            exposed_s=min(seconds, count * bare),
            bytes_sent=sent,
        )
    ]
