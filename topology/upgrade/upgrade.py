"""An upgrade of the library on one node: two predictions, their differences, and the causes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..flags.values.predicting import predict_with_flags
from ..flags.what_if.effects import untold
from ..flags.what_if.whatif import Comparison, compare
from ..model.snapshot import NodeSnapshot
from ..nccl.behaviour import Behaviour, behaviour_of, between
from ..nccl.decide.predict import predict
from ..nccl.decide.standing import Standing
from ..nccl.prediction import Prediction
from ..nccl.settings import Settings
from ..nccl.versions import preferred, version_for
from .causes import Cause, Causes, Question, Units
from .units import (
    FIGURES,
    LIMITS,
    NICS,
    PAIRS,
    TOPICS,
    TUNED,
    TURNS,
    VARIABLES,
    Key,
    Unit,
    units_of,
)
from .words import subject_of, words_of

APART = (VARIABLES, *TUNED)
COMING = (NICS, TURNS)
"""Topics whose pieces decide nothing by being there: NICs in the graph of one host."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Pieces that differ in the same way, for the same reasons."""

    topic: str
    """One of `TOPICS` in units.py, or "limits" and "figures"."""
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
        return tuple(topic for topic in TOPICS if topic in changed)


class OtherLibraryError(ValueError):
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
    library, _, number = name.strip().lower().rpartition("-")
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
    standing = Standing()

    def pieces(behaviour: Behaviour) -> Units:
        return units_of(
            predict(
                snapshot, settings, library=behaviour, gpus=gpus, nodes=nodes, standing=standing
            )
        )

    before, after = (
        predict_with_flags(snapshot, settings, library=name, gpus=gpus, nodes=nodes)
        for name in (first, second)
    )
    units = _chosen(units_of(before), pair), _chosen(units_of(after), pair)
    steps = between(behaviour_of(first), behaviour_of(second))
    causes = Causes(steps, pieces, figures=figures)
    one_sided = untold(before) or untold(after)
    units = (_told(units[0]), _told(units[1])) if one_sided else units
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


def _told(side: Units) -> Units:
    """The pieces without those that hang on the tuning."""
    return {key: unit for key, unit in side.items() if key[0] not in TUNED}


def _questions(before: Units, after: Units) -> list[Question]:
    """The pieces that differ, each with what of it differs."""
    found: list[Question] = []
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if key[0] in COMING and not (old and old.what and new and new.what):
            if (old and old.fields) == (new and new.fields):
                continue
            found.append((key, "fields"))
        elif (old and old.decides) != (new and new.decides):
            found.append((key, "decides"))
        elif (old and old.fields) != (new and new.fields):
            found.append((key, "fields"))
    return found


def _grouped(
    questions: Sequence[Question],
    units: tuple[Units, Units],
    why: dict[Question, tuple[Cause, ...]],
    predictions: tuple[Prediction, Prediction],
) -> list[Difference]:
    groups: dict[tuple[object, ...], list[Key]] = {}
    for question in questions:
        key, aspect = question
        old, new = (side.get(key) for side in units)
        words = words_of(key, old, new, aspect, predictions)
        group = (key[0], aspect, words.group, words.before, words.after, why.get(question, ()))
        groups.setdefault(group, []).append(key)
    found = [_difference(group, keys, units, predictions) for group, keys in groups.items()]
    order = (*TOPICS, LIMITS, FIGURES)
    return sorted(found, key=lambda item: (not item.decision, order.index(item.topic)))


def _difference(
    group: tuple[object, ...],
    keys: Sequence[Key],
    units: tuple[Units, Units],
    predictions: tuple[Prediction, Prediction],
) -> Difference:
    topic, aspect, _, before, after, causes = group
    at: list[str] = []
    for key in keys:
        at += _places(units[0].get(key), units[1].get(key))
    return msgspec.convert(
        {
            "topic": topic,
            "decision": aspect == "decides",
            "subject": subject_of(keys, predictions),
            "before": before,
            "after": after,
            "causes": causes,
            "pieces": len(keys),
            "at": tuple(at),
        },
        Difference,
        from_attributes=True,
    )


def _places(old: Unit | None, new: Unit | None) -> list[str]:
    """The places that differ; the piece as a whole where one side lacks it."""
    then, now = (None if unit is None else unit.fields for unit in (old, new))
    if then is None or now is None:
        return [*(then or now or ())]
    for one, other in ((then, now), (now, then)):
        if one.keys() - other.keys() and set(one.values()) == {None}:
            return [*one]  # null, and a graph in its place
    every = dict.fromkeys((*then, *now))
    return [at for at in every if at not in then or at not in now or then[at] != now[at]]


def _compared(before: Units, after: Units) -> dict[str, int]:
    counted: dict[str, int] = {}
    for key in dict.fromkeys((*before, *after)):
        counted[str(key[0])] = counted.get(str(key[0]), 0) + 1
    return counted
