"""Which figures of which pairs each level takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...protocol.messages import DeviceRecord

Pair = tuple[DeviceRecord, DeviceRecord]


@dataclass(frozen=True)
class PairPlan:
    """What is measured beside access, arrival, copies one way and small copies of every pair."""

    both_ways_of_all: bool
    """Else of one pair for each kind of link."""
    other_paths: bool
    """Reading, kernels that write and read, a pointer chase: of every pair."""
    extras_of_all: bool
    """Staging through the host and a sweep over sizes: of every pair, else one for each kind."""
    sweep_factor: int
    """Between neighbours in a sweep; 0: neither sweep nor staging."""
    steady_warm_up: bool
    """Warm up only as long as it gets faster."""


PLANS: Mapping[str, PairPlan] = {
    "quick": PairPlan(False, False, False, 0, True),
    "normal": PairPlan(True, True, False, 4, False),
    "full": PairPlan(True, True, True, 2, False),
}


class Kinds:
    """Pairs with like links: as the app says ("SRC DST" -> letters), and by what is granted."""

    def __init__(self, requested: object, granted: Mapping[tuple[str, str], bool]) -> None:
        self._requested = requested if isinstance(requested, dict) else {}
        self._granted = granted

    def of(self, src: DeviceRecord, dst: DeviceRecord) -> str:
        """A word that like pairs share."""
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
    """Every two devices, there and back."""
    return [pair for a, b in couples(devices) for pair in ((a, b), (b, a))]
