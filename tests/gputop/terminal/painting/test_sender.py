"""The thread that writes: never ahead of the terminal, never in the way of the app."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import time
import tty
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from gputop.terminal.painting.sender import FEWEST_BYTES, MOST_BYTES, QUESTION, Pace, Sender
from tests.support.painting.judge import Shown

COLUMNS, ROWS = 60, 20
LONGEST_SECONDS = 60.0


# How much may be on its way: lines of several speeds, played without a clock.
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


def test_answers_that_are_lost_again_and_again_keep_no_screen_still() -> None:
    line = _begun(10e6, 0.01)
    silent = longest = 0.0
    while line.now < 120:
        sent = line.send(10_000)
        line._answers.clear()
        silent = 0.0 if sent else silent + 0.1
        longest = max(longest, silent)
        line.pass_time(0.1)
    assert 0 < longest < 6.5


def test_an_answer_to_nothing_is_not_ours() -> None:
    assert not Pace().answer(0.0)


def frame(letter: str) -> str:
    """A picture that is made of one letter, as Textual writes it."""
    return "\n".join(
        f"\x1b[{row};1H\x1b[38;2;1;2;{row}m{letter * COLUMNS}\x1b[0m" for row in range(1, ROWS + 1)
    )


class End:
    """The other end of a pty: shows what it reads, and answers when it is told to."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        tty.setraw(slave)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.gave_up: list[str] = []
        self.shown = Shown(COLUMNS, ROWS)
        self.written = ""
        name = os.ttyname(slave)
        terminal = os.open(name, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        self._slave = slave
        self.sender = Sender(terminal, str.encode, self.gave_up.append)

    def read(self, most: int = 1 << 16, seconds: float = 0.02) -> str:
        """Take and show what is there."""
        if not select.select([self._master], [], [], seconds)[0]:
            return ""
        data = os.read(self._master, most).decode("ascii", "replace")
        self.shown.feed(data)
        self.written += data
        return data

    def read_until(self, reached: Callable[[], bool], answers: bool = False) -> None:
        """Read on until that is so."""
        end = time.monotonic() + LONGEST_SECONDS
        while not reached():
            assert time.monotonic() < end
            data = self.read()
            for _ in range(data.count(QUESTION) * answers):
                self.sender.answer()

    def shows(self, letter: str) -> bool:
        """Whether the whole picture is made of that letter."""
        return set("".join(self.shown.display)) == {letter}

    def close(self) -> None:
        """Take the terminal away."""
        os.close(self._master)
        os.close(self._slave)


@pytest.fixture
def end() -> Iterator[End]:
    """A sender and the end of its line."""
    made = End()
    yield made
    made.sender.stop()
    made.close()


def test_what_is_no_picture_comes_first_and_the_picture_follows(end: End) -> None:
    end.sender.write("\x1b[?1049h\x1b[?25l")
    end.sender.write(frame("a"))
    end.read_until(lambda: end.shows("a"))
    assert end.written.startswith("\x1b[?1049h\x1b[?25l")
    assert len(end.written) < len(frame("a")) + 60


def test_of_many_frames_that_nobody_reads_the_newest_is_shown(end: End) -> None:
    for number in range(400):
        end.sender.write(frame("ab"[number % 2]))
    end.sender.write(frame("z"))
    end.read_until(lambda: end.shows("z"))
    assert len(end.written) < 100_000, "of more than half a million"


def test_a_terminal_that_answers_is_never_sent_more_than_it_took(end: End) -> None:
    end.sender.begin()
    end.read_until(lambda: QUESTION in end.written)
    assert end.sender.answer()
    # A window of bytes goes out until it answers again, whatever is written.
    for letter in "abcdefghijk":
        end.sender.write(frame(letter))
        while end.read(seconds=0.1):
            pass
    assert not end.shows("k")
    assert 3000 < len(end.written) < 5000
    while end.sender.answer():
        end.read(seconds=0.05)
    end.read_until(lambda: end.shows("k"), answers=True)


def test_frames_are_marked_where_the_terminal_knows_marks(end: End) -> None:
    end.sender.write(f"\x1b[?2026h{frame('a')}\x1b[?2026l")
    end.read_until(lambda: end.shows("a") and end.written.endswith("l"))
    assert end.written.count("\x1b[?2026h") == end.written.count("\x1b[?2026l") == 1
    end.sender.write("\x1b[1;1Hb\x1b[1;1H")
    end.read_until(lambda: end.shown.display[0].startswith("b"))
    assert end.written.count("\x1b[?2026h") == 1, "a small one needs no marks"


def test_another_size_another_screen_and_a_wish_bring_the_whole_picture(end: End) -> None:
    end.sender.write(frame("a"))
    end.read_until(lambda: end.shows("a"))
    for spoil in (
        end.sender.repaint,
        lambda: end.sender.resize(COLUMNS, ROWS),
        lambda: end.sender.write("\x1b[?1049h"),
    ):
        end.shown.reset()
        assert not end.shows("a")
        spoil()
        end.read_until(lambda: end.shows("a"))
        assert end.gave_up == []


def test_what_is_not_understood_goes_to_the_other_driver_with_all_that_follows(end: End) -> None:
    end.sender.write(frame("a"))
    end.read_until(lambda: end.shows("a"))
    strange = "\x1b[1;1H\x1b[Kx"
    end.sender.write(f"{strange}")
    end.sender.write("more")
    end.read_until(lambda: "".join(end.gave_up) == f"{strange}more")
    assert end.sender.gave_up
    end.sender.write("and more")
    assert end.gave_up[-1] == "and more"
    end.sender.repaint()


def test_the_end_waits_for_no_terminal_that_stands_still(end: End) -> None:
    for number in range(100):
        end.sender.write(frame("ab"[number % 2]))
    end.sender.rest()
    end.sender.write("\x1b[?1049l")
    end.sender.stop()
    end.sender.write("to nobody")
    while end.read():
        pass
    assert end.written.endswith("\x1b[?1049l")
    assert len(end.written) < 100_000, "of more than 140 KB"
    end.sender = Sender(os.open(os.devnull, os.O_WRONLY), str.encode, end.gave_up.append)


def test_the_end_writes_what_is_no_picture_and_no_more_of_the_picture(end: End) -> None:
    end.sender.write(frame("a"))
    end.read_until(lambda: end.shows("a"))
    end.sender.rest()
    end.sender.write(frame("b") + "\x1b[?1049l\x1b[?25h")
    end.sender.stop()
    while end.read():
        pass
    assert end.written.endswith("\x1b[?1049l\x1b[?25h")
    assert "b" not in end.written
    end.sender = Sender(os.open(os.devnull, os.O_WRONLY), str.encode, end.gave_up.append)


def test_what_stands_there_already_is_not_drawn_again(end: End) -> None:
    end.sender.stop()
    end.shown.feed(frame("a"))
    terminal = os.open(os.ttyname(end._slave), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    shown = f"\x1b[H\x1b[44m\x1b[K\x1b[m{frame('a')}"
    end.sender = Sender(terminal, str.encode, end.gave_up.append, shown)
    end.sender.write(frame("a") + "\x1b[3;5Hb\x1b[1;1H")
    end.read_until(lambda: "b" in end.shown.display[2])
    assert len(end.written) < 40
    assert "".join(end.shown.display).count("a") == COLUMNS * ROWS - 1
