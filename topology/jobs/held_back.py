"""Variables of a running job that hold its collectives back, by the prediction for its GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec

from ..flags.values.predicting import predict_with_flags
from ..flags.what_if.effects import time_of
from ..model.english import listing
from ..model.machine import Machine
from ..model.snapshot import Measurement, NodeSnapshot
from ..model.units import gbs, size
from ..nccl.decide.predict import NoGpusError
from ..nccl.prediction import Prediction
from ..nccl.settings import Settings
from ..nccl.versions import UnknownVersionError
from .grouping import Job
from .inspector.comparing import Inspected
from .lateness import at_most, bound_by_records
from .loads.judging import JudgedLoads

MATTERS = 1.3
"""From this many times the speed without a variable on, it is named."""
LEAST_IN_LIBRARY = 0.3
"""Share of the time that GPUs transfer or wait, from which the speed of collectives matters."""
LARGE_BYTES = 64 << 20
MOST_TRIED = 32
LIBRARY = ("NCCL_", "RCCL_")
CHANNEL_LIMITS = ("NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS", "NCCL_MAX_CTAS")


class HeldBack(msgspec.Struct, frozen=True, kw_only=True):
    """What variables leave of an all-reduce over the job's GPUs, by the library's model."""

    variables: tuple[tuple[str, str], ...]
    gbs: float
    """Predicted bandwidth on the bus with them."""
    free_gbs: float
    """The same without them."""

    @property
    def share(self) -> float:
        """What is left of the speed."""
        return self.gbs / self.free_gbs

    @property
    def named(self) -> str:
        """The text "NCCL_MAX_NCHANNELS=1"."""
        return listing([f"{name}={value}" for name, value in self.variables], 3)

    @property
    def text(self) -> str:
        """The text "NCCL_MAX_NCHANNELS=1 is set: an all-reduce of 64 MiB reaches ..."."""
        verb = "is" if len(self.variables) == 1 else "are"
        return (
            f"{self.named} {verb} set: an all-reduce of {size(LARGE_BYTES)} reaches "
            f"{gbs(self.gbs)} on the bus, {gbs(self.free_gbs)} without (both predicted)"
        )


T = TypeVar("T")
Key = tuple[str | None, tuple[str, ...], tuple[tuple[str, str], ...]]
"""Library, GPUs and variables of a job."""


class KeptForNode(Generic[T]):
    """The last answers about jobs of a node, which hold while its machine and figures stay.

    A job is looked at every few seconds, and a prediction takes some hundredths of a second.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[tuple[Machine, tuple[Measurement, ...], Key, T]] = []

    def answer(self, snapshot: NodeSnapshot, key: Key, make: Callable[[], T]) -> T:
        """The answer of then for the same question, else a new one."""
        machine, figures = snapshot.machine, snapshot.measurements
        for known, then, of, found in tuple(self._kept):
            if known is machine and of == key and then == figures:
                return found
        made = make()
        self._kept[:] = [(machine, figures, key, made), *self._kept[: self._most - 1]]
        return made


_COSTS = KeptForNode["HeldBack | None"](16)
_PREDICTIONS = KeptForNode[Prediction | None](4)


def _key(job: Job, values: Mapping[str, str]) -> Key:
    return job.library, tuple(job.gpus), tuple(sorted(values.items()))


def held_back(
    snapshot: NodeSnapshot, job: Job, judged: JudgedLoads, inspected: Inspected
) -> HeldBack | None:
    """What its variables cost a job, where it is seen to be in the library for long."""
    if not inspected.kinds and _in_library(judged) < LEAST_IN_LIBRARY:
        return None
    return cost_of(snapshot, job)


def price_of(held: HeldBack | None, judged: JudgedLoads, inspected: Inspected) -> str:
    """What is set and what it costs; "" where that is not known, or little.

    Watched GPUs tell computing from transferring; records alone bound the price.
    """
    share = _in_library(judged) if judged.ranks else _in_transfer(inspected)
    if held is None or share < LEAST_IN_LIBRARY:
        return ""
    said = at_most if judged.ranks else bound_by_records
    return f"{held.text}; {said(share * (1 - held.share))}"


def blamed(held: HeldBack | None, sentence: str) -> tuple[tuple[str, str], ...]:
    """The variables that a job's sentence names as the reason."""
    told = () if held is None else held.variables
    return tuple((name, value) for name, value in told if f"{name}={value}" in sentence)


def _in_library(judged: JudgedLoads) -> float:
    """Share of the time that each GPU transfers or waits at least; 0 where that is not known."""
    return min((one.in_library for one in judged.ranks), default=0.0)


def _in_transfer(inspected: Inspected) -> float:
    """The same by the Inspector's records: what its costliest collective takes of the time."""
    shares = [
        one.transfer_seconds / one.each_seconds for one in inspected.kinds if one.each_seconds
    ]
    return min(max(shares, default=0.0), 1.0)


def cost_of(snapshot: NodeSnapshot, job: Job) -> HeldBack | None:
    """What the variables of all ranks cost them on their GPUs; None where they cost little.

    To blame are those of which one alone gives nearly all of the speed back where it is taken away,
    else those that give some of it back.
    """
    values = shared_variables(job)
    own = sorted(name for name in values if name.startswith(LIBRARY))
    if not own or not job.gpus:
        return None
    return _COSTS.answer(snapshot, _key(job, values), lambda: _cost(snapshot, job, values, own))


def _cost(
    snapshot: NodeSnapshot, job: Job, values: Mapping[str, str], own: list[str]
) -> HeldBack | None:
    seconds = _Times(snapshot, job)
    here, free = seconds.of(values), seconds.of(_without(values, own))
    if here is None or free is None or here < MATTERS * free:
        return None
    alone = {name: seconds.of(_without(values, [name])) or here for name in own[:MOST_TRIED]}
    enough = [name for name, left in alone.items() if left < MATTERS * free]
    some = [name for name, left in alone.items() if here >= MATTERS * left]
    named = tuple(enough or some or own)
    ranks = len(job.gpus)
    carried = 2 * (ranks - 1) / ranks * LARGE_BYTES / 1e9
    return HeldBack(
        variables=tuple((name, values[name]) for name in named),
        gbs=carried / here,
        free_gbs=carried / free,
    )


class _Times:
    """How long an all-reduce takes over the GPUs of a job, by its own library's model."""

    def __init__(self, snapshot: NodeSnapshot, job: Job) -> None:
        self._snapshot, self._job = snapshot, job

    def of(self, values: Mapping[str, str]) -> float | None:
        """Seconds; None where that is not known."""
        made = predicted(self._snapshot, values, self._job)
        found = None if made is None else time_of(made, LARGE_BYTES)
        return found / 1e6 if found else None


def _without(values: Mapping[str, str], names: list[str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if name not in names}


def predicted(snapshot: NodeSnapshot, variables: Mapping[str, str], job: Job) -> Prediction | None:
    """What the library that the job has loaded does on its GPUs; None where that is not known."""

    def make() -> Prediction | None:
        try:
            settings = Settings(dict(variables))
            return predict_with_flags(snapshot, settings, library=job.library, gpus=job.gpus)
        except (NoGpusError, UnknownVersionError):
            return None

    return _PREDICTIONS.answer(snapshot, _key(job, variables), make)


def most_channels(job: Job) -> int | None:
    """As many channels as its variables leave to NCCL; None where they leave it the choice."""
    values = shared_variables(job)
    given = (values.get(name, "") for name in CHANNEL_LIMITS)
    told = [int(value) for value in given if value.isascii() and value.isdigit() and int(value)]
    return min(told, default=None)


def shared_variables(job: Job) -> Mapping[str, str]:
    """What all ranks were started with alike."""
    told = [dict(user.reading.variables or ()) for user in job.ranked]
    first = told[0] if told else {}
    return {
        name: value for name, value in first.items() if all(one.get(name) == value for one in told)
    }
