"""Calls of tools, each in a thread: one that waits for a driver holds up no other.

A call that does not answer in time is answered for, and one that is cancelled is not answered. A
thread cannot be ended, so what is left behind counts until it ends by itself. The threads are
daemons: where the client leaves, the process ends.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable
from threading import Condition, Thread

AT_ONCE = 4
"""Calls that run at a time; the others wait, and their time with them."""
_MOST_THREADS = 16
"""With those that were left behind."""
MOST_WAITING = 1000


Left = Callable[[], bool]
"""Whether nobody waits for a call any more."""


class AgentCall:
    """One call: what it works out, and what is said where that takes too long."""

    def __init__(
        self, key: Hashable, work: Callable[[Left], bytes], seconds: float, late: bytes
    ) -> None:
        self.key, self.work, self.late = key, work, late
        self.ends = time.monotonic() + seconds
        self.started = self.over = False


class AgentCalls:
    """The calls that are open. `say` takes each answer, from any thread."""

    def __init__(self, say: Callable[[bytes], None]) -> None:
        self._say = say
        self._open: dict[Hashable, AgentCall] = {}
        self._waiting: deque[AgentCall] = deque()
        self._threads = 0
        self._changed = Condition()
        Thread(target=self._watch, daemon=True).start()

    def add(self, call: AgentCall) -> bool:
        """Take a call; False where its key is taken, or too many wait."""
        with self._changed:
            if call.key in self._open or len(self._open) >= MOST_WAITING:
                return False
            self._open[call.key] = call
            self._waiting.append(call)
            self._start()
            self._changed.notify_all()
            return True

    def cancel(self, key: Hashable) -> None:
        """Say nothing of this call any more; one that waits is not begun."""
        with self._changed:
            if call := self._open.get(key):
                self._close(call)

    def wait(self, seconds: float) -> None:
        """Until all are answered, so long at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._open, seconds)

    def _start(self) -> None:
        running = sum(call.started for call in self._open.values())
        while self._waiting and running < AT_ONCE and self._threads < _MOST_THREADS:
            call = self._waiting.popleft()
            if self._open.get(call.key) is not call:
                continue
            call.started = True
            running += 1
            self._threads += 1
            Thread(target=self._run, args=(call,), daemon=True).start()

    def _run(self, call: AgentCall) -> None:
        answer = call.work(lambda: call.over)
        with self._changed:
            self._threads -= 1
            if self._close(call):
                self._say(answer)

    def _close(self, call: AgentCall) -> bool:
        """Whether it was open; the next one then runs."""
        was_open = self._open.get(call.key) is call
        if was_open:
            del self._open[call.key]
            call.over = True
        self._start()
        self._changed.notify_all()
        return was_open

    def _watch(self) -> None:
        """Answer for what takes too long."""
        with self._changed:
            while True:
                now = time.monotonic()
                for call in [call for call in self._open.values() if call.ends <= now]:
                    if self._close(call):
                        self._say(call.late)
                nearest = min((call.ends for call in self._open.values()), default=None)
                self._changed.wait(None if nearest is None else max(0.0, nearest - now))
