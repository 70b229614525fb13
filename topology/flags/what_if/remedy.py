"""The variable that would give a pair P2P, found by predicting and not from a table."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...model.english import plural
from ...nccl.prediction import PairDecision, Prediction
from ..catalogue.catalogue import Catalogue, FlagKind, catalogue
from ..values.values import unread
from .changes import Changes
from .study import Study, values_to_try


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a variable after which the pair uses P2P."""

    name: str
    value: str | None
    """None: the variable is taken away."""
    gained: int
    """Unordered pairs of GPUs that use P2P after the change and not before."""
    lost: int
    """Those that do before and not after."""

    @property
    def in_words(self) -> str:
        """The change: "NCCL_P2P_LEVEL=SYS", "NCCL_P2P_DISABLE unset"."""
        return f"{self.name} unset" if self.value is None else f"{self.name}={self.value}"

    @property
    def effect(self) -> str:
        """What it does: "P2P for 24 more pairs, 2 lose it"."""
        lost = f", {self.lost} lose it" if self.lost else ""
        return f"P2P for {plural(self.gained, 'more pair')}{lost}"


def remedy(study: Study, src: str, dst: str, held: Changes | None = None) -> Remedy | None:
    """The least change that gives two GPUs (PCI addresses) P2P; None where none does.

    `held`: changes that are tried out already. Tries what is set first, then each value worth
    trying of the variables that the decision names, then of the other variables of P2P. Makes
    predictions: not for the event loop. Raises NoGpusError, UnknownVersionError, and Stopped.
    """
    held = held or {}
    before = study.predict(held)
    pair = _pair(before, src, dst)
    if pair is None or pair.p2p:
        return None
    had = _with_p2p(before)
    for name, value in _changes(before, pair, catalogue()):
        after = study.predict({**held, name: value})
        changed = _pair(after, src, dst)
        if changed is None or not changed.p2p or after.failure:
            continue
        has = _with_p2p(after)
        return Remedy(name=name, value=value, gained=len(has - had), lost=len(had - has))
    return None


def _changes(
    before: Prediction, pair: PairDecision, known: Catalogue
) -> Iterator[tuple[str, str | None]]:
    """The changes to try, in their order."""
    library, values = before.library, before.environment
    asked = [step.flag for step in pair.steps if step.flag and step.refuses]
    flags = [
        flag for flag in known.flags if flag.kind is FlagKind.P2P and not unread(flag, library)
    ]
    flags.sort(key=lambda flag: flag.name not in asked)
    names = {name for flag in flags for name in flag.names}
    for name in values:
        if name in names:
            yield name, None
    for flag in flags:
        for value in values_to_try(flag, library):
            if values.get(flag.name) != value:
                yield flag.name, value


def _pair(prediction: Prediction, src: str, dst: str) -> PairDecision | None:
    return next((p for p in prediction.pairs if (p.src_bus_id, p.dst_bus_id) == (src, dst)), None)


def _with_p2p(prediction: Prediction) -> set[tuple[int, int]]:
    return {(p.src, p.dst) for p in prediction.pairs if p.src < p.dst and p.p2p}
