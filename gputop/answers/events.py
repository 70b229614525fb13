"""What happened on a node: Xid, SXid, AER, link and NIC events, explained, in time order."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Annotated, ClassVar

import click

from gputop.answers.metrics import snapshots_of
from gputop.answers.question import Answer, Clash, NodeRequest, Option, Question
from gputop.exits import ANSWERED, CANNOT_TELL, USAGE, Exit
from gputop.terminal.clean import clean
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.events import Event, Watcher
from gputop.topology.events.timeline import CountedErrors, TimelineEvent, timeline
from gputop.topology.model.english import plural
from gputop.topology.model.page import (
    Basis,
    Blank,
    Block,
    Bullets,
    Entries,
    Fact,
    Facts,
    Heading,
    Page,
    PageEntry,
    Role,
    Steps,
    Text,
)
from gputop.topology.model.severity import Severity
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.units import moment, seconds
from gputop.topology.node import Node

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
MOST_SHOWN, MOST_COUNTED = 40, 20
STAMP, DAY = "%Y-%m-%dT%H:%M:%S%z", "%b %d %H:%M:%S"
ONLY_LISTENING = (
    "events of NVML: heard only while somebody listens: the app, or `gputop events --follow`"
)
ONLY_ROOT = "health of mlx5: only root reads /sys/kernel/debug/mlx5"
_FOR = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhd])")


class EventsRequest(NodeRequest, frozen=True, kw_only=True):
    """Say what happened here: Xid, SXid, PCIe, memory, link and NIC events, in time order.

    Each is explained and tied to its device and link. Read without root as far as this user may:
    the kernel's log or its journal, counters in /sys, events of NVML. With --from a pasted dmesg or
    journal gives the same. Exit codes: 0 answered, 3 nothing of it could be read.
    """

    clashes: ClassVar[tuple[Clash, ...]] = (
        Clash(("--follow",), ("--from",), "a recording does not go on: leave out --follow"),
        Clash(("--follow",), ("--json",), "--follow prints lines as they come, not one document"),
    )
    since: Annotated[
        str | None,
        Option("--since", "Only events of so long a time: 90s, 30m, 1h, 2d.", "TIME"),
    ] = None
    follow: Annotated[
        bool, Option("--follow", "Print what happened, then each new event, until Ctrl+C.")
    ] = False
    interval: Annotated[
        float,
        Option(
            "--interval", "Seconds between two looks of --follow.", "SECONDS", least=1, most=600
        ),
    ] = 5.0


class EventsAnswer(Answer, frozen=True, kw_only=True, tag="gputop.events/1"):
    """What happened, the oldest first."""

    taken_at: float
    """Seconds since the epoch."""
    since_seconds: float | None
    """What --since asked for."""
    worst: Severity | None
    """Of the worst event; null where there is none, cannot-tell where nothing was read. Events
    prove no health: `gputop check` does."""
    answer: tuple[str, str]
    """How many events, and the worst of them with what to do."""
    events: tuple[TimelineEvent, ...]
    counted: tuple[CountedErrors, ...]
    """Counters above 0; they keep no time."""
    unread: tuple[str, ...]
    """What could not be read, and how it can be."""

    @property
    def exit_code(self) -> int:
        """3 where nothing was read."""
        return CANNOT_TELL if self.worst is Severity.CANNOT_TELL else ANSWERED


def answer(asked: EventsRequest) -> EventsAnswer:
    """Read the node once. Raises Exit."""
    return answer_of(asked.snapshot(absences=False), _seconds(asked.since))


def answer_of(
    snapshot: NodeSnapshot, since: float | None, *, listening: bool = False
) -> EventsAnswer:
    """What a snapshot holds of events; `listening`: whether those of NVML are heard from now on."""
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) if snapshot.is_live else None
    found = timeline(Case(Node(snapshot)), since, booted)
    read = found.log_read or found.counters_read or bool(found.events)
    # An event whose number nobody knows is no reason to say that nothing was read.
    harms = [_harm(event) for event in found.events]
    worst = min(harms, key=lambda harm: harm.order, default=None)
    return EventsAnswer(
        source=snapshot.source,
        assumptions=snapshot.assumptions,
        taken_at=snapshot.taken_at,
        since_seconds=since,
        worst=worst if read else Severity.CANNOT_TELL,
        answer=(_many(found.events, found.counted, since, read), _worst(found.events, read)),
        events=found.events,
        counted=found.counted,
        unread=tuple(
            line
            for line in _unread(snapshot, log_read=found.log_read)
            if not (listening and line == ONLY_LISTENING)
        ),
    )


def _harm(event: TimelineEvent) -> Severity:
    return Severity.NOTICE if event.severity is Severity.CANNOT_TELL else event.severity


def _seconds(text: str | None) -> float | None:
    """The length of time that --since names. Raises Exit."""
    if text is None:
        return None
    found = _FOR.fullmatch(text.strip())
    if found is None:
        raise Exit(f"--since {clean(text, 40)!r}: give a time as 90s, 30m, 1h or 2d", USAGE)
    return float(found[1]) * UNITS[found[2]]


def _many(
    events: tuple[TimelineEvent, ...],
    counted: tuple[CountedErrors, ...],
    since: float | None,
    read: bool,
) -> str:
    if not read:
        return "Nothing that tells of events could be read here."
    times = [event.at for event in events if event.at is not None]
    span = f" in {seconds(since)}" if since is not None else ""
    if times and not span:
        span = f" since {moment(min(times), DAY)}"
    kinds: dict[Severity, int] = {}
    for event in events:
        kinds[event.severity] = kinds.get(event.severity, 0) + 1
    order = sorted(kinds, key=lambda harm: harm.order)
    told = ", ".join(f"{kinds[harm]} {_word(harm, kinds[harm])}" for harm in order)
    lines = sum(event.count for event in events)
    often = f" in {lines:,} lines" if lines > len(events) else ""
    first = plural(len(events), "event") if events else "No event"
    stand = f"; {plural(len(counted), 'counter')} above 0, without a time" if counted else ""
    return f"{first}{span}{f': {told}' if told else ''}{often}{stand}."


def _word(harm: Severity, count: int) -> str:
    return "notices" if harm is Severity.NOTICE and count > 1 else harm.word


def _worst(events: tuple[TimelineEvent, ...], read: bool) -> str:
    if not read:
        return "Do: `sudo dmesg > dmesg.txt`, then `gputop events --from dmesg.txt`."
    if not events:
        return "Nothing to do."
    # Of equally harmful ones the first counts: what came later is often its echo.
    worst = min(events, key=lambda event: event.severity.order)
    told = f"{worst.where}: {worst.what}" if worst.where else worst.what
    steps = [" ".join(step.lines) for step in worst.fix[:1]]
    return f"Worst: {told}{f'; {worst.over}' if worst.over else ''}. {_do(worst, steps)}"


def _do(worst: TimelineEvent, steps: list[str]) -> str:
    if not worst.severity.counts:
        return "Nothing has to be done at once."
    return f"Do: {steps[0]}" if steps else "Do: `gputop check`."


def _unread(snapshot: NodeSnapshot, *, log_read: bool) -> Iterator[str]:
    """What else would tell of events on this machine, a line each."""
    if not snapshot.is_live:
        return
    for problem in snapshot.problems:
        if problem.source == "kernel_log" and not log_read:
            yield f"kernel messages: not readable: {problem.text}"
        elif problem.source in ("counters", "nvml_events"):
            yield f"{problem.source}: {problem.text}"
    if any(gpu.vendor == "nvidia" for gpu in snapshot.machine.gpus):
        yield ONLY_LISTENING
    if any(device.driver == "mlx5_core" for device in snapshot.machine.rdma):
        yield ONLY_ROOT


def page(found: EventsAnswer) -> Page:
    """The answer in two lines, the events by time, the counters, and what was not read."""
    return Page(title="events", blocks=tuple(_blocks(found)))


def _blocks(found: EventsAnswer) -> Iterator[Block]:
    mark = found.worst or Severity.NOTICE
    yield Text.marked(mark, (f" {found.answer[0]}", Role(mark.ink)))
    yield Text(found.answer[1])
    hidden = len(found.events) - MOST_SHOWN
    if found.events:
        note = f"the last {MOST_SHOWN} of {len(found.events):,}; --json has all"
        yield Heading("Events", note=note if hidden > 0 else "")
        yield Entries(tuple(map(_event, found.events[-MOST_SHOWN:])), rising=True)
    if found.counted:
        yield Heading("Counted since the drivers were loaded")
        shown = sorted(found.counted, key=lambda one: one.severity.order)[:MOST_COUNTED]
        yield Bullets(tuple(map(_count, shown)))
        if len(found.counted) > MOST_COUNTED:
            yield Text(f"{len(found.counted) - MOST_COUNTED} more are in --json.", indent=2)
    if found.unread:
        yield Heading("Not read")
        yield Bullets(found.unread)


def _event(event: TimelineEvent) -> PageEntry:
    when = event.last if event.at is None else moment(event.at, DAY)
    often = f", {event.count:,} times" if event.count > 1 else ""
    over = f"; {event.over}" if event.over else ""
    where = f"{event.where}: " if event.where else ""
    line = Text.marked(
        event.severity,
        (f" {when or '–'}  ", Role.MUTED),
        (where, Role.DEVICE),
        (f"{event.what}{often}{over}", Role.PLAIN),
    )
    return PageEntry(
        line=line, more=tuple(_more(event)), devices=tuple(filter(None, (event.device,)))
    )


def _more(event: TimelineEvent) -> Iterator[Block]:
    """What else is known of an event: how harmful, when first, the line itself, what to do."""
    told = (("harm", event.severity.word), ("first", event.first), ("last", event.last))
    facts = [
        Fact(what=name, value=value, source="", basis=Basis.UNSAID) for name, value in told if value
    ]
    yield Facts((*facts, Fact(what="line", value=event.text, source=str(event.source))))
    if event.fix:
        yield Blank()
        yield Steps(event.fix)


def _count(one: CountedErrors) -> str:
    port = "" if one.port is None else f" port {one.port}"
    return f"{one.where}{port}: {one.what}: {one.count:,}"


def carry_out(asked: EventsRequest) -> int:
    """Print the answer, and with --follow what comes."""
    return follow(asked) if asked.follow else _ONCE.ask(asked)


def follow(
    asked: EventsRequest,
    sleep: Callable[[float], None] = time.sleep,
    say: Callable[[str], None] = click.echo,
    looks: int | None = None,
) -> int:
    """Say what happened, then each event that is new; ends after so many looks, if at all."""
    since, read, watcher = _seconds(asked.since), snapshots_of(asked, asked.interval), Watcher()
    known: dict[tuple[str, str], Event] = {}
    done = 0
    while looks is None or done < looks:
        snapshot = read()
        if done == 0:
            _ONCE.show(answer_of(snapshot, since, listening=True), as_json=False)
        watcher.see(snapshot)
        for event in reversed(watcher.events):
            if known.get(key := (event.device + event.name, event.what)) != event:
                known[key] = event
                stamp = moment(event.last_at, STAMP)
                say(f"{stamp} {event.harm.sign} {event.harm.word}: {clean(event.text, 300)}")
        done += 1
        if looks is None or done < looks:
            sleep(asked.interval)
    return ANSWERED


QUESTION = Question(
    name="events", request=EventsRequest, answer=answer, page=page, carry_out=carry_out
)
_ONCE = Question(name="events", request=EventsRequest, answer=answer, page=page)
