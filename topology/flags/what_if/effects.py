"""What changes between two predictions of one node: pairs, graphs, choices and times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from ...nccl.decide.summary import algorithm
from ...nccl.prediction import (
    P2P,
    AlgorithmChoice,
    NetDecision,
    PairDecision,
    Prediction,
    SearchGraph,
)
from ..values.values import Reading, readings
from .changes import LIBRARIES, Changes, export_line, of_variables

ALL_REDUCE, NONE = "AllReduce", "none"
MIB = 2**20
SMALL, MEDIUM, BIG = MIB, 256 * MIB, 1024 * MIB
SIZES = (SMALL, 16 * MIB, 64 * MIB, MEDIUM, BIG)
"""Sizes of all-reduce whose times are compared, in bytes."""
SAME = 0.005
"""Two predicted times that differ by less than this share count as the same."""


class Way(msgspec.Struct, frozen=True, order=True):
    """The path and the transport of one pair."""

    path: str
    transport: str
    label: str

    @property
    def decides(self) -> tuple[str, str]:
        """Path and transport, however the library words them."""
        return self.path, self.transport

    @property
    def p2p(self) -> bool:
        """Whether it is P2P."""
        return self.transport == P2P


class PairGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Unordered pairs of ranks that change in the same way."""

    before: Way
    after: Way
    pairs: tuple[tuple[int, int], ...]


class GraphChange(msgspec.Struct, frozen=True, kw_only=True):
    """One graph whose channels, bandwidth, types or order of GPUs changed."""

    graph: str
    """Its name in `Graphs`."""
    before: str
    """For people: "12 x 30 NVL"."""
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
    def p2p_gained(self) -> int:
        """How many pairs more use P2P than before."""
        return sum(
            len(group.pairs) * ((group.after.p2p) - (group.before.p2p)) for group in self.pairs
        )

    @property
    def has_times(self) -> bool:
        """Whether times are predicted; for RCCL none are."""
        return any(time.before_us is not None or time.after_us is not None for time in self.times)

    @property
    def times_changed(self) -> bool:
        """Whether any predicted time differs."""
        return any(not time.same for time in self.times)

    @property
    def blind(self) -> bool:
        """Whether bytes go another way and the model, which does not ask that, says the same."""
        moved = any(group.before.transport != group.after.transport for group in self.pairs)
        return moved and self.has_times and not self.times_changed


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
    if pair.by_net or label.startswith("P2P/indirect"):
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
        return NONE
    rate, kind = f"{graph.bw_intra:g}", graph.type_intra
    if graph.bw_inter != graph.bw_intra:
        rate = f"{rate}/{graph.bw_inter:g}"
    return f"{graph.channels} x {rate} {kind}"


def choice_of(prediction: Prediction, size: int) -> AlgorithmChoice | None:
    """Find the choice for an all-reduce of this many bytes."""
    return next(
        (c for c in prediction.choices if c.collective == ALL_REDUCE and c.bytes == size), None
    )


def time_of(prediction: Prediction, size: int) -> float | None:
    """Predicted time of an all-reduce in us; None when it cannot run or is not known."""
    choice = choice_of(prediction, size)
    return None if choice is None or prediction.failure else choice.expected_us


def named(choice: AlgorithmChoice | None) -> str:
    """Describe a choice in short: "Ring LL128, 24 channels"; with what may run in its place."""
    if choice is None:
        return NONE
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
        elif was != NONE and old.orders != new.orders and ranks_of(before) == ranks_of(after):
            yield GraphChange(graph=name, before=was, after=becomes, order=True)


def _choice_changes(before: Prediction, after: Prediction) -> Iterable[ChoiceChange]:
    then = {(choice.collective, choice.bytes): choice for choice in after.choices}
    for old in before.choices:
        new = then.get((old.collective, old.bytes))
        if named(old) != named(new):
            yield ChoiceChange(
                collective=old.collective, bytes=old.bytes, before=named(old), after=named(new)
            )


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One variable of a what-if, or the version of the library."""

    name: str
    before: str | None
    """The value that is set now; None when it is not set."""
    after: str | None
    reading: Reading | None
    """How the library reads the new value; None when the variable is removed, and of a version."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The predictions before and after, and their differences."""

    changes: tuple[Change, ...]
    baseline: Prediction
    changed: Prediction
    effect: Effect
    without_nvls: Effect | None = None
    """The differences if NVLS does not come up, where the changed prediction rests on it alone."""
    slower: Prediction | None = None
    """The prediction of `without_nvls`."""

    @property
    def export(self) -> str:
        """A line for a shell that makes these changes."""
        return export_line({change.name: change.after for change in self.changes})


def compare(
    baseline: Prediction,
    changed: Prediction,
    changes: Changes,
    slower: Prediction | None = None,
) -> Comparison:
    """Compare two predictions; `changes` led from the first to the second.

    `slower`: the second without NVLS, for one that is by NVLS alone.
    """
    read = readings(of_variables(changes), changed.environment, changed.library)
    set_now = {**baseline.environment, **dict.fromkeys(LIBRARIES, baseline.library.version)}
    return Comparison(
        changes=tuple(
            Change(
                name=name,
                before=set_now.get(name),
                after=value,
                reading=read.get(name),
            )
            for name, value in sorted(changes.items())
        ),
        baseline=baseline,
        changed=changed,
        effect=effect_of(baseline, changed),
        without_nvls=None if slower is None else effect_of(baseline, slower),
        slower=slower,
    )


def net_changes(before: Prediction, after: Prediction) -> tuple[tuple[str, int], ...]:
    """Say what changes in a few words, and for how many pairs, most pairs first.

    A GPU that takes part in only one of the predictions does not count.
    """
    if before.views is after.views:
        return ()
    old, new = _decided(before), _decided(after)
    both = {rank for rank, *_ in old} & {rank for rank, *_ in new}
    counted: Counter[str] = Counter()
    for key in old.keys() | new.keys():
        if old and new and key[0] not in both:
            continue
        counted[_difference(old.get(key), new.get(key))] += 1
    del counted[""]
    return tuple(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def _decided(prediction: Prediction) -> dict[tuple[int, int, str], NetDecision]:
    """Index by rank and NIC; a number alone confuses a socket with the adapter that it replaces."""
    return {(net.rank, net.net, net.name): net for view in prediction.views for net in view.nets}


def _difference(old: NetDecision | None, new: NetDecision | None) -> str:
    """Word the most important difference; "" where there is none."""
    if old is None or new is None:
        return "" if old is new else "the NIC is not used" if new is None else "the NIC is used"
    words = []
    if old.to[2] != new.to[2]:
        words.append(f"{old.to[2]} -> {new.to[2]}")
    was, now = _gdr(old), _gdr(new)
    if was != now:
        words.append(f"GPUDirect RDMA {was} -> {now}")
    elif (old.pxn_rank < 0) != (new.pxn_rank < 0):
        words.append("through another GPU" if new.pxn_rank >= 0 else "no longer by another GPU")
    if not words and (old.to, old.back, old.pxn_rank) != (new.to, new.back, new.pxn_rank):
        words.append("another way")
    if not words and (old.gdr_send, old.gdr_recv) != (new.gdr_send, new.gdr_recv):
        words.append("GPUDirect RDMA in another way")
    return ", ".join(words)


def _gdr(net: NetDecision) -> str:
    """Word the directions that go straight between GPU and NIC."""
    send, receive = net.sends_direct, net.receives_direct
    if send == receive:
        return "on" if send else "off"
    return "for sends" if send else "for receives"
