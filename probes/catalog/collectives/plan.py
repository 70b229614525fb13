"""Plans the sizes of each level and the repeats of each figure within the allowed time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ...crew.steps import INIT, MIB, OPEN, Step
from ...protocol.spec import ProbeStopped, level_of
from ...protocol.status import Status
from .operations import BY_NAME, OPERATIONS

KIB, GIB = 1 << 10, 1 << 30
_ALL_REDUCE = "all_reduce"
_QUICK_BYTES = (MIB, 16 * MIB, 256 * MIB, GIB)
_QUICK_OTHERS = (16 * MIB, GIB)
_LARGE_BYTES = (4 * GIB, 8 * GIB)
_CPU_BYTES = (64 * KIB, MIB)

MEASURING_SECONDS = {"quick": 6.0, "normal": 20.0, "full": 200.0}
"""Time for all figures; NVLink takes half of it, a slow transport gets fewer figures."""
_SAMPLES = {"quick": 5, "normal": 9, "full": 11}
"""Outliers are frequent on a busy host, because one late rank makes all late."""
_SAMPLES_OF_LONG = {"quick": 3, "normal": 5, "full": 7}
_LONG_SECONDS = 0.0005
"""A call of this length hides a late rank."""
_FEWEST_SAMPLES = 3
PARTS = 20
"""So many calls in a row use other parts of the buffers, as many as nccl-tests makes and with -G
repeats. A fixed number: small calls through more memory than the cache of a GPU holds take longer.
"""
_CALLS = 20
"""As many calls as nccl-tests makes; more for short calls, so that a sample lasts long enough."""
_MOST_CALLS = 100
_FEWEST_CALLS = 5
_SAMPLE_SECONDS = 0.002
HOLD_BELOW_SECONDS = 0.002
"""Calls shorter than this are timed a second time with the GPU held while they are queued."""
_LAST_SHARE, _OTHER_SHARE = 1.0, 0.3
"""Parts of the remaining time of an operation: for its last size, and for an earlier one."""

_OVER = 1.25
"""A size may exceed the remaining time by this, as its estimate comes from a smaller size."""


def sizes(name: str, params: Mapping[str, Any], cpu: bool) -> "tuple[int, ...]":
    """The sizes of one operation at a level, ascending."""
    level = level_of(params)
    if cpu:
        return _CPU_BYTES[:1] if level == "quick" else _CPU_BYTES
    found: tuple[int, ...]
    if level == "quick":
        found = _QUICK_BYTES if name == _ALL_REDUCE else _QUICK_OTHERS
    else:
        every = 1 if level == "full" else 2
        found = tuple(KIB << shift for shift in range(0, 21, every))
    return found + _LARGE_BYTES if params.get("large") is True else found


def steps(ranks: int, params: Mapping[str, Any], cpu: bool) -> "tuple[Step, ...]":
    """One step for each operation, form and size; at "quick" the form that training uses alone."""
    forms = 1 if level_of(params) == "quick" else None
    wanted = _wanted(params)
    return (
        OPEN,
        INIT,
        *(
            Step(
                operation.name,
                f"{operation.title} of {shown(size)}, {form}",
                size,
                variant=form,
            )
            for operation in OPERATIONS
            if operation.name in wanted
            for form in operation.forms[:forms]
            for size in sizes(operation.name, params, cpu)
        ),
    )


def _wanted(params: Mapping[str, Any]) -> "tuple[str, ...]":
    """The operations of the parameter, by default all; ProbeStopped for an unknown name."""
    named = params.get("operations", list(BY_NAME))
    if not isinstance(named, list) or not named or not all(name in BY_NAME for name in named):
        raise ProbeStopped(Status.REFUSED, f"operations is a list out of {', '.join(BY_NAME)}.")
    return tuple(named)


def shown(size_bytes: int) -> str:
    """A size for people: KiB, MiB or GiB."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:g} {name}"
    return f"{size_bytes / KIB:g} KiB"


@dataclass(frozen=True)
class Repeats:
    """How often a figure is measured."""

    samples: int
    calls: int
    """In each sample."""
    held: bool
    """Whether it is measured a second time, with the GPU held."""
    cut: bool
    """Whether a slow transport cuts the repeats."""


SELF_TEST = Repeats(samples=_FEWEST_SAMPLES, calls=_FEWEST_CALLS, held=True, cut=False)
"""Of the self-test: its figures say nothing, however often they are taken."""


def repeats(level: str, call_seconds: float, allowed_seconds: float) -> Repeats:
    """As many samples and calls as fit into the time; at least three samples of one call."""
    samples = (_SAMPLES if call_seconds < _LONG_SECONDS else _SAMPLES_OF_LONG)[level]
    wanted = int(_SAMPLE_SECONDS / max(call_seconds, 1e-9))
    calls = max(_CALLS, min(_MOST_CALLS, wanted))
    held = call_seconds < HOLD_BELOW_SECONDS
    each = call_seconds * (2 if held else 1)
    planned = (samples, calls)
    if samples * (calls + 1) * each > allowed_seconds:
        calls = max(_FEWEST_CALLS, int(allowed_seconds / samples / each) - 1)
    if samples * (calls + 1) * each > allowed_seconds:
        samples = _FEWEST_SAMPLES
        calls = max(1, min(_FEWEST_CALLS, int(allowed_seconds / samples / each) - 1))
    return Repeats(samples, calls, held, (samples, calls) != planned)


class Clock:
    """Tracks the remaining time; all ranks feed it the same figures, so their answers agree."""

    def __init__(self, plan: "tuple[Step, ...]", seconds: float) -> None:
        self._seconds = seconds
        self._kinds = [(step.name, step.variant) for step in plan]
        self._now = 0.0
        self._current: Optional[tuple[str, str]] = None
        self._end = 0.0
        self._last: Optional[tuple[int, float]] = None

    def begin(self, place: int, size_bytes: int) -> bool:
        """Whether there is time for this step; `place`: its position in the plan."""
        kind = self._kinds[place]
        if kind != self._current:
            left = len(dict.fromkeys(self._kinds[place:]))
            self._current, self._last = kind, None
            self._end = self._now + max(0.0, self._seconds - self._now) / left
        if self._last is None:
            return True
        size, seconds = self._last
        # The minimum: one checked call, one trial, and three samples of two calls.
        least = 8 * seconds * size_bytes / size
        return least <= _OVER * (self._end - self._now) or least < _SAMPLE_SECONDS

    def allowed(self, place: int) -> float:
        """Seconds for the samples of this step."""
        is_last = place + 1 == len(self._kinds) or self._kinds[place + 1] != self._kinds[place]
        return max(0.0, self._end - self._now) * (_LAST_SHARE if is_last else _OTHER_SHARE)

    def end(self, now: float, size_bytes: int, call_seconds: float) -> None:
        """Record the end of a step: the clock of rank 0, and the seconds of one call."""
        self._now = now
        self._last = (size_bytes, call_seconds)
