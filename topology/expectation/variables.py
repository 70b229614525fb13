"""The effect of the variables of NCCL or RCCL here, predicted with and without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from ..flags.catalogue.catalogue import catalogue
from ..model.english import listing
from ..model.snapshot import Measurement, NodeSnapshot
from ..nccl.decide.predict import predict
from ..nccl.decide.summary import algorithm
from ..nccl.prediction import NET, NO_TRANSPORT, P2P, SHM, AlgorithmChoice, Prediction
from ..nccl.settings import Settings
from ..nccl.wording import message_size
from .repaired import repaired

NVLS = "NVLS"
GOES_BY = {
    P2P: "P2P",
    SHM: "shared memory (SHM)",
    NET: "the network (NET)",
    NO_TRANSPORT: "nothing: there is no transport",
}
KINDS = ("p2p", "shm", "paths", "net", "search", "tuning")
"""Kinds of the catalogue whose flags decide something between the GPUs of one node."""
OF_THE_MACHINE = ("NCCL_TOPO_FILE", "NCCL_HOSTID")
"""These describe the machine; without them the prediction would be that of another machine."""
MANY = 6
"""With more variables than this, all are named and none is tried alone."""


class VariableEffect(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of variables on one figure."""

    text: str
    """"NCCL_P2P_DISABLE=1 turns P2P off: all 12 pairs go through shared memory (SHM)"."""
    variables: tuple[tuple[str, str], ...]
    share: float | None = None
    """The share of the bandwidth that is left by the library's own model; None where that does not
    know, for example where the transport changes."""


class Variables:
    """Predictions of one node, each made once and only when needed."""

    def __init__(
        self,
        snapshot: NodeSnapshot,
        prediction: Prediction | None = None,
        alike: Variables | None = None,
    ) -> None:
        """`alike`: of the same machine under other variables; its predictions are taken over."""
        self.snapshot = snapshot
        self._alike = alike
        self.here = {variable.name: variable.value for variable in snapshot.environment}
        self._made: dict[tuple[object, ...], Prediction | None] = (
            {} if alike is None else alike._made
        )
        self._repaired: Variables | None = None
        if prediction is not None:
            self.know(prediction)

    def know(self, prediction: Prediction) -> None:
        """Take over a prediction for all GPUs of this machine that somebody made already."""
        self._made[self._key(prediction.environment, None)] = prediction

    def had(self, figure: Measurement) -> dict[str, str]:
        """The variables of the ranks: those recorded with the figure, else the snapshot's."""
        recorded = figure.details.get("variables")
        if not isinstance(recorded, Mapping):
            return self.here
        files = {v.name: v.value for v in self.snapshot.environment if not v.exported}
        rest = {name: value for name, value in self.here.items() if not _of_library(name)}
        named = {k: v for k, v in recorded.items() if isinstance(k, str) and isinstance(v, str)}
        return {**rest, **files, **named}

    def without(self, values: Mapping[str, str], gpus: tuple[str, ...] | None) -> Prediction | None:
        """The prediction without the variables that decide; None where it is not known."""
        deciding = self._deciding(values)
        return self._predict({k: v for k, v in values.items() if k not in deciding}, gpus)

    def healthy(self, values: Mapping[str, str], gpus: tuple[str, ...] | None) -> Prediction | None:
        """The prediction for the repaired machine without the variables that decide."""
        if self._alike is not None:
            return self._alike.healthy(values, gpus)
        if self._repaired is None:
            machine = repaired(self.snapshot.machine)
            self._repaired = (
                self
                if machine is None
                else Variables(msgspec.structs.replace(self.snapshot, machine=machine))
            )
        return self._repaired.without(values, gpus)

    def with_variables(
        self, values: Mapping[str, str], gpus: tuple[str, ...] | None
    ) -> Prediction | None:
        """The prediction with these variables as they are; None where it is not known."""
        return self._predict(values, gpus)

    def effect(
        self,
        values: Mapping[str, str],
        gpus: tuple[str, ...] | None,
        collective: str,
        size: int | None,
    ) -> VariableEffect | None:
        """The effect of the deciding variables on a collective; None where nothing is known."""
        deciding = self._deciding(values)
        if not deciding:
            return None
        after = self._predict(values, gpus)
        before = self.without(values, gpus)
        if after is None or before is None:
            return None
        clauses = _clauses(before, after, collective, size)
        if not clauses:
            return None
        names = self._to_blame(values, deciding, gpus, before, after, collective, size)
        given = [f"{name}={values[name]}" for name in names]
        ending, again = ("s", "; it ") if len(given) == 1 else ("", "; they ")
        return VariableEffect(
            text=f"{listing(given)} {again.join(clauses).replace('@', ending)}",
            variables=tuple((name, values[name]) for name in names),
            share=_left(before, after, collective, size),
        )

    def _to_blame(
        self,
        values: Mapping[str, str],
        deciding: list[str],
        gpus: tuple[str, ...] | None,
        before: Prediction,
        after: Prediction,
        collective: str,
        size: int | None,
    ) -> list[str]:
        """The variables that change something alone, or whose absence does."""
        if len(deciding) == 1 or len(deciding) > MANY:
            return deciding
        moves = bool(_transports(before, after))

        def differ(one: Prediction | None, other: Prediction | None) -> bool:
            if one is None or other is None:
                return False
            if moves:
                return bool(_transports(one, other))
            return bool(_clauses(one, other, collective, size))

        found = []
        for name in deciding:
            alone = {k: v for k, v in values.items() if k not in deciding or k == name}
            rest = {k: v for k, v in values.items() if k != name}
            if differ(before, self._predict(alone, gpus)) or differ(
                self._predict(rest, gpus), after
            ):
                found.append(name)
        return found or deciding

    def _deciding(self, values: Mapping[str, str]) -> list[str]:
        named = [n for n in sorted(values) if _of_library(n) and n not in OF_THE_MACHINE]
        if not named:
            return []
        known = catalogue()
        flags = ((name, known.flag(name)) for name in named)
        return [name for name, flag in flags if flag is not None and flag.kind in KINDS]

    def _predict(
        self, values: Mapping[str, str], gpus: tuple[str, ...] | None
    ) -> Prediction | None:
        key = self._key(values, gpus)
        if key not in self._made:
            try:
                self._made[key] = predict(self.snapshot, Settings(dict(values)), gpus=gpus)
            except (ValueError, LookupError, ArithmeticError, RecursionError):
                # No GPU, an unknown version, or a topology that no version table fits: nothing is
                # known.
                self._made[key] = None
        return self._made[key]

    def _key(self, values: Mapping[str, str], gpus: tuple[str, ...] | None) -> tuple[object, ...]:
        """Variables that decide nothing here (NCCL_DEBUG) make no other prediction."""
        deciding = {*self._deciding(values), *OF_THE_MACHINE}
        kept = (
            (name, value)
            for name, value in sorted(values.items())
            if not _of_library(name) or name in deciding
        )
        return (tuple(kept), gpus)


def choice_at(prediction: Prediction, collective: str, size: int | None) -> AlgorithmChoice | None:
    """The choice at the largest predicted size that is not above this one."""
    found = [choice for choice in prediction.choices if choice.collective == collective]
    if not found:
        return None
    if size is None:
        return found[-1]
    below = [choice for choice in found if choice.bytes <= size]
    return max(below, key=lambda choice: choice.bytes) if below else found[0]


def _of_library(name: str) -> bool:
    return name.startswith(("NCCL_", "RCCL_"))


def _clauses(before: Prediction, after: Prediction, collective: str, size: int | None) -> list[str]:
    """The differences as clauses; "@" stands for the ending of the verb."""
    found = _transports(before, after)
    if found:
        # The model's choice then does not matter, because it ignores the transport.
        return found
    old, new = choice_at(before, collective, size), choice_at(after, collective, size)
    if old is not None and new is not None and algorithm(old) != algorithm(new):
        gone = old.algorithm not in {choice.algorithm for choice in after.choices}
        off = gone and old.algorithm == NVLS
        verb, goes = (f"turn@ {NVLS} off:", "goes") if off else ("make@", "go")
        found.append(
            f"{verb} {message_size(old.bytes)} {goes} by {algorithm(new)} instead of "
            f"{algorithm(old)}"
        )
    old_count, new_count = before.coll_channels, after.coll_channels
    if old_count and new_count and new_count < old_count and not found:
        found.append(f"leave@ {new_count} of {old_count} channels")
    return found


def _left(before: Prediction, after: Prediction, collective: str, size: int | None) -> float | None:
    """Bandwidth after / before by the model; None where it does not know."""
    if _transports(before, after):
        return None
    old_count, new_count = before.coll_channels, after.coll_channels
    least = min(1.0, new_count / old_count) if old_count and new_count else 1.0
    old, new = choice_at(before, collective, size), choice_at(after, collective, size)
    if old is not None and new is not None and new.time_us > 0 and old.bytes == new.bytes:
        least = least if new.limited_us is None else 1.0
        return min(least, old.expected_us / new.expected_us)
    return least if least < 1 else None


def _transports(before: Prediction, after: Prediction) -> list[str]:
    then = {(pair.src_bus_id, pair.dst_bus_id): pair.transport for pair in after.pairs}
    had = Counter(pair.transport for pair in before.pairs)
    moved = Counter(
        (pair.transport, new)
        for pair in before.pairs
        if (new := then.get((pair.src_bus_id, pair.dst_bus_id), pair.transport)) != pair.transport
    ).most_common()
    found = []
    total = len(before.pairs)
    for old in dict.fromkeys(old for (old, _), _ in moved):
        ways = {GOES_BY.get(new, new): count for (was, new), count in moved if was == old}
        gone = sum(ways.values()) == had[old] and old != NET
        verb, goes = (f"turn@ {old} off:", "go through") if gone else ("take@", f"from {old} to")
        whole = total if gone else 0
        counts = [
            f"{'all' if count == whole else f'{count} of'} {total} pairs {goes} {way}"
            for way, count in ways.items()
        ]
        found.append(f"{verb} {', '.join(counts)}")
    return found
