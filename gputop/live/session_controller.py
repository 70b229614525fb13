"""What the app records, and the time bar of a recording that it plays."""

from __future__ import annotations

import queue
import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.message import Message

from gputop.live.recent import Recent
from gputop.terminal.clean import clean
from gputop.topology.model.severity import Severity
from gputop.widgets.spans import EMPTY, Line, width_of

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.recorded.sessions.changes import SessionNote
    from gputop.topology.recorded.sessions.feed import ReplayFeed

WAITING = 10
"""Readings that wait for a slow disk; those beyond are left out."""
MINUTE_SECONDS, DAY_SECONDS = 60.0, 86400.0
_PAUSE, _STEP = ("c", "pause", "replay('pause')"), (", .", "step", "")
_EVENT = ("N", "event", "replay('event', 1)")
HINTS = ((_PAUSE, _STEP, _EVENT), (_PAUSE, _EVENT), ())
"""Keys at the end of the time bar, as many as there is room for."""
LEAST_BAR = 20
NO_FEED = "this is no recording; `gputop replay FILE` plays one"


class SessionTold(Message):
    """The thread that records has something to say."""

    def __init__(self, text: str, *, failed: bool = False) -> None:
        super().__init__()
        self.text, self.failed = text, failed


class _RecordThread:
    """Keeps readings in a file, in a thread of its own: a disk may take its time."""

    def __init__(self, path: Path, host: NodeHost) -> None:
        self.path, self._host = path, host
        self.since = time.time()
        self._waiting: queue.Queue[NodeSnapshot | None] = queue.Queue(WAITING)
        self.thread = threading.Thread(target=self._run, name="record", daemon=True)
        self.thread.start()

    def take(self, snapshot: NodeSnapshot | None) -> None:
        """Keep a reading; None ends the recording."""
        try:
            self._waiting.put_nowait(snapshot)
        except queue.Full:
            if snapshot is None:
                self._waiting.get_nowait()
                self._waiting.put_nowait(None)

    def _run(self) -> None:
        from gputop.answers.record import Recorder, failure

        recorder = None
        try:
            recorder = Recorder(self.path, self._host.interval)
            while (snapshot := self._waiting.get()) is not None:
                recorder.add(snapshot)
        except (OSError, ValueError) as error:
            last = None if recorder is None else recorder.last_at
            self._host.post_message(SessionTold(failure(self.path, error, last), failed=True))
        else:
            many = f"{recorder.readings:,} readings, {recorder.bytes / 1e6:.2f} MB"
            self._host.post_message(SessionTold(f"recorded {clean(self.path.name, 80)}: {many}"))
        finally:
            if recorder is not None:
                recorder.close()


class SessionController:
    """Records what the app shows, and moves through a recording; used by the event loop alone."""

    def __init__(self, host: NodeHost) -> None:
        self._host = host
        self._recording: _RecordThread | None = None
        self._noted: tuple[int, frozenset[int]] = (0, frozenset())
        """The width of the bar, and its cells in which something was noted."""
        self._told: tuple[object, int, tuple[SessionNote, ...]] = (None, -1, ())
        """A recording, one of its frames, and what was noted in it."""

    @property
    def replay(self) -> ReplayFeed | None:
        """The recording that is played; None where something else is shown."""
        feed: Any = self._host.feed
        # Its class reads files, which no other start needs.
        return feed if getattr(feed, "plays", False) else None

    # Recording.

    def record(self) -> None:
        """Begin to record into a new file of the current folder, or end that."""
        if self._recording is not None:
            self.end()
            return
        report = self._host.report
        if report is None or not (report.snapshot.is_live or report.snapshot.is_demo):
            self._host.say("only what is read now can be recorded", severity="warning")
            return
        host = report.snapshot.machine.host
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", (host.hostname or "") if host else "")[:40]
        parts = filter(None, ("gputop", name.strip("-."), time.strftime("%Y%m%d-%H%M%S")))
        self._recording = _RecordThread(Path.cwd() / f"{'-'.join(parts)}.gtrec", self._host)
        self._recording.take(report.snapshot)
        self._redraw()

    def take(self, snapshot: NodeSnapshot) -> None:
        """Keep a reading, where a recording runs."""
        if self._recording is not None:
            self._recording.take(snapshot)

    def end(self) -> None:
        """End the recording, if one runs; its thread says how much there is."""
        if self._recording is not None:
            self._recording.take(None)
            self._recording = None
            self._redraw()

    def told(self, message: SessionTold) -> None:
        """Say what the thread says; after a failure nothing is recorded any more."""
        if message.failed:
            self._recording = None
        self._host.say(message.text, severity="error" if message.failed else "information")
        self._redraw()

    # Playing.

    def move(self, what: str, by: int = 1) -> None:
        """What a key of the time bar does: pause, step, minute, speed or event."""
        feed = self.replay
        if feed is None:
            self._host.say(NO_FEED, severity="warning")
            return
        before = feed.frame
        if what == "pause":
            feed.pause()
        elif what == "step":
            feed.step(by)
        elif what == "minute":
            feed.jump(feed.session.times[before] + by * MINUTE_SECONDS)
        elif what == "speed":
            feed.faster(by)
        elif what == "event":
            self._to_event(feed, by)
        if feed.frame not in (before, before + 1):
            self._host.recent = Recent()
            if self._host.refresher is not None:
                self._host.refresher.begin_anew()
        elif self._host.refresher is not None:
            self._host.refresher.wake()
        self._redraw()

    def _to_event(self, feed: ReplayFeed, way: int) -> None:
        # The line of news tells it, as long as it is shown.
        if not feed.to_event(way) and not feed.trouble:
            where = "behind" if way > 0 else "before"
            self._host.say(f"nothing was noted {where} this")

    def _redraw(self) -> None:
        if self._host.view is not None:
            self._host.view.draw_bars()

    # The line.

    def line(self, width: int) -> Line:
        """The time bar, or that a recording runs; empty where neither is."""
        feed = self.replay
        if feed is not None:
            return self._bar(feed, width)
        if self._recording is None:
            return EMPTY
        since = time.strftime("%H:%M:%S", time.localtime(self._recording.since))
        return (
            (" ● recording ", "bad"),
            (f"since {since} to {clean(self._recording.path.name, max(width - 45, 8))}  ", ""),
            ("Ctrl+R", "key bold @record"),
            (" ends it", "muted"),
        )

    def event(self) -> tuple[Line, Line]:
        """What was noted in the frame that is shown, the worst first, and where that stands."""
        feed = self.replay
        if feed is None or feed.frame not in feed.noted:
            return EMPTY, EMPTY
        frame = feed.frame
        if self._told[:2] != (feed, frame):
            self._told = feed, frame, feed.notes()
        notes = sorted(self._told[2], key=lambda note: _harm(note).order)
        if not notes:
            return EMPTY, EMPTY
        sign, ink, word = _harm(notes[0]).shown
        told = "; ".join(clean(note.text, 200) for note in notes)
        lead = f" {sign} {word} " if notes[0].harm else f" {sign} "
        place = f"event {feed.noted.index(frame) + 1} of {len(feed.noted)} "
        keys = ("B", "key bold @replay('event', -1)"), ("N", "key bold @replay('event', 1)")
        end = ((place, "muted"), keys[0], (" before ", "muted"), keys[1], (" next ", "muted"))
        return ((lead, f"{ink} bold"), (told, ink if notes[0].harm else "")), end

    def _bar(self, feed: ReplayFeed, width: int) -> Line:
        if feed.trouble:
            return ((" ! ", "bad"), (clean(feed.trouble, 200), "bad"))
        times = feed.session.times
        first, last, here = times[0], times[-1], times[feed.frame]
        form = "%H:%M:%S" if abs(last - first) < DAY_SECONDS else "%m-%d %H:%M:%S"
        state = ("paused", "warn") if feed.paused else ("playing", "good")
        lead: Line = (
            (f" {state[0]:<7} ", state[1]),
            (f"{feed.speed:g}x ", ""),
            (f"{time.strftime(form, time.localtime(here))} ", "strong"),
        )
        end: Line = ((f" {time.strftime(form, time.localtime(last))} ", "muted"),)
        for hints in HINTS:
            keys = _keys(hints, feed.paused)
            room = width - width_of(lead) - width_of(end) - width_of(keys)
            if room >= LEAST_BAR:
                break
        return (*lead, *self._cells(feed, max(room, 1)), *end, *keys)

    def _cells(self, feed: ReplayFeed, count: int) -> Line:
        if self._noted[0] != count:
            found = (_cell(feed, frame, count) for frame in feed.noted)
            self._noted = count, frozenset(found)
        here, noted = _cell(feed, feed.frame, count), self._noted[1]
        spans: list[tuple[str, str]] = []
        for cell in range(count):
            sign, ink = ("━", "good") if cell < here else ("─", "muted")
            if cell in noted:
                sign, ink = "!", "warn"
            if cell == here:
                sign, ink = "●", "strong"
            if spans and spans[-1][1] == ink:
                spans[-1] = (spans[-1][0] + sign, ink)
            else:
                spans.append((sign, ink))
        return tuple(spans)


def _harm(note: SessionNote) -> Severity:
    """What a note tells of; a file may hold a word that this version does not know."""
    return next((harm for harm in Severity if harm == note.harm), Severity.NOTICE)


def _cell(feed: ReplayFeed, frame: int, count: int) -> int:
    """The cell of a frame, by its time."""
    times = feed.session.times
    length = times[-1] - times[0]
    share = (times[frame] - times[0]) / length if length > 0 else 0.0
    return min(max(int(share * count), 0), count - 1)


def _keys(hints: tuple[tuple[str, str, str], ...], paused: bool) -> Line:
    spans: list[tuple[str, str]] = []
    for key, label, action in hints:
        shown = "play " if paused and label == "pause" else label
        spans.append((f" {key}", f"key bold @{action}" if action else "key bold"))
        spans.append((f" {shown}", "muted"))
    return tuple(spans)
