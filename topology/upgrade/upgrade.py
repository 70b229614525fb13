"""An upgrade of the library on one node: two predictions, their differences, and the causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from ..flags.values.predicting import predict_with_flags
from ..flags.what_if.effects import Comparison, compare, described, named, untold, way_of
from ..flags.what_if.in_words import order_in_words, pairs_in_words, ranks_in_words
from ..model.english import first, plural
from ..model.errors import GputopError
from ..model.snapshot import NodeSnapshot
from ..nccl.behaviour import Behaviour, behaviour_of, changed_versions
from ..nccl.decide.predict import predict
from ..nccl.decide.prediction_cache import PredictionCache
from ..nccl.prediction import NetDecision, PairDecision, Prediction, SearchGraph
from ..nccl.settings import Settings
from ..nccl.versions import preferred, version_for, whole_version
from ..nccl.wording import gbs, message_size
from .causes import Aspect, Cause, Causes, Question, Units
from .units import (
    ALGORITHMS,
    CHANNELS,
    DOMAINS,
    FIGURES,
    LIMITS,
    NICS,
    NVLS,
    PAIRS,
    REASONS,
    RING,
    START,
    TREE,
    TUNED,
    TURNS,
    VARIABLES,
    Key,
    PieceTopic,
    Unit,
    units_of,
)

APART = (VARIABLES, *TUNED)
ORDER = tuple(PieceTopic)
LACKING = Unit({}, None, None)
"""The piece of a side that has none."""
COMING = (NICS, TURNS)
"""Topics whose pieces decide nothing by being there: NICs in the graph of one host."""

# The pieces of a prediction in words, as they are before an upgrade and after it.
NONE = "none"
MOST_NAMED = 6
CROSSING = {0: "the same NIC in and out", 1: "any NIC out", 2: "NICs in pairs"}
PATTERNS = {1: "balanced tree", 2: "split tree", 3: "plain tree", 4: "ring", 5: "NVLS"}
GDR = {"Default": "GDR", "PCI": "GDR over PCIe", "Disabled": "no GDR"}


class Told(NamedTuple):
    """How a piece is told; pieces with the same words are told as one."""

    before: str
    after: str
    group: str = ""
    """What keeps pieces with the same words apart."""


class Piece(NamedTuple):
    """A piece that differs: what it is on both sides, and which aspect of it is told."""

    key: Key
    aspect: Aspect
    then: Any
    now: Any
    names: dict[int, str]
    """The NICs by their numbers."""


def _told(piece: Piece) -> Told:
    """Say how a piece that differs was, and how it becomes."""
    _, _, then, now, _ = piece
    topic = PieceTopic(piece.key[0])
    if topic in COMING and not (then and now):
        return Told(*("in the graph" if one else "not in the graph" for one in (then, now)))
    if topic in WHOLE:
        return WHOLE[topic](piece)
    side = SIDES.get(topic, _plain)
    return Told(side(then, piece), side(now, piece))


def _plain(one: Any, _piece: Piece) -> str:
    return "not known" if one is None else str(one)


def _choice(piece: Piece) -> Told:
    if piece.aspect == "fields":
        return Told("", "", str(piece.key[0]))
    return Told(named(piece.then), named(piece.now), str(piece.key[1]))


def _domain(one: Any, piece: Piece) -> str:
    if len(piece.key) == 1:
        return plural(one, "node")
    return NONE if one is None else f"ranks {ranks_in_words(one)}"


def _pair(piece: Piece) -> Told:
    """The first direction that differs speaks for the pair."""
    aspect, then, now = piece.aspect, piece.then or (), piece.now or ()
    for old, new in zip(then, now, strict=False):
        words = Told(_way(old, aspect), _way(new, aspect))
        if words.before != words.after:
            return words
    if then and now:
        return Told(_way(then[0], aspect), f"{_way(now[0], aspect)}, by another GPU, NIC or label")
    return Told(*(_way(one[0], aspect) if one else NONE for one in (then, now)))


def _way(pair: PairDecision, aspect: Aspect) -> str:
    way = way_of(pair)
    if aspect == "fields":
        rate = "" if pair.bandwidth_gbs is None else f", {gbs(pair.bandwidth_gbs)} GB/s"
        hops = "" if pair.hops is None else f", {plural(pair.hops, 'hop')}"
        return f"{way.label} over {way.path}{hops}{rate}"
    read = ", by reading" if pair.read else ""
    relay = f", through rank {pair.via}" if pair.via is not None else ""
    return f"{way.label or way.transport} over {way.path}{read}{relay}"


def _nic(net: NetDecision, piece: Piece) -> str:
    send, receive = GDR[net.gdr_send], GDR[net.gdr_recv]
    direct = send if send == receive else f"{send} to send, {receive} to receive"
    relay = f", through rank {net.pxn_rank}" if net.pxn_rank >= 0 else ""
    ends = net.to[2] if net.to[2] == net.back[2] else f"{net.to[2]} there, {net.back[2]} back"
    if piece.aspect == "fields":
        return f"{ends}, {net.to[0]} hops, {gbs(net.to[1])} GB/s"
    return f"{ends}, {direct}{relay}"


def _limits(limits: tuple[float | None, float | None] | None, _piece: Piece) -> str:
    one, whole = ("?" if limit is None else gbs(limit) for limit in limits or (None, None))
    return f"{one} a GPU pair, {whole} a GPU"


def _graphs(piece: Piece) -> Told:
    """What tells two graphs apart first: size and speed, shape, order, NICs."""
    then: SearchGraph | None = piece.then
    now: SearchGraph | None = piece.now
    if then is None or now is None:
        return Told(described(then), described(now))
    for old, new in (
        (described(then), described(now)),
        (PATTERNS.get(then.pattern, "?"), PATTERNS.get(now.pattern, "?")),
        (f"NICs at {then.type_inter}", f"NICs at {now.type_inter}"),
        (_order(then), _order(now)),
        (f"from and to NICs {then.nets}", f"from and to NICs {now.nets}"),
        (CROSSING.get(then.cross_nic, "?"), CROSSING.get(now.cross_nic, "?")),
    ):
        if old != new:
            return Told(old, new)
    for name in then.__struct_fields__:
        if name not in REASONS and getattr(then, name) != getattr(now, name):
            return Told(f"{name} {getattr(then, name)}", f"{name} {getattr(now, name)}")
    return Told("", "")


def _order(graph: SearchGraph) -> str:
    return first([*map(order_in_words, dict.fromkeys(graph.orders))], 2) or "no order"


WHOLE: dict[PieceTopic, Callable[[Piece], Told]] = {
    PAIRS: _pair,
    ALGORITHMS: _choice,
    RING: _graphs,
    TREE: _graphs,
    NVLS: _graphs,
    FIGURES: lambda _: Told("", "", FIGURES),
}
"""How both sides of a piece are told together."""
SIDES: dict[PieceTopic, Callable[[Any, Piece], str]] = {
    NICS: _nic,
    TURNS: lambda nets, piece: " ".join(piece.names.get(net) or str(net) for net in nets),
    LIMITS: _limits,
    START: lambda why, _: "starts" if why is None else f"fails: {why}",
    VARIABLES: lambda one, _: "has an effect" if one is None else f"no effect: {one[2]}",
    DOMAINS: _domain,
}
"""How one side of a piece is told."""


def _net_names(predictions: tuple[Prediction, Prediction]) -> dict[int, str]:
    return {
        net.net: net.name
        for prediction in predictions
        for view in prediction.views
        for net in view.nets
    }


def _turns(keys: Sequence[Key]) -> str:
    ranks = {int(key[1]) for key in keys}
    return f"NICs of the channels of rank{'s' * (len(ranks) > 1)} {ranks_in_words(ranks)}"


def _nics(keys: Sequence[Key]) -> str:
    shown = first([f"{key[1]} with {key[3] or key[2]}" for key in keys], MOST_NAMED)
    return f"{plural(len(keys), 'GPU-NIC pair')} ({shown})"


def _pairs(keys: Sequence[Key]) -> str:
    ends = [(int(key[1]), int(key[2])) for key in keys]
    return f"{plural(len(keys), 'pair')} ({pairs_in_words(ends)})"


def _domains(keys: Sequence[Key]) -> str:
    return "what counts as a node" if len(keys[0]) == 1 else f"domain {keys[0][1]}"


SUBJECTS: dict[PieceTopic, Callable[[Sequence[Key]], str]] = {
    PAIRS: _pairs,
    NICS: _nics,
    TURNS: _turns,
    ALGORITHMS: lambda keys: (
        f"{keys[0][1]} of {', '.join(message_size(int(key[2])) for key in keys)}"
    ),
    FIGURES: lambda keys: f"{len(keys)} cells of the table of latencies and bandwidths",
    VARIABLES: lambda keys: " ".join(sorted({f"{key[1]}={key[2]}" for key in keys})),
    DOMAINS: _domains,
}
PLAIN = {CHANNELS: "channels for collectives", LIMITS: "the search's limits, GB/s"}


def _subject(keys: Sequence[Key], views: int) -> str:
    """Name what a group of pieces of one topic is about; `views`: domains of the prediction."""
    topic = PieceTopic(keys[0][0])
    if topic in SUBJECTS:
        return SUBJECTS[topic](keys)
    name = PLAIN.get(topic, topic)
    if views > 1 and len(keys[0]) > 1:
        name += f" of domain {' '.join(str(key[1]) for key in keys)}"
    return name


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Pieces that differ in the same way, for the same reasons."""

    topic: PieceTopic
    decision: bool
    """Whether the library decides otherwise; else only figures of its own tables differ."""
    subject: str
    """What differs: "pairs 0..3 among themselves", "ring"."""
    before: str
    after: str
    causes: tuple[Cause, ...]
    pieces: int
    """How many pairs, NICs or sizes these are."""
    at: tuple[str, ...]
    """The places in the two documents of `explain --json` that differ."""


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """What changes on a node from one version to the other."""

    comparison: Comparison
    """Both predictions, and how they differ as a what-if of variables would tell it."""
    differences: tuple[Difference, ...]
    compared: dict[str, int]
    """Topic -> how many pieces were compared."""

    @property
    def before(self) -> Prediction:
        """What the first version decides."""
        return self.comparison.baseline

    @property
    def after(self) -> Prediction:
        """What the second version decides."""
        return self.comparison.changed

    @property
    def decisions(self) -> tuple[Difference, ...]:
        """The differences in what the library decides."""
        return tuple(item for item in self.differences if item.decision)

    @property
    def topics(self) -> tuple[str, ...]:
        """The things that change, in the order in which they are told."""
        changed = {item.topic for item in self.decisions}
        return tuple(topic for topic in PieceTopic if topic in changed)


class OtherLibraryError(GputopError, ValueError):
    """Two versions of different libraries."""


def pair_of_names(snapshot: NodeSnapshot, first: str | None, second: str) -> tuple[str, str]:
    """Both versions with their library, "nccl-2.21.5"; a bare number takes the other's library.

    Without a first one, what the node has. Raises UnknownVersionError, OtherLibraryError.
    """
    node = preferred(snapshot.machine)[0]
    named = [_named(name) for name in (first or node, second)]
    library = named[0][0] or named[1][0] or node[:4]
    one, other = (f"{own or library}-{number}" for own, number in named)
    if one[:4] != other[:4]:
        raise OtherLibraryError(f"{one} and {other}: only versions of one library can be compared")
    return one, other


def _named(name: str) -> tuple[str, str]:
    """Library, "" where the name has none, and number."""
    version_for(name)
    library, _, number = whole_version(name).strip().lower().rpartition("-")
    return library, number.lstrip("v")


def upgrade(
    snapshot: NodeSnapshot,
    first: str,
    second: str,
    *,
    settings: Settings | None = None,
    gpus: Sequence[str] | None = None,
    nodes: int = 1,
    pair: tuple[int, int] | None = None,
    figures: bool = True,
) -> Upgrade:
    """Compare what two versions do on this node, both named as `pair_of_names` gives them.

    `nodes`: number of identical hosts. `pair`: compare these two ranks alone.
    `figures`: seek the rule behind figures of the library's own too, which takes twice the time.
    Raises NoGpusError, UnknownVersionError.
    """
    settings = Settings.of(snapshot) if settings is None else settings
    cache = PredictionCache()

    def pieces(behaviour: Behaviour) -> Units:
        return units_of(
            predict(snapshot, settings, library=behaviour, gpus=gpus, nodes=nodes, cache=cache)
        )

    before, after = (
        predict_with_flags(snapshot, settings, library=name, gpus=gpus, nodes=nodes)
        for name in (first, second)
    )
    units = _chosen(units_of(before), pair), _chosen(units_of(after), pair)
    steps = changed_versions(behaviour_of(first), behaviour_of(second))
    causes = Causes(steps, pieces, figures=figures)
    one_sided = untold(before) or untold(after)
    if one_sided:
        units = _followed(units[0]), _followed(units[1])
    questions = _questions(*units)
    why = causes.of(question for question in questions if question[0][0] not in APART)
    asked = [question for question in questions if question[0][0] in TUNED]
    if asked:
        tuned = Causes([step for step in steps if step.tuned], pieces, figures=figures)
        why |= tuned.of(asked)
    return Upgrade(
        comparison=compare(before, after, {}),
        differences=tuple(_grouped(questions, units, why, (before, after))),
        compared=_compared(*units),
    )


def _chosen(units: Units, pair: tuple[int, int] | None) -> Units:
    if pair is None:
        return units
    key = (PAIRS, min(pair), max(pair))
    return {key: units[key]} if key in units else {}


def _followed(side: Units) -> Units:
    """The pieces without those that hang on the tuning."""
    return {key: unit for key, unit in side.items() if key[0] not in TUNED}


def _questions(before: Units, after: Units) -> list[Question]:
    """The pieces that differ, each with what of it differs."""
    found: list[Question] = []
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key, LACKING), after.get(key, LACKING)
        coming = key[0] in COMING and not (old.what and new.what)
        if not coming and old.decides != new.decides:
            found.append((key, "decides"))
        elif old.fields != new.fields:
            found.append((key, "fields"))
    return found


def _grouped(
    questions: Sequence[Question],
    units: tuple[Units, Units],
    why: dict[Question, tuple[Cause, ...]],
    predictions: tuple[Prediction, Prediction],
) -> list[Difference]:
    names, views = _net_names(predictions), max(len(side.views) for side in predictions)
    groups: dict[tuple[PieceTopic, Aspect, Told, tuple[Cause, ...]], list[Key]] = {}
    for question in questions:
        key, aspect = question
        then, now = (None if (unit := side.get(key)) is None else unit.what for side in units)
        told = _told(Piece(key, aspect, then, now, names))
        group = PieceTopic(key[0]), aspect, told, why.get(question, ())
        groups.setdefault(group, []).append(key)
    found = [
        Difference(
            topic=topic,
            decision=aspect == "decides",
            subject=_subject(keys, views),
            before=told.before,
            after=told.after,
            causes=causes,
            pieces=len(keys),
            at=tuple(at for key in keys for at in _places(*(side.get(key) for side in units))),
        )
        for (topic, aspect, told, causes), keys in groups.items()
    ]
    return sorted(found, key=lambda item: (not item.decision, ORDER.index(item.topic)))


def _places(old: Unit | None, new: Unit | None) -> list[str]:
    """The places that differ; the piece as a whole where one side lacks it."""
    sides = [unit.fields for unit in (old, new) if unit is not None]
    if len(sides) < 2:
        return [*sides[0]]
    then, now = sides
    for one, other in ((then, now), (now, then)):
        if one.keys() - other.keys() and set(one.values()) == {None}:
            return [*one]  # null, and a graph in its place
    every = dict.fromkeys((*then, *now))
    return [at for at in every if then.get(at, LACKING) != now.get(at, LACKING)]


def _compared(before: Units, after: Units) -> dict[str, int]:
    return dict(Counter(str(key[0]) for key in dict.fromkeys((*before, *after))))
