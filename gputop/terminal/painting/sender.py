"""A thread that writes to the terminal, and always draws the newest picture."""

from __future__ import annotations

import logging
import os
import re
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import NamedTuple

from gputop.terminal.painting.holding import holding
from gputop.terminal.painting.painter import Painter
from gputop.terminal.painting.pens import PictureError
from gputop.terminal.painting.picture import Picture
from gputop.terminal.size import bounded

LAST_SECONDS = 2.0
"""How long a terminal that takes nothing may delay the end."""
LAST_ANSWER_SECONDS = 0.3
"""How long the end waits for an answer that the shell would take for keys."""
SMALL_BYTES = 256
"""What goes to the terminal in one piece, and needs no marks around it."""
_ERASED = re.compile(r"\x1b\[[012]?[JK]")
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL
log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())

# How far the terminal may be behind: bytes on their way, and questions that it answers in order.
#
# The buffers of a kernel, of ssh and of a network take far more than they deliver: 19 KiB fit into
# a pty of Linux before it says that it is full. A terminal answers a question where it stands in
# the stream, so that an answer proves that all before it has arrived.
QUESTION = "\x1b[6n"
"""Asks for the place of the cursor, which every terminal since the VT100 answers."""
BEHIND_SECONDS = 0.2
"""How much later than on an idle line the last byte may arrive."""
SLOW_SECONDS = 1.0
"""A line whose first answer takes so long is slow, whatever else it may be."""
OVERDUE_SECONDS = 0.4
"""An answer that is so much later stops everything until it comes."""
FEWEST_BYTES, FIRST_BYTES, MOST_BYTES = 256, 4096, 1 << 16
FAST_BYTES = 1 << 14
"""A line that may have so much on its way is sent pictures whole."""
FEWEST_STEP_BYTES, MOST_STEP_BYTES = 128, 1024
SMALLEST_BYTES = 64
"""Less is not worth a write of its own."""
FORGOTTEN_SECONDS = 15.0
PATIENCE_SECONDS = 3.0
LONGEST_PATIENCE_SECONDS = 6.0
"""Answers that get lost one after the other, in what is pasted, must not keep a screen still."""


class _Asked(NamedTuple):
    when: float
    sent: int
    """Bytes sent until the answer is due."""
    arrived: int
    """Bytes known to have arrived when it was asked."""
    alone: bool
    """Whether nothing else was on its way."""


class Pace:
    """Says how many bytes may be sent now. Times are seconds of one clock.

    A terminal that never answered is sent everything at once, as if nothing were known.
    """

    def __init__(self) -> None:
        self.answers = False
        """Whether the terminal has ever answered."""
        self._sent = self._arrived = 0
        self._asked: deque[_Asked] = deque()
        self._ever_asked = False
        self._window = MOST_BYTES
        self._ways: list[float] = []
        """The shortest way there and back on an idle line, of this while and of the last one."""
        self._while_began = self._answered = 0.0
        self._patience = PATIENCE_SECONDS

    @property
    def waiting(self) -> bool:
        """Whether an answer is on its way."""
        return bool(self._asked)

    def allowance(self, now: float) -> int | None:
        """Bytes that may be sent; None for as many as there are."""
        if not self.answers:
            return None
        if self._asked and now - self._last_news() > self._patience:
            # Lost, or the line stands still: a little goes out, and less and less often.
            self._asked.clear()
            self._arrived = self._sent
            self._window = FEWEST_BYTES
            self._patience = min(2 * self._patience, LONGEST_PATIENCE_SECONDS)
        if self._asked and now - self._asked[0].when > min(self._ways) + OVERDUE_SECONDS:
            return 0
        left = self._window - (self._sent - self._arrived)
        if self._window < FAST_BYTES:
            left = min(left, self._step)
        return left if left >= SMALLEST_BYTES else 0

    def wait_seconds(self, now: float) -> float:
        """When to look again although no answer came."""
        return max(self._last_news() + self._patience - now, 0.1) if self._asked else 0.1

    def asks(self, now: float, more: int) -> bool:
        """Whether a question has to follow the bytes that go out now, `more` of them."""
        if not self.answers and self._ever_asked:
            return False
        last = self._asked[-1].sent if self._asked else self._arrived
        if self.answers and self._sent + more - last < self._step:
            return False
        self._ever_asked = True
        alone = self._sent - self._arrived < FEWEST_STEP_BYTES
        self._asked.append(_Asked(now, self._sent + more, self._arrived, alone))
        return True

    def send(self, count: int) -> None:
        """Count bytes that were sent."""
        self._sent += count

    def answer(self, now: float) -> bool:
        """Take an answer; False where nothing was asked."""
        if not self._asked:
            return False
        asked = self._asked.popleft()
        self._answered, self._arrived = now, asked.sent
        self._patience = PATIENCE_SECONDS
        way, arrived = now - asked.when, asked.sent - asked.arrived
        if asked.alone or not self._ways:
            self._note_way(way, now)
        shortest = min(self._ways)
        at_this_speed = int(arrived / max(way, 1e-3) * (shortest + BEHIND_SECONDS))
        if not self.answers:
            self._window = FIRST_BYTES if way < SLOW_SECONDS else at_this_speed
        elif way > shortest + BEHIND_SECONDS:
            self._window = at_this_speed
        elif way < shortest + BEHIND_SECONDS / 2:
            self._window = max(self._window, at_this_speed, 2 * arrived)
        self._window = min(max(self._window, FEWEST_BYTES), MOST_BYTES)
        self.answers = True
        return True

    @property
    def _step(self) -> int:
        """Bytes between two questions."""
        return min(max(FEWEST_STEP_BYTES, self._window // 4), MOST_STEP_BYTES)

    def _last_news(self) -> float:
        return max(self._asked[0].when, self._answered)

    def _note_way(self, seconds: float, now: float) -> None:
        if not self._ways or now - self._while_began > FORGOTTEN_SECONDS:
            self._ways = [seconds, *self._ways[:1]]
            self._while_began = now
        self._ways[0] = min(self._ways[0], seconds)


class _Note(Enum):
    BEGIN = auto()
    ANSWERED = auto()
    REPAINT = auto()
    QUIET = auto()
    STOP = auto()


class Sender:
    """Takes text from Textual at any time, and never lets it wait.

    `terminal` is a descriptor of its own that does not block; `encoded` makes bytes for it.
    `give_up` gets what could not be understood, and everything from there on. `shown` is the text
    that drew what the terminal shows already.
    """

    def __init__(
        self,
        terminal: int,
        encoded: Callable[[str], bytes],
        give_up: Callable[[str], None],
        shown: str = "",
    ) -> None:
        self._terminal, self._encoded, self._give_up = terminal, encoded, give_up
        self._picture = Picture()
        self._painter = Painter(self._picture)
        self._pace = Pace()
        self._given: deque[str | _Note] = deque()
        self._reading = self._aside = ""
        self._leaving = b""
        self._told_size: tuple[int, int] | None = None
        self._asking = self._quiet = self._stopping = self._closed = False
        self.gave_up = False
        """Whether Textual's own driver draws."""
        self._handing_over = threading.RLock()
        self._answered = threading.Event()
        self._woken, self._wake = os.pipe()
        for descriptor in (self._woken, self._wake):
            os.set_blocking(descriptor, False)
        if shown:
            self._assume(shown)
        self._thread = threading.Thread(target=self._run, name="painting", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Take what Textual writes."""
        with self._handing_over:
            if self.gave_up:
                self._give_up(text)
            else:
                self._put(text)

    def begin(self) -> None:
        """Ask the terminal, from here on: somebody reads what it answers, and it echoes nothing."""
        self._put(_Note.BEGIN)

    def answer(self) -> bool:
        """Take the place of the cursor, which the terminal told; False where nobody asked."""
        if not self._pace.waiting:
            return False
        self._put(_Note.ANSWERED)
        return True

    def resize(self, columns: int, rows: int) -> None:
        """Believe what the terminal itself says of its size."""
        self._told_size = (columns, rows)
        self._put(_Note.REPAINT)

    def ask_size(self) -> None:
        """Believe what the window says from here on."""
        self._told_size = None

    def window(self) -> tuple[int, int] | None:
        """The size that the window has, as far as is drawn; None where it says none."""
        with suppress(OSError):
            size = bounded(*os.get_terminal_size(self._terminal))
            return size if all(size) else None
        return None

    def repaint(self) -> None:
        """Draw everything again."""
        self._put(_Note.REPAINT)

    def rest(self) -> None:
        """Draw and ask nothing more, and wait a little for the answer to the last question."""
        self._put(_Note.QUIET)
        if self._pace.answers:
            self._answered.wait(LAST_ANSWER_SECONDS)

    def stop(self) -> None:
        """Send what is no picture, and end."""
        self._put(_Note.STOP)
        self._thread.join(LAST_SECONDS + 1)
        self._closed = True
        for descriptor in (self._terminal, self._woken, self._wake):
            os.close(descriptor)

    def _put(self, given: str | _Note) -> None:
        if not self._closed:
            self._given.append(given)
            # Where the pipe is full, the thread wakes anyway.
            with suppress(OSError):
                os.write(self._wake, b"\0")

    def _run(self) -> None:
        try:
            end = None
            while self._turn(time.monotonic()):
                if self._stopping:
                    end = end or time.monotonic() + LAST_SECONDS
                    if time.monotonic() > end or not (self._aside or self._leaving):
                        break
        except OSError:
            return  # the terminal is gone, which `hangup` sees too
        except Exception:  # the app border: what we cannot draw, Textual can
            log.exception("Textual's own driver draws from here")
            self._hand_over()
        finally:
            self._answered.set()

    def _turn(self, now: float) -> bool:
        """Wait for something to do, and do it; False where there is nothing left to do."""
        if not self._leaving:
            self._leaving = self._encoded(self._next(now))
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        poll.register(self._terminal, select.POLLOUT if self._leaving else 0)
        held = not (self._leaving or self._quiet) and self._painter.pending()
        found = dict(poll.poll(1000 * self._pace.wait_seconds(now) if held else None))
        if found.get(self._terminal, 0) & _GONE:
            return False
        if self._leaving and self._terminal in found:
            self._write_some()
        if self._woken in found:
            with suppress(BlockingIOError):
                os.read(self._woken, 4096)
            self._take()
        return True

    def _write_some(self) -> None:
        with suppress(BlockingIOError), holding.turn:
            self._leaving = self._leaving[os.write(self._terminal, self._leaving) :]

    def _take(self) -> None:
        """Do what is asked, in the order in which it came."""
        while self._given:
            given = self._given.popleft()
            if isinstance(given, str):
                self._reading = given
                self._aside += self._picture.read(given)
                self._reading = ""
                if self._picture.emptied:
                    self._picture.emptied = False
                    self._painter.forget()
            elif given is _Note.BEGIN:
                self._asking = True
            elif given is _Note.ANSWERED:
                self._pace.answer(time.monotonic())
            elif given is _Note.REPAINT:
                self._painter.forget()
            elif given is _Note.QUIET:
                self._quiet = True
            else:
                self._quiet = self._stopping = True
        if self._quiet and not self._pace.waiting:
            self._answered.set()

    def _next(self, now: float) -> str:
        """What to send now: first what is no picture, then as much of it as the line takes."""
        text, self._aside = self._aside, ""
        if self._quiet:
            text = self._painter.at_rest() + text
        else:
            if self._painter.pending():
                text += self._painted(self._pace.allowance(now))
            if self._asking and self._pace.asks(now, len(text)):
                text += QUESTION
        self._pace.send(len(text.encode("utf-8", "replace")))
        return text

    def _assume(self, shown: str) -> None:
        with suppress(PictureError, OSError):
            # Not every terminal erases with the colour at hand: those cells are not known.
            self._picture.read(_ERASED.sub("", shown))
            self._painter.fit(*self._size())
            self._painter.assume()

    def _size(self) -> tuple[int, int]:
        return self._told_size or bounded(*os.get_terminal_size(self._terminal))

    def _painted(self, most: int | None) -> str:
        if most == 0:
            return ""
        self._painter.fit(*self._size())
        text, whole = self._painter.paint(most)
        marked = whole and self._picture.synchronized and len(text) > SMALL_BYTES
        return f"{_BEGIN}{text}{_END}" if marked else text

    def _hand_over(self) -> None:
        """Let Textual's own driver write what was not understood, and all that follows."""
        end = time.monotonic() + LAST_SECONDS
        self._leaving += self._encoded(self._aside + self._painter.at_rest())
        with suppress(OSError):
            while self._leaving and time.monotonic() < end:
                select.select([], [self._terminal], [], 0.1)
                self._write_some()
        with self._handing_over:
            self.gave_up = True
            rest = [given for given in self._given if isinstance(given, str)]
            self._give_up("".join([self._reading, *rest]))
