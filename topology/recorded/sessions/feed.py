"""A recording as a feed of the app: it plays, stands still, goes on by a step, jumps."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right

from ...model.snapshot import NodeSnapshot
from ...sources.feed import Past
from .changes import SessionNote
from .frames import RecordingError
from .kept import snapshot_of
from .session_file import SessionFile

SPEEDS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
EARLIER_SECONDS, EARLIER_MOST = 300.0, 150
"""How far back the charts look, and how many readings they get of that time."""
LEAST_GAP_SECONDS = 0.1
"""Between two pictures, however fast it plays: readings between them are passed over."""
IDLE_SECONDS = 5.0
"""A gap in the recording is played for so long at most."""


class ReplayFeed:
    """Plays a recording; every method may be called from any thread."""

    plays = True
    """What tells it from other feeds, without this module being imported."""

    def __init__(
        self, session: SessionFile, *, at: float | None = None, speed: float = 1.0
    ) -> None:
        self.session = session
        self._lock = threading.RLock()
        self._news = threading.Event()
        self._closed = False
        self.noted = session.noted
        self.frame = 0 if at is None else session.frame_at(at)
        self.paused = at is not None
        """Whether it stands still; it does where somebody asked for a moment."""
        self.speed = speed
        self._shown = -1
        self._snapshot: NodeSnapshot | None = None
        self._since = time.monotonic()
        """When the current frame began to be shown."""
        self.trouble = ""
        """Why it does not go on; "" where nothing is wrong."""

    def snapshot(self) -> NodeSnapshot:
        """The node at the frame that is due. Raises RecordingError for the first one alone."""
        with self._lock:
            self._news.clear()
            self._go_on()
            if self._snapshot is None or self._shown != self.frame:
                try:
                    self._snapshot = self.session.snapshot(self.frame)
                except (RecordingError, OSError) as error:
                    self.trouble, self.paused = str(error), True
                    if self._snapshot is None:
                        raise
                self._shown = self.frame
            return self._snapshot

    def _go_on(self) -> None:
        """Move to the frame that is due by now."""
        times, last = self.session.times, len(self.session) - 1
        now = time.monotonic()
        while not self.paused and self.frame < last:
            lasts = self._lasts(self.frame)
            if now - self._since < lasts:
                return
            self._since += lasts
            self.frame += 1
            if now - self._since > 2 * LEAST_GAP_SECONDS and times[self.frame] < times[last]:
                self._skip(now)
        if self.frame >= last:
            self.paused = True

    def _skip(self, now: float) -> None:
        """Pass over many frames at once, up to the next gap or clock that jumps."""
        times = self.session.times
        start = times[self.frame]
        due = start + (now - self._since) * self.speed
        frame = bisect_right(times, due, self.frame) - 1
        gap = any(
            not 0 <= times[at + 1] - times[at] <= IDLE_SECONDS for at in range(self.frame, frame)
        )
        if frame > self.frame and not gap:
            self._since += (times[frame] - start) / self.speed
            self.frame = frame

    def _lasts(self, frame: int) -> float:
        """Seconds for which a frame is shown."""
        gap = self.session.times[frame + 1] - self.session.times[frame]
        return min(max(gap, 0.0), IDLE_SECONDS) / self.speed

    def wait(self, timeout: float) -> bool:
        """Block until the next frame is due or somebody moved, or the time is over."""
        with self._lock:
            due = None
            if not self.paused and self.frame < len(self.session) - 1:
                left = self._lasts(self.frame) - (time.monotonic() - self._since)
                due = max(left, LEAST_GAP_SECONDS)
        if due is not None and due <= timeout:
            self._news.wait(due)
            return True
        return self._news.wait(timeout)

    def clock(self) -> float:
        """The time of the recording, by which its counters are compared."""
        return self.session.times[self.frame]

    def opened(self) -> bool:
        """Always: what there is, is there at once."""
        return True

    def close(self) -> None:
        """Wake every waiting thread."""
        self._closed = True
        self._news.set()

    def earlier(self) -> Past:
        """The minutes before the current frame, for charts."""
        with self._lock:
            times, here = self.session.times, self.frame
            first = max(bisect_left(times, times[here] - EARLIER_SECONDS, 0, here), here - 3600)
            every = max((here - first) // EARLIER_MOST, 1)
            found = []
            try:
                for reading in self.session.readings(first, here - 1):
                    if (reading.frame - first) % every == 0:
                        bare = {"readings": {"gpus": reading.tree["readings"]["gpus"]}}
                        known = snapshot_of(bare, reading.at)
                        found.append((reading.at, known.readings.gpus))
            except (RecordingError, KeyError, TypeError, ValueError) as error:
                self.trouble = str(error)
            return tuple(found)

    # What the keys of the time bar do.

    def pause(self) -> None:
        """Stand still, or go on; at the end begin anew."""
        with self._lock:
            if self.paused and self.frame >= len(self.session) - 1:
                self.frame = 0
            self.paused = not self.paused
            self._moved()

    def step(self, frames: int) -> None:
        """Stand still some frames later or, below 0, earlier."""
        with self._lock:
            self.paused = True
            self.frame = min(max(self.frame + frames, 0), len(self.session) - 1)
            self._moved()

    def jump(self, at: float) -> None:
        """Go to a time."""
        with self._lock:
            self.frame = self.session.frame_at(at)
            self._moved()

    def faster(self, by: int) -> None:
        """The next speed, or below 0 the one before."""
        with self._lock:
            place = min(range(len(SPEEDS)), key=lambda at: abs(SPEEDS[at] - self.speed))
            self.speed = SPEEDS[min(max(place + by, 0), len(SPEEDS) - 1)]
            self._moved()

    def to_event(self, way: int) -> tuple[SessionNote, ...]:
        """Stand still at the next event, or below 0 at the one before; () where there is none."""
        with self._lock:
            if way > 0:
                place = bisect_right(self.noted, self.frame)
            else:
                place = bisect_left(self.noted, self.frame) - 1
            if not 0 <= place < len(self.noted):
                return ()
            self.frame, self.paused = self.noted[place], True
            self._moved()
            return self.notes()

    def notes(self) -> tuple[SessionNote, ...]:
        """What was noted in the current frame."""
        with self._lock:
            try:
                return self.session.notes_of(self.frame)
            except (RecordingError, OSError) as error:
                self.trouble = str(error)
                return ()

    def _moved(self) -> None:
        self.trouble = ""
        self._since = time.monotonic()
        self._news.set()
