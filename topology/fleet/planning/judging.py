"""Which figures of a look are bad: against equal figures, and the healthy figure where it is known.

Figures are equal when they measure the same thing with the same message size, one rail or all, on
the same hardware over the same distance; rails are compared with each other. Median and median
absolute deviation (MAD) are taken of the main group: the figures around the shortest interval that
holds two fifths of them (after the shortest half of Rousseeuw, "Least Median of Squares
Regression", JASA 79, 1984). A fault of a switch slows up to half of all pairs, and the plain median
breaks there; and faults only slow, so that a large group further up is the healthy one.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ...model.english import plural
from .fabric import SwitchFabric
from .looks import ABSENT, NetFlow, NetLook

DEVIATIONS = 6.0
"""A figure is bad below the median by so many standard deviations, as the MAD estimates them; of a
million figures with normal noise none is."""
LEAST_DROP = 0.10
"""... and by this share of the median: what is nearer is no fault that these figures can show."""
HEALTHY_SHARE = 0.80
"""Below this share of the healthy figure all are bad, however equal they are. A busy network and
small messages keep sound links above it."""
FARTHER_SHARE = 0.85
"""A pair that is nearer gives at least this share of what pairs farther apart give."""
LEAST_FIGURES, LEAST_LOOKS = 8, 4
"""Fewer equal figures, or from fewer pairs, prove nothing about one of them."""
MIXED_SHARE = 0.5
"""Where more of the figures than this would be bad, nobody knows which group is the healthy one."""
_WINDOW = 0.4
_WINDOW_DEVIATIONS = 1.049
"""Width of the middle two fifths of a normal distribution, in standard deviations."""
_MAD_TO_DEVIATION = 1.4826
_UPPER_GROUP = 0.25
_COUNT = re.compile(r"\b[0-9]{1,6} × ")
UNFINISHED = -1
"""Stands for a rail where a pair did not come to its end."""
TOGETHER = -2
"""Stands for a rail where all rails at once are low and none alone is."""

Class: TypeAlias = "tuple[str, bool, bool, int | None, int | None, tuple[str, str]]"
"""What, one rail or all, directed or not, bytes, distance, kinds of hardware."""


@dataclass(frozen=True, slots=True)
class ClassNorm:
    """What the figures of one class are like."""

    median: float
    mad: float
    limit: float
    """Below it a figure is bad, in GB/s."""
    figures: int
    rests_on: str
    """What the limit rests on, for people."""


@dataclass(frozen=True, slots=True)
class JudgedLook:
    """One look with what its figures prove."""

    look: NetLook
    bad: tuple[NetFlow, ...] = ()
    rails: frozenset[int | None] = frozenset()
    """Rails with a figure that could be judged; None is all rails at once."""
    unjudged: int = 0
    """Figures that nothing could be compared with."""
    classes: tuple[Class, ...] = ()
    """The class of each figure, in their order."""


@dataclass(frozen=True, slots=True)
class Judgements:
    """All looks of a folder, judged."""

    looks: tuple[JudgedLook, ...]
    norms: Mapping[Class, ClassNorm] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()
    """What could not be compared, as sentences."""
    undecided: bool = False
    """Whether figures contradict each other, so that nobody could be accused."""


def judge(
    looks: Sequence[NetLook],
    fabric: SwitchFabric,
    kinds: Mapping[str, str] | None = None,
    healthy_gbs: float | None = None,
) -> Judgements:
    """Judge the figures of looks at two nodes.

    `kinds` names the hardware of a host where it is known; hosts of other kinds are not compared.
    `healthy_gbs` is what one rail gives in one direction.
    """
    named = {host for look in looks for host in look.hosts}
    known = {host: kind for host, kind in (kinds or {}).items() if kind and host in named}
    if len(set(known.values())) < 2:
        # The kind of a host that wrote no check is taken to be that of all others.
        known = {}
    classes = [classes_of(look, fabric, known) for look in looks]
    values: dict[Class, list[float]] = {}
    pairs: Counter[Class] = Counter()
    seen: set[tuple[str, ...]] = set()
    for look, own in zip(looks, classes, strict=True):
        if look.hosts in seen:
            # Suspects are looked at many times: each pair counts once for what is usual.
            continue
        if look.finished:
            seen.add(look.hosts)
        for key, flow in zip(own, look.results, strict=True):
            values.setdefault(key, []).append(flow.gbs or 0.0)
        pairs.update(set(own))
    norms, doubts = _norms(values, pairs, healthy_gbs)
    judged = tuple(_judged(look, own, norms) for look, own in zip(looks, classes, strict=True))
    unjudged = sum(one.unjudged for one in judged)
    undecided = bool(doubts)
    if unjudged:
        have = "has" if unjudged == 1 else "have"
        doubts.append(f"{plural(unjudged, 'figure')} {have} too few equals to be judged")
    return Judgements(looks=judged, norms=norms, doubts=tuple(doubts), undecided=undecided)


def kind_of(product: str) -> str:
    """The models of a node, whatever their number: one that lost a GPU has the same network."""
    return _COUNT.sub("", product)


def main_group(values: Iterable[float]) -> tuple[float, float, int]:
    """Median and MAD of the main group of some figures, and how many are in it."""
    ordered = sorted(values)
    while True:
        centre, spread = _densest(ordered)
        reach = max(DEVIATIONS * spread, LEAST_DROP * centre)
        low, high = bisect_left(ordered, centre - reach), bisect_right(ordered, centre + reach)
        if len(ordered) - high < max(_UPPER_GROUP * len(ordered), 2):
            break
        ordered = ordered[high:]
    group = ordered[low:high]
    median = _middle(group)
    return median, _middle(sorted(abs(value - median) for value in group)), len(group)


def _densest(ordered: Sequence[float]) -> tuple[float, float]:
    """Centre of the shortest interval with two fifths of the figures; the deviation it implies."""
    count = max(2, math.ceil(_WINDOW * len(ordered)))
    if len(ordered) < count:
        return ordered[0], 0.0
    starts = range(len(ordered) - count + 1)
    best = min(starts, key=lambda start: ordered[start + count - 1] - ordered[start])
    width = ordered[best + count - 1] - ordered[best]
    return _middle(ordered[best : best + count]), width / _WINDOW_DEVIATIONS


def _middle(ordered: Sequence[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def classes_of(look: NetLook, fabric: SwitchFabric, kinds: Mapping[str, str]) -> list[Class]:
    """The class of each figure of a look, in their order."""
    if len(look.hosts) != 2 or not look.finished:
        return [("", False, False, None, None, ("", ""))] * len(look.results)
    first, second = look.hosts
    one, other = sorted((kinds.get(first, ""), kinds.get(second, "")))
    distance, both = fabric.distance(first, second), (one, other)
    return [
        (flow.what, flow.rail is None, flow.source is not None, flow.bytes, distance, both)
        for flow in look.results
    ]


def _norms(
    values: Mapping[Class, list[float]], pairs: Mapping[Class, int], healthy: float | None
) -> tuple[dict[Class, ClassNorm], list[str]]:
    norms: dict[Class, ClassNorm] = {}
    doubts: list[str] = []
    # The farthest first: a nearer pair gives at least what farther ones give.
    for key in sorted(values, key=lambda key: -(key[4] or 0)):
        what = key[0]
        if not what:
            continue
        floor, basis = _floor(key, norms, healthy)
        many = len(values[key]) >= LEAST_FIGURES and pairs[key] >= LEAST_LOOKS
        if not many and not basis:
            continue
        median, mad, count = main_group(values[key])
        drop = max(DEVIATIONS * _MAD_TO_DEVIATION * mad, LEAST_DROP * median)
        limit = max(median - drop, floor) if many else floor
        if not basis and sum(v < limit for v in values[key]) > MIXED_SHARE * len(values[key]):
            doubts.append(
                f"{what}: over half of the figures are far below the best group; two kinds of"
                " hardware, or a fault of most nodes: name the healthy figure (--healthy)"
            )
            continue
        said = f"{count} equal figures" if many and limit > floor else basis
        norms[key] = ClassNorm(median=median, mad=mad, limit=limit, figures=count, rests_on=said)
    return norms, doubts


def _floor(
    key: Class, norms: Mapping[Class, ClassNorm], healthy: float | None
) -> tuple[float, str]:
    """What a class gives at least, by pairs farther apart and by the healthy figure; and why."""
    what, whole, directed, _, distance, _ = key
    floors = [
        (FARTHER_SHARE * norm.median, "pairs farther apart")
        for other, norm in norms.items()
        if distance is not None
        and (*other[:4], other[5]) == (*key[:4], key[5])
        and (other[4] or 0) > distance
    ]
    if healthy is not None and what == "send_recv" and directed and not whole:
        floors.append((HEALTHY_SHARE * healthy, "the healthy figure"))
    return max(floors, default=(0.0, ""))


def _judged(look: NetLook, own: Sequence[Class], norms: Mapping[Class, ClassNorm]) -> JudgedLook:
    if len(look.hosts) != 2 or not look.finished:
        return JudgedLook(look=look, classes=tuple(own))
    bad = []
    rails = set()
    unjudged = 0
    for key, flow in zip(own, look.results, strict=True):
        norm = norms.get(key)
        if norm is None:
            unjudged += 1
            continue
        rails.add(flow.rail)
        if (flow.gbs or 0.0) < norm.limit:
            bad.append(flow)
    # One bad rail slows what runs over all rails at once: that proves nothing more.
    if any(flow.rail is not None for flow in bad):
        bad = [flow for flow in bad if flow.rail is not None]
    return JudgedLook(
        look=look,
        bad=tuple(bad),
        rails=frozenset(rails),
        unjudged=unjudged,
        classes=tuple(own),
    )


# What the judged looks at pairs say of each host: who was measured with whom, and what was bad.
@dataclass(frozen=True, slots=True)
class BadLook:
    """One rail of one look that was bad."""

    number: int
    """The look's place among all."""
    hosts: tuple[str, str]
    rail: int
    """A rail, UNFINISHED or TOGETHER."""
    blamed: tuple[str, ...]
    """The hosts that it may accuse: both, or those that did not come."""
    senders: frozenset[str | None]
    """Who sent what was bad; None where a figure has no direction."""
    gbs: float | None
    """The lowest figure."""

    @property
    def place(self) -> tuple[int, int]:
        """Its look and its rail."""
        return self.number, self.rail

    @property
    def fails(self) -> bool:
        """Whether it did not finish, or data arrived wrong: such a figure counts as 0."""
        return not self.gbs

    def partner(self, host: str) -> str:
        """The other host."""
        return self.hosts[1] if host == self.hosts[0] else self.hosts[0]


@dataclass(frozen=True, slots=True)
class Tally:
    """All looks at pairs, by host."""

    looks: tuple[JudgedLook, ...]
    """In the order in which they were taken."""
    events: tuple[BadLook, ...]
    rails: frozenset[int]
    """Every rail that was measured."""
    measured: frozenset[str]
    """Hosts of at least one look that finished and was judged."""
    by_host: Mapping[str, tuple[int, ...]]
    """Host -> the places of its looks."""

    def covers(self, number: int, rail: int) -> bool:
        """Whether a look says something about a rail."""
        judged = self.looks[number]
        if rail == UNFINISHED:
            return True
        return (None if rail == TOGETHER else rail) in judged.rails

    def below(self, switch: str, fabric: SwitchFabric) -> tuple[str, ...]:
        """The hosts below a switch, in the order in which they were measured."""
        return tuple(host for host in self.by_host if switch in fabric.above(host))

    def groups(self, fabric: SwitchFabric) -> tuple[dict[str, set[str]], dict[str, set[int]]]:
        """Switch -> hosts below it with a look across its border; and the looks inside it."""
        chains = {host: tuple(fabric.above(host)) for host in self.by_host}
        across: dict[str, set[str]] = {}
        inside: dict[str, set[int]] = {}
        for number, judged in enumerate(self.looks):
            first, second = judged.look.hosts
            one, other = chains[first], chains[second]
            for host, chain in ((first, one), (second, other)):
                for switch in set(chain) - (set(one) & set(other)):
                    across.setdefault(switch, set()).add(host)
            for switch in set(one) & set(other):
                inside.setdefault(switch, set()).add(number)
        return across, inside


def tally(judgements: Judgements) -> Tally:
    """Count the looks at pairs."""
    pairs = [judged for judged in judgements.looks if len(judged.look.hosts) == 2]
    pairs.sort(key=lambda judged: (judged.look.round or 0, judged.look.taken_at or 0.0))
    by_host: dict[str, list[int]] = {}
    rails: set[int] = set()
    measured: set[str] = set()
    for number, judged in enumerate(pairs):
        first, second = judged.look.hosts
        for host in (first, second):
            by_host.setdefault(host, []).append(number)
        if judged.rails:
            measured.update((first, second))
            rails.update(rail for rail in judged.rails if rail is not None)
    return Tally(
        looks=tuple(pairs),
        events=tuple(_events(pairs)),
        rails=frozenset(rails),
        measured=frozenset(measured),
        by_host={host: tuple(numbers) for host, numbers in by_host.items()},
    )


def _events(pairs: Iterable[JudgedLook]) -> Iterator[BadLook]:
    for number, judged in enumerate(pairs):
        look = judged.look
        hosts = (look.hosts[0], look.hosts[1])
        if not look.finished:
            blamed = look.missing if look.status == ABSENT and look.missing else hosts
            yield BadLook(number, hosts, UNFINISHED, blamed, frozenset(), None)
            continue
        for rail in {flow.rail for flow in judged.bad}:
            flows = [flow for flow in judged.bad if flow.rail == rail]
            yield BadLook(
                number,
                hosts,
                TOGETHER if rail is None else rail,
                hosts,
                frozenset(flow.source for flow in flows),
                min(flow.gbs or 0.0 for flow in flows),
            )
