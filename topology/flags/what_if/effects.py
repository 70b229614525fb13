"""What changes between two predictions of one node: pairs, graphs, choices and times."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...nccl.decide.summary import algorithm
from ...nccl.prediction import AlgorithmChoice, PairDecision, Prediction, SearchGraph
from .net_changes import net_changes

MIB = 2**20
SIZES = (MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB)
"""Sizes of all-reduce whose times are compared, in bytes."""
SAME = 0.005
"""Two predicted times that differ by less than this share count as the same."""


class Way(msgspec.Struct, frozen=True, order=True):
    """The path and the transport of one pair."""

    path: str
    transport: str
    label: str


class PairGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Unordered pairs of ranks that change in the same way."""

    before: Way
    after: Way
    pairs: tuple[tuple[int, int], ...]


class GraphChange(msgspec.Struct, frozen=True, kw_only=True):
    """One graph whose channels, bandwidth, types or order of GPUs changed."""

    graph: str
    """"ring", "tree" or "nvls"."""
    before: str
    """"12 x 30 NVL", or "none"."""
    after: str
    order: bool = False
    """Whether only the order of GPUs differs."""


class ChoiceChange(msgspec.Struct, frozen=True, kw_only=True):
    """Algorithm, protocol and channels for one collective and size."""

    collective: str
    bytes: int
    before: str
    """"Ring LL128, 24 channels"."""
    after: str


class TimeChange(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted time of an all-reduce."""

    bytes: int
    before_us: float | None
    after_us: float | None

    @property
    def share(self) -> float | None:
        """After / before; None where one is not known."""
        if not self.before_us or self.after_us is None:
            return None
        return self.after_us / self.before_us

    @property
    def same(self) -> bool:
        """Whether the two times do not differ by more than `SAME`."""
        if self.before_us is None or self.after_us is None:
            return self.before_us == self.after_us
        return abs(self.after_us - self.before_us) <= SAME * max(self.before_us, 1e-9)


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """All differences; empty tuples and equal pairs where there are none."""

    pairs: tuple[PairGroup, ...] = ()
    pairs_changed: int = 0
    pairs_total: int = 0
    graphs: tuple[GraphChange, ...] = ()
    channels: tuple[int | None, int | None] = (None, None)
    """"coll channels" of the log, before and after."""
    choices: tuple[ChoiceChange, ...] = ()
    times: tuple[TimeChange, ...] = ()
    nodes: tuple[int, int] = (1, 1)
    ranks: tuple[int, int] = (0, 0)
    nets: tuple[tuple[str, int], ...] = ()
    """What changes between GPUs and NICs (path, GPUDirect RDMA, relay), and for how many pairs."""
    failure: tuple[str | None, str | None] = (None, None)

    @property
    def nothing(self) -> bool:
        """Whether the two predictions are equal."""
        return not (
            self.pairs
            or self.graphs
            or self.choices
            or self.nets
            or self.channels[0] != self.channels[1]
            or self.nodes[0] != self.nodes[1]
            or self.ranks[0] != self.ranks[1]
            or self.failure[0] != self.failure[1]
            or self.times_changed
        )

    @property
    def times_changed(self) -> bool:
        """Whether any predicted time differs."""
        return any(not time.same for time in self.times)


def effect_of(before: Prediction, after: Prediction) -> Effect:
    """Collect everything in which `after` differs from `before`."""
    groups = pair_groups(before, after)
    told = not (untold(before) or untold(after))
    return Effect(
        pairs=groups,
        pairs_changed=sum(len(group.pairs) for group in groups),
        pairs_total=len(
            {_key(pair) for pair in before.pairs} & {_key(pair) for pair in after.pairs}
        ),
        graphs=tuple(_graph_changes(before, after)),
        channels=(before.coll_channels, after.coll_channels) if told else (None, None),
        choices=tuple(_choice_changes(before, after)) if told else (),
        times=tuple(
            TimeChange(
                bytes=size,
                before_us=time_of(before, size) if told else None,
                after_us=time_of(after, size) if told else None,
            )
            for size in SIZES
        ),
        nodes=(before.nodes, after.nodes),
        ranks=(len(ranks_of(before)), len(ranks_of(after))),
        nets=net_changes(before, after),
        failure=(before.failure, after.failure),
    )


def untold(prediction: Prediction) -> bool:
    """Whether it starts, and channels and choices by size are not predicted: of some RCCL."""
    return prediction.coll_channels is None and not prediction.failure


def ranks_of(prediction: Prediction) -> tuple[int, ...]:
    """The ranks of a prediction, in order."""
    return tuple(sorted({rank for view in prediction.views for rank in view.ranks}))


def way_of(pair: PairDecision) -> Way:
    """Return path, transport and label of a pair, without the NIC or relay that a label names."""
    label = pair.label
    if pair.transport == "NET" or label.startswith("P2P/indirect"):
        label = "/".join(label.split("/")[:2])
    return Way(pair.path, pair.transport, label)


def pair_groups(before: Prediction, after: Prediction) -> tuple[PairGroup, ...]:
    """Group the pairs that differ by what changes, the largest group first."""
    if before.pairs is after.pairs:
        return ()
    then = {(pair.src, pair.dst): pair for pair in after.pairs}
    grouped: dict[tuple[Way, Way], set[tuple[int, int]]] = {}
    seen: set[tuple[int, int]] = set()
    for pair in sorted(before.pairs, key=lambda pair: pair.src > pair.dst):
        other = then.get((pair.src, pair.dst))
        if other is None or _seen(pair) == _seen(other):
            continue
        old, new = way_of(pair), way_of(other)
        if new != old and _key(pair) not in seen:
            seen.add(_key(pair))
            grouped.setdefault((old, new), set()).add(_key(pair))
    ordered = sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(
        PairGroup(before=old, after=new, pairs=tuple(sorted(pairs)))
        for (old, new), pairs in ordered
    )


def _seen(pair: PairDecision) -> tuple[str, str, str]:
    return pair.label, pair.path, pair.transport


def described(graph: SearchGraph | None) -> str:
    """Describe a graph in short: "12 x 30 NVL"; between nodes "8 x 48/40 NVL/PIX"."""
    if graph is None or not graph.channels:
        return "none"
    rate, kind = f"{graph.bw_intra:g}", graph.type_intra
    if graph.bw_inter != graph.bw_intra:
        rate = f"{rate}/{graph.bw_inter:g}"
    return f"{graph.channels} x {rate} {kind}"


def choice_of(prediction: Prediction, size: int) -> AlgorithmChoice | None:
    """Find the choice for an all-reduce of this many bytes."""
    return next(
        (c for c in prediction.choices if c.collective == "AllReduce" and c.bytes == size), None
    )


def time_of(prediction: Prediction, size: int) -> float | None:
    """Predicted time of an all-reduce in us; None when it cannot run or is not known."""
    choice = choice_of(prediction, size)
    return None if choice is None or prediction.failure else choice.time_us


def named(choice: AlgorithmChoice | None) -> str:
    """Describe a choice in short: "Ring LL128, 24 channels"; with what may run in its place."""
    if choice is None:
        return "none"
    count = choice.channels[1] - choice.channels[0] + 1
    instead = f", or {choice.instead}" if choice.instead else ""
    return f"{algorithm(choice)}, {count} channel{'s' * (count != 1)}{instead}"


def _key(pair: PairDecision) -> tuple[int, int]:
    return (pair.src, pair.dst) if pair.src < pair.dst else (pair.dst, pair.src)


def _graph_changes(before: Prediction, after: Prediction) -> Iterable[GraphChange]:
    for name in ("ring", "tree", "nvls"):
        old, new = getattr(before.graphs, name), getattr(after.graphs, name)
        was, becomes = described(old), described(new)
        if was != becomes:
            yield GraphChange(graph=name, before=was, after=becomes)
        elif was != "none" and old.orders != new.orders and ranks_of(before) == ranks_of(after):
            yield GraphChange(graph=name, before=was, after=becomes, order=True)


def _choice_changes(before: Prediction, after: Prediction) -> Iterable[ChoiceChange]:
    then = {(choice.collective, choice.bytes): choice for choice in after.choices}
    for old in before.choices:
        new = then.get((old.collective, old.bytes))
        if named(old) != named(new):
            yield ChoiceChange(
                collective=old.collective, bytes=old.bytes, before=named(old), after=named(new)
            )
