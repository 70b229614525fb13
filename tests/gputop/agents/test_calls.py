"""Calls in threads: the time of each, what is cancelled, and how many there may be."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

import pytest

from gputop.agents import calls
from gputop.agents.calls import AT_ONCE, AgentCall, AgentCalls

LONG = 60.0
Work = Callable[[Callable[[], bool]], bytes]


class Said:
    """Calls, and what they said."""

    def __init__(self) -> None:
        self.lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.calls = AgentCalls(self.lines.put)
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)

    def waits(self, left: Callable[[], bool]) -> bytes:
        self.begun.acquire(blocking=False)
        self.begun.release()
        self.go.wait(LONG)
        return b"left" if left() else b"waited"

    def add(self, key: str, work: Work | None = None, seconds: float = LONG) -> bool:
        return self.calls.add(AgentCall(key, work or self.waits, seconds, f"late {key}".encode()))

    def next(self) -> bytes:
        return self.lines.get(timeout=LONG)


@pytest.fixture
def said() -> Iterator[Said]:
    made = Said()
    yield made
    made.go.set()


def test_one_that_waits_holds_up_no_other(said: Said) -> None:
    assert said.add("slow")
    for number in range(AT_ONCE * 4):
        assert said.add(f"fast {number}", lambda left: b"fast")
    assert {said.next() for _ in range(AT_ONCE * 4)} == {b"fast"}
    said.go.set()
    assert said.next() == b"waited"


def test_calls_that_never_end_are_answered_for_and_make_room(said: Said) -> None:
    for number in range(AT_ONCE):
        said.add(f"{number}", seconds=0.05)
    said.add("fast", lambda left: b"fast")
    lines = sorted(said.next() for _ in range(AT_ONCE + 1))
    assert lines == [b"fast", *(f"late {number}".encode() for number in range(AT_ONCE))]
    said.go.set()
    said.add("last", lambda left: b"last")
    assert said.next() == b"last"  # and nothing of those that were answered for


def test_what_waits_too_long_for_its_turn_is_answered_for(said: Said) -> None:
    for number in range(AT_ONCE):
        said.add(f"{number}")
    said.add("behind", lambda left: b"behind", seconds=0.05)
    assert said.next() == b"late behind"


def test_a_cancelled_call_is_told_so_and_says_nothing(said: Said) -> None:
    heard: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def work(left: Callable[[], bool]) -> bytes:
        heard.put(left())
        said.go.wait(LONG)
        heard.put(left())
        return b"never said"

    said.add("one", work)
    assert heard.get(timeout=LONG) is False
    said.calls.cancel("one")
    said.calls.cancel("one")
    said.calls.cancel("nobody")
    said.go.set()
    assert heard.get(timeout=LONG) is True
    said.calls.wait(LONG)
    said.add("two", lambda left: b"two")
    assert said.next() == b"two"


def test_one_that_is_cancelled_before_its_turn_is_not_begun(said: Said) -> None:
    for number in range(AT_ONCE):
        said.add(f"{number}")
    begun = threading.Event()

    def work(left: Callable[[], bool]) -> bytes:
        begun.set()
        return b"begun"

    said.add("behind", work)
    said.calls.cancel("behind")
    said.go.set()
    said.calls.wait(LONG)
    assert not begun.is_set()


def test_an_id_that_is_open_is_not_taken_twice(said: Said) -> None:
    assert said.add("one")
    assert not said.add("one")
    said.go.set()
    assert said.next() == b"waited"
    said.calls.wait(LONG)
    assert said.add("one")


def test_neither_calls_nor_threads_are_without_bound(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MOST_WAITING", 50)
    before = threading.active_count()
    taken = [said.add(f"{number}") for number in range(60)]
    assert taken == [True] * 50 + [False] * 10
    for number in range(50):
        said.calls.cancel(f"{number}")
    for number in range(40):
        said.add(f"again {number}")
        said.calls.cancel(f"again {number}")
    assert threading.active_count() - before <= calls._MOST_THREADS
    said.go.set()
    said.add("last", lambda left: b"last")
    assert said.next() == b"last"
