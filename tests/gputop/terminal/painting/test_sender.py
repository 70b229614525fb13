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
from collections.abc import Callable, Iterator

import pytest

from gputop.terminal.painting.pace import QUESTION
from gputop.terminal.painting.sender import Sender
from tests.support.painting.judge import Shown

COLUMNS, ROWS = 60, 20
LONGEST_SECONDS = 60.0


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
