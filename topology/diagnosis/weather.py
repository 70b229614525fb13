"""The weather of links: how often each NVLink, PCIe link and port erred, and what to do.

A pure function over readings of one node, each with its time. Growth counts, never a total:
counters that went down began anew; readings on two starts of the host, or with a clock that went
back, are not compared. Rates are of an hour of load where the link counts its bytes.

Base rates, and where the words come from:

- A healthy link recovers about never: DCGM's health check takes one recovery or replay for a
  failure. In marin 8934 and 9086 a link recovered 505 times in five days, 4 an hour, and then
  failed. "Drain" begins at an eighth of that, one in two hours of load, kept up for half a day and
  seen between at least three readings; between two readings at half of it, 2 an hour.
- A port that goes down and comes back three times a day is one that flaps: "reseat".
- Symbol and CRC errors: a bit error rate of 1e-12, which InfiniBand allows, is 115 an hour at 32
  Gbit/s; ibqueryerrors(8) names a port from 10 on. A link corrects them.
- PCIe: DCGM takes more than 8 replays a minute for a warning (DCGM_LIMIT_MAX_PCIREPLAY_RATE);
  corrected errors by AER are held against the same limit.
- Retransmissions, packets out of sequence and marks of congestion belong to the fabric as much as
  to the port: alone they are "watch", and only where it has ten times as many as its siblings.

The last day decides; what was before it is at most "watch", as a part may have been changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median

import msgspec

from ..hardware.counters import CountedTrouble, meaning, of_driver
from ..model.english import plural
from ..model.readings import CounterKind
from ..model.severity import Word
from ..model.snapshot import NodeSnapshot

HOUR = 3600.0
SHORTEST, LONGEST = 60.0, 31 * 24 * HOUR
"""Readings that are nearer, or farther apart, give no rate."""
LOADED_BYTES_PER_SECOND = 1e6
"""A link that carried less on average was idle: what it did not err about proves nothing."""
DAY_HOURS = 24.0
DRAIN_COUNT, DRAIN_PER_HOUR, DRAIN_HOURS, DRAIN_AT_ONCE_PER_HOUR = 6, 0.5, 12.0, 2.0
RESEAT_COUNT, RESEAT_PER_HOUR = 3, 3 / 24
SOUND_PER_HOUR = 120.0
PCIE_PER_HOUR = 8 * 60.0
SIBLINGS, FEWEST_SIBLINGS = 10.0, 2
"""So many times the middle of its siblings is out of the common, where there are so many."""
WATCH_COUNT = 10

_T = CountedTrouble
ONE = {_T.RECOVERY: "recovery", _T.REPLAY: "replay", _T.CRC: "CRC error"}
HARD = (_T.RECOVERY, _T.DOWN, _T.UNCORRECTED)
SOFT = (_T.SYMBOL, _T.CRC, _T.REPLAY, _T.CORRECTED)
SHARED = (_T.RETRANSMISSION, _T.SEQUENCE, _T.CONGESTION)
_NVLINK = (
    ("recovery_errors", _T.RECOVERY), ("replay_errors", _T.REPLAY), ("crc_errors", _T.CRC),
    ("tx_bytes", _T.TRAFFIC), ("rx_bytes", _T.TRAFFIC),
)  # fmt: skip


class WeatherWord(Word):
    """What to do about a link, the worst first."""

    DRAIN = "drain"
    RESEAT = "reseat"
    WATCH = "watch"
    CALM = "calm"


class LinkKey(msgspec.Struct, frozen=True, order=True):
    """One link, by one of its ends."""

    kind: CounterKind
    """AER for a PCIe link, RDMA for a port, NET for an interface."""
    device: str
    """PCI address; the name of a network device that has none."""
    number: int = 0
    """Of the NVLink or port."""
    name: str = ""
    """"mlx5_2", "eth2"; "" for links of GPUs and PCIe."""


class LinkCounts(msgspec.Struct, frozen=True):
    """The counters of one link at one moment; None where it is not known whether it is up."""

    counts: dict[str, tuple[CountedTrouble, int]]
    """By the counter's own name."""
    up: bool | None = None


class WeatherReading(msgspec.Struct, frozen=True):
    """All links of a node at one moment."""

    at: float
    """Seconds since the epoch."""
    boot: str | None
    links: dict[LinkKey, LinkCounts]


class LinkWeather(msgspec.Struct, frozen=True, kw_only=True):
    """How one link did."""

    link: LinkKey
    word: WeatherWord
    why: str
    """What counts for the word, in a clause: "12 recoveries in 14 h of load, 0.9 an hour"."""
    hours: float
    """That were compared."""
    loaded_hours: float | None
    """Of them with traffic; None where the link counts no bytes."""
    grown: tuple[tuple[CountedTrouble, int], ...]
    """What was added, without bytes."""
    resets: int = 0
    """How often its counters began anew."""

    def rate(self, *troubles: CountedTrouble) -> float:
        """Of these troubles in an hour of load; of any hour where load is not known or was none."""
        count = sum(number for trouble, number in self.grown if trouble in troubles)
        return count / max(self.loaded_hours or self.hours, 1.0)


def reading_of(snapshot: NodeSnapshot) -> WeatherReading:
    """The links of a snapshot with what their counters say."""
    host = snapshot.machine.host
    links: dict[LinkKey, LinkCounts] = {}
    active = {
        (gpu.address, link.link): link.active
        for gpu in snapshot.machine.gpus
        for link in gpu.nvlinks
    }
    for gpu in snapshot.readings.gpus:
        for link in gpu.nvlinks:
            counts = {
                name: (trouble, value)
                for name, trouble in _NVLINK
                if (value := getattr(link, name)) is not None
            }
            key = LinkKey(CounterKind.NVLINK, gpu.address, link.link)
            links[key] = LinkCounts(counts, active.get((gpu.address, link.link)))
        if gpu.pcie_replays is not None:
            key = LinkKey(CounterKind.AER, gpu.address)
            links[key] = LinkCounts({"replays": (_T.REPLAY, gpu.pcie_replays)})
    for key, counts in _of_kernel(snapshot):
        before = links[key].counts if key in links else {}
        links[key] = LinkCounts(before | counts)
    return WeatherReading(snapshot.taken_at, None if host is None else host.boot_id, links)


def _of_kernel(
    snapshot: NodeSnapshot,
) -> Iterator[tuple[LinkKey, dict[str, tuple[CountedTrouble, int]]]]:
    for device in snapshot.readings.counters or ():
        if device.kind not in (CounterKind.AER, CounterKind.RDMA, CounterKind.NET):
            continue
        name = "" if device.kind is CounterKind.AER else device.device
        key = LinkKey(device.kind, device.address or device.device, device.port or 0, name)
        meant = ((name, meaning(device.kind, name), count) for name, count in device.counts)
        yield (
            key,
            {
                name: (found.trouble, count * found.scale)
                for name, found, count in meant
                if found is not None
            },
        )


class _Sum:
    """What one link added over the intervals."""

    def __init__(self) -> None:
        self.hours = self.loaded = 0.0
        self.carries = False
        self.grown: dict[CountedTrouble, int] = {}
        self.intervals = 0
        """In how many of them it erred hard."""
        self.hard_hours = 0.0
        """From the start of the first interval with a hard error to the end of the last."""
        self.resets = 0
        self._first: float | None = None

    def add(self, before: LinkCounts, now: LinkCounts, start: float, end: float) -> None:
        """One interval more; its ends in seconds."""
        grown, reset = _growth(before, now)
        self.resets += reset
        bytes_ = grown.pop(_T.TRAFFIC, 0)
        hours = (end - start) / HOUR
        self.hours += hours
        self.carries |= any(trouble is _T.TRAFFIC for trouble, _ in now.counts.values())
        self.loaded += hours if bytes_ >= LOADED_BYTES_PER_SECOND * (end - start) else 0.0
        if before.up is False and now.up and not grown.get(_T.DOWN):
            grown[_T.DOWN] = 1
        for trouble, count in grown.items():
            self.grown[trouble] = self.grown.get(trouble, 0) + count
        if any(grown.get(trouble) for trouble in HARD):
            self.intervals += 1
            self._first = start if self._first is None else self._first
            self.hard_hours = (end - self._first) / HOUR


def _growth(before: LinkCounts, now: LinkCounts) -> tuple[dict[CountedTrouble, int], bool]:
    """What was added of each trouble, and whether the counters began anew in between."""
    pairs = {
        name: (trouble, before.counts[name][1] if name in before.counts else 0, count)
        for name, (trouble, count) in now.counts.items()
        if name in before.counts or not of_driver(name)
    }
    gone = {name for name, (_, count) in before.counts.items() if count} - now.counts.keys()
    lost = any(not of_driver(name) for name in gone)
    reset = lost or any(count < old for _, old, count in pairs.values())
    grown: dict[CountedTrouble, int] = {}
    for trouble, old, count in pairs.values():
        added = count if reset else count - old
        if added:
            grown[trouble] = grown.get(trouble, 0) + added
    return grown, reset


def weather(readings: Iterable[WeatherReading]) -> tuple[LinkWeather, ...]:
    """How each link did between the first and the last of these readings, the worst first."""
    ordered = list(readings)
    pairs = [(a, b) for a, b in pairwise(ordered) if _comparable(a, b)]
    if not pairs:
        return ()
    begin = min(pairs[-1][1].at - DAY_HOURS * HOUR, pairs[-1][0].at)
    recent = _sums(pair for pair in pairs if pair[0].at >= begin)
    earlier = _sums(pair for pair in pairs if pair[0].at < begin)
    usual = _usual(recent)
    found = [_told(key, one, earlier.get(key, _Sum()), usual) for key, one in recent.items()]
    order = list(WeatherWord)
    return tuple(sorted(found, key=lambda one: (order.index(one.word), one.link)))


def _sums(pairs: Iterable[tuple[WeatherReading, WeatherReading]]) -> dict[LinkKey, _Sum]:
    """What each link added between each two readings."""
    found: dict[LinkKey, _Sum] = {}
    for before, now in pairs:
        for key in before.links.keys() & now.links.keys():
            one = found.setdefault(key, _Sum())
            one.add(before.links[key], now.links[key], before.at, now.at)
    return found


def _comparable(before: WeatherReading, now: WeatherReading) -> bool:
    same = None in (before.boot, now.boot) or before.boot == now.boot
    return same and SHORTEST <= now.at - before.at <= LONGEST


_Usual = dict[tuple[CounterKind, tuple[CountedTrouble, ...]], list[float]]


def _usual(sums: dict[LinkKey, _Sum]) -> _Usual:
    """The rates an hour of all links of a kind, for hard, soft and shared troubles."""
    found: _Usual = {}
    for key, one in sums.items():
        for troubles in (HARD, SOFT, SHARED):
            found.setdefault((key.kind, troubles), []).append(_rate(one, troubles))
    return found


def _rate(one: _Sum, troubles: Sequence[CountedTrouble]) -> float:
    count = sum(one.grown.get(trouble, 0) for trouble in troubles)
    return count / max((one.loaded if one.carries else 0.0) or one.hours, 1.0)


def _apart(key: LinkKey, one: _Sum, troubles: tuple[CountedTrouble, ...], usual: _Usual) -> bool:
    """Whether a link errs much more than its siblings do; where it has too few, nobody can tell."""
    rates = usual[key.kind, troubles]
    own = _rate(one, troubles)
    others = sorted(rates)
    others.remove(own)
    return len(others) >= FEWEST_SIBLINGS and own > SIBLINGS * median(others)


def _told(key: LinkKey, one: _Sum, earlier: _Sum, usual: _Usual) -> LinkWeather:
    word, counted = _word(key, one, usual)
    why = _why(one, counted) if counted else ""
    if word is WeatherWord.CALM:
        turned = tuple(t for t in (HARD, SOFT) if _turned(one, earlier, t))
        before = any(earlier.grown.get(trouble) for trouble in HARD)
        if turned:
            why = f"{_why(one, turned[0])}, ten times as many as before"
        elif before:
            why = f"{_why(earlier, HARD)}, before the last day"
        word = WeatherWord.WATCH if turned or before else word
    return LinkWeather(
        link=key,
        word=word,
        why=why,
        hours=one.hours,
        loaded_hours=one.loaded if one.carries else None,
        grown=tuple(sorted(one.grown.items())),
        resets=one.resets,
    )


def _turned(one: _Sum, earlier: _Sum, troubles: tuple[CountedTrouble, ...]) -> bool:
    """Whether a link errs much more than it did on the days before."""
    count = sum(one.grown.get(trouble, 0) for trouble in troubles)
    known = earlier.hours >= DAY_HOURS / 2 and count >= WATCH_COUNT
    return known and _rate(one, troubles) > SIBLINGS * _rate(earlier, troubles)


def _word(key: LinkKey, one: _Sum, usual: _Usual) -> tuple[WeatherWord, tuple[CountedTrouble, ...]]:
    """The word for a link, and the troubles that it is for."""
    hard, soft, shared = (
        sum(one.grown.get(trouble, 0) for trouble in troubles) for troubles in (HARD, SOFT, SHARED)
    )
    # Where all siblings err alike, the switch, the fabric or a shutdown did it, not this link.
    alone = len(usual[key.kind, HARD]) <= FEWEST_SIBLINGS or _apart(key, one, HARD, usual)
    least = DRAIN_PER_HOUR if one.intervals > 1 else DRAIN_AT_ONCE_PER_HOUR
    kept_up = one.hard_hours >= DRAIN_HOURS and hard >= DRAIN_COUNT
    if kept_up and alone and _rate(one, HARD) >= least:
        return WeatherWord.DRAIN, HARD
    if hard >= RESEAT_COUNT and alone and hard / max(one.hours, DAY_HOURS) >= RESEAT_PER_HOUR:
        return WeatherWord.RESEAT, HARD
    limit = PCIE_PER_HOUR if key.kind is CounterKind.AER else SOUND_PER_HOUR
    if _rate(one, SOFT) > limit and soft >= WATCH_COUNT:
        known = len(usual[key.kind, SOFT]) > FEWEST_SIBLINGS
        reseat = not known or _apart(key, one, SOFT, usual)
        return (WeatherWord.RESEAT if reseat else WeatherWord.WATCH), SOFT
    if hard:
        return WeatherWord.WATCH, HARD
    for troubles, count in ((SOFT, soft), (SHARED, shared)):
        if count >= WATCH_COUNT and _apart(key, one, troubles, usual):
            return WeatherWord.WATCH, troubles
    return WeatherWord.CALM, ()


def _why(one: _Sum, troubles: tuple[CountedTrouble, ...]) -> str:
    """The counts that decide, over which time, and how many that is in an hour."""
    told = [_counted(each, one.grown[each]) for each in troubles if one.grown.get(each)]
    loaded = one.loaded if one.carries else 0.0
    when = f"{loaded:.0f} h of load" if loaded >= 1 else f"{one.hours:.0f} h"
    rate = _rate(one, troubles)
    hourly = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    return f"{' and '.join(told)} in {when}, {hourly} an hour"


def _counted(trouble: CountedTrouble, count: int) -> str:
    if trouble is _T.DOWN:
        return f"{plural(count, 'time')} down"
    return f"{count:,} {trouble if count > 1 else ONE.get(trouble, trouble)}"
