"""Predictions made once for all tests that ask about an equal machine under equal variables.

Most tests build their node anew, and what NCCL does there follows from what the node is alone:
making that again was two fifths of what the tests of diagnosis and comparison cost. Where
predictions are the subject, in `tests/topology/nccl`, they are made each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TypeVar

import msgspec
import pytest

from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.behaviour import Behaviour
from gputop.topology.nccl.decide import predict
from gputop.topology.nccl.decide.untuned import Key, UntunedDecision
from gputop.topology.nccl.prediction import Prediction
from gputop.topology.nccl.settings import Settings

MOST = 300
"""Machines whose predictions are kept; what was asked about longest ago goes first."""
DIGESTS = 16
PLAIN = {name: vars(predict)[name] for name in ("known_untuned", "keep_untuned", "_predicted")}

K = TypeVar("K")
V = TypeVar("V")
Kept = tuple[tuple[Mapping[str, str | None], UntunedDecision], ...]
_untuned: dict[tuple[bytes, Key], Kept] = {}
_tuned: dict[tuple[object, ...], tuple[UntunedDecision, Prediction]] = {}
_digests: dict[int, tuple[NodeSnapshot, bytes]] = {}


def share() -> None:
    """Let `predict` ask here first."""
    vars(predict).update(known_untuned=known, keep_untuned=keep, _predicted=tuned)


def known(snapshot: NodeSnapshot, key: Key, settings: Settings) -> UntunedDecision | None:
    """The decision for an equal machine, if all variables asked for have the values of then."""
    if not isinstance(key[0], str | None):  # rules that no version has as a whole
        before: UntunedDecision | None = PLAIN["known_untuned"](snapshot, key, settings)
        return before
    place = _digest(snapshot), key
    for asked, untuned in _again(_untuned, place) or ():
        if all(settings.values.get(name) == value for name, value in asked.items()):
            return untuned
    return None


def keep(
    snapshot: NodeSnapshot, key: Key, asked: Mapping[str, str | None], untuned: UntunedDecision
) -> None:
    """Keep a decision."""
    if not isinstance(key[0], str | None):
        PLAIN["keep_untuned"](snapshot, key, asked, untuned)
        return
    place = _digest(snapshot), key
    _put(_untuned, place, (*_untuned.get(place, ()), (asked, untuned)), MOST)


def tuned(
    untuned: UntunedDecision, settings: Settings, nodes: int, tried: Behaviour | None = None
) -> Prediction:
    """The prediction that follows from a decision, made now or before."""
    place = id(untuned), nodes, *sorted(settings.values.items())
    found = _again(_tuned, place) if tried is None else None
    if found is None:
        made: Prediction = PLAIN["_predicted"](untuned, settings, nodes, tried)
        found = untuned, made  # as long as the decision is kept, no other has its id
        if tried is None:
            _put(_tuned, place, found, MOST)
    return found[1]


def _digest(snapshot: NodeSnapshot) -> bytes:
    """A word for all that a prediction reads of a snapshot."""
    found = _digests.get(id(snapshot))
    if found is None:
        read = snapshot.machine, snapshot.assumptions, snapshot.measurements, snapshot.environment
        found = snapshot, hashlib.sha1(msgspec.json.encode(read)).digest()
        _put(_digests, id(snapshot), found, DIGESTS)
    return found[1]


def _again(kept: dict[K, V], place: K) -> V | None:
    """What is kept there, which then goes last."""
    found = kept.pop(place, None)
    if found is not None:
        kept[place] = found
    return found


def _put(kept: dict[K, V], place: K, value: V, most: int) -> None:
    kept[place] = value
    while len(kept) > most:
        kept.pop(next(iter(kept)), None)


@pytest.fixture
def predictions_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every prediction as the product does."""
    for name, function in PLAIN.items():
        monkeypatch.setattr(predict, name, function)
