"""Which figures of which pairs are measured at each level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...protocol.messages import DeviceRecord

Pair = tuple[DeviceRecord, DeviceRecord]


@dataclass(frozen=True)
class PairPlan:
    """What a level measures besides access, arrival, one-way copies and small copies."""

    both_ways_of_all: bool
    """Copies both ways of every pair, else of one pair for each kind of link."""
    other_paths: bool
    """Reads, kernels that write and read, and a pointer chase for every pair."""
    extras_of_all: bool
    """Copies through the host and a sweep over sizes of every pair, else of one for each kind."""
    sweep_factor: int
    """Ratio of neighbouring sizes in a sweep; 0: neither sweep nor copies through the host."""
    steady_warm_up: bool
    """Whether warming up stops as soon as copies no longer get faster."""


PLANS: Mapping[str, PairPlan] = {
    "quick": PairPlan(False, False, False, 0, True),
    "normal": PairPlan(True, True, False, 4, False),
    "full": PairPlan(True, True, True, 2, False),
}


class Kinds:
    """Sorts pairs by kind of link: the app's word for "SRC DST", and whether access is granted."""

    def __init__(self, requested: object, granted: Mapping[tuple[str, str], bool]) -> None:
        self._requested = requested if isinstance(requested, dict) else {}
        self._granted = granted

    def of(self, src: DeviceRecord, dst: DeviceRecord) -> str:
        """The kind of a pair."""
        granted = "granted" if self._granted[src.key, dst.key] else "not granted"
        return f"{granted} {self._requested.get(f'{src.key} {dst.key}', '')}".strip()

    def samples(self, pairs: Sequence[Pair]) -> list[Pair]:
        """The first pair of each kind."""
        firsts: dict[str, Pair] = {}
        for src, dst in pairs:
            firsts.setdefault(self.of(src, dst), (src, dst))
        return list(firsts.values())


def couples(devices: Sequence[DeviceRecord]) -> list[Pair]:
    """Every two devices once."""
    return [(a, b) for place, a in enumerate(devices) for b in devices[place + 1 :]]


def ordered(devices: Sequence[DeviceRecord]) -> list[Pair]:
    """Every two devices, in both directions."""
    return [pair for a, b in couples(devices) for pair in ((a, b), (b, a))]
