"""How far the terminal may be behind: bytes on their way, and questions that it answers in order.

The buffers of a kernel, of ssh and of a network take far more than they deliver: 19 KiB fit into a
pty of Linux before it says that it is full. A terminal answers a question where it stands in the
stream, so that an answer proves that all before it has arrived.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

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
LONGEST_PATIENCE_SECONDS = 60.0


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
