"""What happened on a node, in the order of time: lines of logs, events of NVML, counters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone

import msgspec

from ..diagnosis.case import Case
from ..diagnosis.rule import NotRead
from ..diagnosis.rules.host.kernel_log import log_read, told_in, where
from ..hardware.counters import meaning
from ..hardware.faults.catalogue import fixes
from ..model.page import Fix
from ..model.readings import CounterKind
from ..model.severity import NOTICE, Severity, Word

_SINCE = re.compile(r"([\d.]{1,20}) s after the start")
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")
_FORMS = ("%a %b %d %H:%M:%S %Y", "%b %d %H:%M:%S", "%b %d %H:%M")
DAY = 86400.0
MOST_STEPS = 2


class TimelineSource(Word):
    """Who tells of an event."""

    LOG = "kernel log"
    NVML = "NVML"


class TimelineEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of thing that happened to one device, however often."""

    at: float | None
    """When it happened last, seconds since the epoch; null where nothing tells."""
    first: str
    """When it happened first, as the log writes it; "" where it has no time."""
    last: str
    severity: Severity
    device: str
    """PCI address; "" where the line names none."""
    where: str
    """The device by its name, with the link and what is at its other end."""
    what: str
    """What it means, with its number: "GPU has fallen off the bus (Xid 79)"."""
    count: int
    over: str
    """What ended it; "" where nothing says so."""
    source: TimelineSource
    text: str
    """The line itself."""
    fix: tuple[Fix, ...]


class CountedErrors(msgspec.Struct, frozen=True, kw_only=True):
    """A counter that stands above 0. It keeps no time: only growth between two readings has one."""

    device: str
    """PCI address; the name of a network device where it has none."""
    where: str
    port: int | None
    what: str
    count: int
    severity: Severity
    """Of one more of it; the total is a notice."""
    kind: CounterKind


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """What happened, the oldest first, and what stands in counters."""

    events: tuple[TimelineEvent, ...]
    counted: tuple[CountedErrors, ...]
    log_read: bool
    """Whether a log of the kernel was read, or a text that holds lines of one."""
    counters_read: bool


def timeline(case: Case, seconds: float | None = None, booted: float | None = None) -> Timeline:
    """The events of a node; `seconds`: only those of so long a time before the end of the log.

    `booted`: when the machine whose log this is was started, in seconds since the epoch.

    The end is now on the node itself, else the newest event. An event without a time is kept.
    """
    try:
        told = told_in(case)
    except NotRead:
        told = []
    now = case.snapshot.taken_at
    found = []
    for event, fault in told:
        label = f" ({fault.label})" if fault.label else ""
        happened = TimelineEvent(
            at=moment_of(event.last, booted, now),
            first=event.first,
            last=event.last,
            severity=fault.severity,
            device=event.device or "",
            where=where(case, event),
            what=f"{fault.told(event.details)}{label}",
            count=event.count,
            over=event.over,
            source=TimelineSource.NVML if event.heard else TimelineSource.LOG,
            text=event.text,
            fix=tuple(fixes(fault, event.device))[:MOST_STEPS],
        )
        found.append((_place(event.last, happened.at), happened))
    ordered = _in_order(found)
    if seconds is not None:
        end = now if case.on_node else max((at for at, _ in ordered if at is not None), default=now)
        ordered = [one for one in ordered if one[0] is None or one[0] >= end - seconds]
    return Timeline(
        events=tuple(event for _, event in ordered),
        counted=tuple(_counted(case)),
        log_read=log_read(case),
        counters_read=bool(case.readings.counters),
    )


def moment_of(when: str, booted: float | None, now: float) -> float | None:
    """Seconds since the epoch of a time as a log writes it; None where it does not tell the day.

    A time without a zone is taken for one of the zone here, one without a year for the last such
    day before `now`.
    """
    if (since := _SINCE.fullmatch(when)) is not None:
        return None if booted is None else booted + float(since[1])
    try:
        if (iso := _ISO.match(when)) is not None:
            zone = (iso[4] or "").replace("Z", "+00:00")
            zone = f"{zone[:3]}:{zone[-2:]}" if zone else ""
            fraction = f".{iso[3][:6]:0<6}" if iso[3] else ""
            return datetime.fromisoformat(f"{iso[1]}T{iso[2]}{fraction}{zone}").timestamp()
        return _of_words(" ".join(when.split()), now)
    except (ValueError, OverflowError, OSError):
        return None


def _of_words(text: str, now: float) -> float | None:
    for form in _FORMS:
        whole = form.endswith("%Y")
        year = datetime.fromtimestamp(now, timezone.utc).year
        try:
            found = datetime.strptime(text if whole else f"{year} {text}", _years(form, whole))
        except ValueError:
            continue
        at = found.timestamp()
        if not whole and at > now + DAY:
            at = found.replace(year=year - 1).timestamp()
        return at
    return None


def _years(form: str, whole: bool) -> str:
    return form if whole else f"%Y {form}"


def _place(when: str, at: float | None) -> float | None:
    """Where an event stands among the others: its moment, else the seconds that its log counts."""
    since = _SINCE.fullmatch(when)
    return float(since[1]) if at is None and since is not None else at


Placed = tuple["float | None", TimelineEvent]


def _in_order(found: Iterable[Placed]) -> list[Placed]:
    """By time; one without a time stays behind the one before which it was read."""
    last, keyed = float("-inf"), []
    for at, event in found:
        last = last if at is None else at
        keyed.append((last, (at, event)))
    return [one for _, one in sorted(keyed, key=lambda pair: pair[0])]


def _counted(case: Case) -> Iterator[CountedErrors]:
    """Counters of the kernel above 0, those that count errors."""
    for device in case.readings.counters or ():
        place = device.address or device.device
        name = device.device if device.kind in (CounterKind.NET, CounterKind.RDMA) else ""
        for counter, count in device.counts:
            meant = meaning(device.kind, counter)
            # A driver takes the link down once while it starts.
            started = device.kind is CounterKind.NET and meant is not None and count <= 1
            if meant is not None and meant.news and not started:
                yield CountedErrors(
                    device=place,
                    where=name or case.name(place),
                    port=device.port,
                    what=meant.what,
                    count=count,
                    severity=meant.harm if meant.harm.counts else NOTICE,
                    kind=device.kind,
                )
