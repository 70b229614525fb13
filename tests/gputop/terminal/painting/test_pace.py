"""How much may be on its way: lines of several speeds, played without a clock."""

from __future__ import annotations

from collections import deque

import pytest

from gputop.terminal.painting.pace import FEWEST_BYTES, MOST_BYTES, QUESTION, Pace


class Played:
    """A line of so many bytes a second, and a way of so many seconds there and back."""

    def __init__(self, speed: float, way_seconds: float) -> None:
        self.pace = Pace()
        self.now = 0.0
        self._speed, self._way_seconds = speed, way_seconds
        self._free = 0.0
        self._answers: deque[float] = deque()

    def send(self, most: int) -> int:
        """Send what may be sent now, at most so much; gives what it was."""
        allowed = self.pace.allowance(self.now)
        count = most if allowed is None else min(most, allowed)
        asks = self.pace.asks(self.now, count)
        count += len(QUESTION) * asks
        self.pace.send(count)
        self._free = max(self._free, self.now) + count / self._speed
        if asks:
            self._answers.append(self._free + self._way_seconds)
        return count

    def pass_time(self, seconds: float) -> None:
        """Let answers come."""
        self.now += seconds
        while self._answers and self._answers[0] <= self.now:
            assert self.pace.answer(self._answers.popleft())

    @property
    def behind_seconds(self) -> float:
        """When the last byte sent will have arrived."""
        return max(self._free - self.now, 0.0)


def _begun(speed: float, way_seconds: float) -> Played:
    line = Played(speed, way_seconds)
    line.send(150)
    line.pass_time(150 / speed + way_seconds + 0.01)
    assert line.pace.answers
    return line


@pytest.mark.parametrize("way_seconds", [0.0, 0.05, 0.2])
def test_a_slow_line_is_never_far_behind(way_seconds: float) -> None:
    line = _begun(1000, way_seconds)
    late = []
    for _ in range(3000):
        line.send(5000)
        late.append(line.behind_seconds)
        line.pass_time(0.01)
    assert max(late) <= 4.2, "when it is not known yet"
    assert max(late[500:]) <= 0.65


def test_a_slow_line_is_kept_busy() -> None:
    line = _begun(1000, 0.05)
    sent = 0
    for _ in range(2000):
        sent += line.send(5000)
        line.pass_time(0.01)
    assert sent > 0.8 * 20 * 1000


def test_a_line_that_answers_late_is_slow_from_the_beginning() -> None:
    line = Played(1000, 0.0)
    line._free = 9.0  # a picture that somebody else sent
    line.send(10)
    line.pass_time(9.1)
    assert line.pace.allowance(line.now) == 128


@pytest.mark.parametrize("way_seconds", [0.001, 0.03, 0.15, 0.3])
def test_a_fast_line_takes_a_screen_after_a_few_ways(way_seconds: float) -> None:
    line = _begun(10e6, way_seconds)
    left, began = 15_000, line.now
    while left > 0:
        left -= line.send(left)
        line.pass_time(0.002)
    assert line.now - began < 0.1 + 4 * way_seconds


def test_a_line_that_becomes_slow_is_noticed() -> None:
    line = _begun(10e6, 0.01)
    for _ in range(50):
        line.send(5000)
        line.pass_time(0.05)
    assert (line.pace.allowance(line.now) or 0) > 0.9 * MOST_BYTES
    line._speed = 1000
    late = []
    for _ in range(6000):
        line.send(400)
        line.pass_time(0.01)
        late.append(line.behind_seconds)
    assert max(late[-2000:]) <= 0.7


def test_a_terminal_that_never_answers_gets_everything() -> None:
    pace = Pace()
    assert pace.allowance(0.0) is None
    assert pace.asks(0.0, 100)
    pace.send(100_000)
    assert not pace.asks(5.0, 100), "one question is enough"
    assert pace.allowance(100.0) is None


def test_an_answer_that_is_lost_delays_and_no_more() -> None:
    line = _begun(10e6, 0.01)
    line.send(10_000)
    line._answers.clear()
    line.pass_time(1.0)
    assert line.pace.allowance(line.now) == 0
    assert 0 < line.pace.wait_seconds(line.now) < 3
    line.pass_time(line.pace.wait_seconds(line.now) + 0.01)
    assert line.pace.allowance(line.now) == FEWEST_BYTES // 2
    line.send(10_000)
    line.pass_time(0.1)
    assert line.pace._window > FEWEST_BYTES


def test_an_answer_to_nothing_is_not_ours() -> None:
    assert not Pace().answer(0.0)
