"""A soak: the app in a terminal of its own, its screens and dialogs in turn, for half an hour.

Values change all the while, as a demo's do once a second. What may grow is memory, threads, open
files and children; a table shows them once a minute.
"""

from __future__ import annotations

import itertools
import random
import re
import time
from contextlib import suppress
from dataclasses import dataclass

import psutil

from gputop.widgets.palette import PLACEHOLDER
from tests.support.terminal import Terminal

from .typed import ENDS, sequence

SETTLED_MINUTES = 2.0
"""From here on memory must not grow: every screen and dialog was open by then, in each size."""
MOST_GROWTH_BYTES = 5 * 10**6

_ESCAPE, _DOWN, _PAGE_DOWN, _PALETTE = "\x1b", "\x1b[B", "\x1b[6~", "\x10"
_DIALOGS = (
    ("w", _PAGE_DOWN, _ESCAPE),
    ("?", _PAGE_DOWN, _ESCAPE),
    ("t", _DOWN, _ESCAPE),
    (_PALETTE, "map", _ESCAPE),
)
_OWN_KEYS = {
    "2": (" ", _DOWN, "z", "z"),
    "4": ("m", "\t", "m"),
    "5": ("v", "u", "/", "P2P\r", _ESCAPE),
}
"""What else is pressed on some screens: marks, views, a search. Nothing is measured."""
_OPENS_PALETTE = (_PALETTE, "/")
_PALETTE_SIGN = PLACEHOLDER[1:]
"""The cursor stands on the first letter."""
_PALETTE_SECONDS = 5.0
_PALETTE_TIMES = 6
_SIZES = ((80, 24), (200, 60), (160, 50))
_SCREENS = 8
_SIZE_TOLD = re.compile(rb"\x1b\[48;")
"""What tells of another size than the terminal has: the app would draw for that one."""
_MEASURING = b"apr\r"
_ODD_SIZES = 0.2
_ALL_ROUNDS = _SCREENS * len(_SIZES)
"""Rounds until every screen was shown in every size; a busy machine may take longer for them."""
_PAUSE_SECONDS = 0.15
"""Between two keys, counted from the end of what the first one made the app write."""
_ANSWER_SECONDS = 1.0
"""Most that is waited for the app to write something; not every key changes the screen."""
_KEPT_BYTES = 20_000
"""Of what the app wrote, so that its last words are there where it ends."""


@dataclass(frozen=True)
class Sample:
    """What the app holds at one moment."""

    minutes: float
    memory_bytes: int
    threads: int
    files: int
    children: int
    cpu_percent: float

    def __str__(self) -> str:
        return (
            f"{self.minutes:5.1f} min  {self.memory_bytes / 1e6:7.1f} MB  {self.threads:3} threads"
            f"  {self.files:3} files  {self.children} children  {self.cpu_percent:5.1f} % of a core"
        )


def soak(minutes: float, demo: str, seed: int) -> int:
    """Use the app that long; 1 where its memory grew by more than the limit after settling."""
    settled: Sample | None = None
    made = random.Random(seed)
    with Terminal(["--demo", demo], environment={"GPUTOP_DEBUG": "1"}) as terminal:
        terminal.wait_for("Node")
        process = psutil.Process(terminal.process.pid)
        process.cpu_percent()  # the first answer is always 0
        started, printed = time.monotonic(), 0
        for pressed in itertools.count():
            if not _round(terminal, pressed, made):
                print(f"the app ended with {terminal.process.returncode} in round {pressed}")
                print(terminal.text()[-2000:])
                return 1
            passed = (time.monotonic() - started) / 60
            if passed >= printed + 1 or passed >= minutes:
                sample = _sample(process, passed)
                print(sample, flush=True)
                printed = int(passed)
                if settled is None and passed >= SETTLED_MINUTES and pressed >= _ALL_ROUNDS:
                    settled = sample
            if passed >= minutes:
                break
        terminal.send("q")
        terminal.wait_end()
        if terminal.process.returncode:
            print(f"the app ended with {terminal.process.returncode}")
            return 1
    if settled is None:
        print(f"nothing is judged before {SETTLED_MINUTES:.0f} minutes and {_ALL_ROUNDS} rounds")
        return 0
    growth = sample.memory_bytes - settled.memory_bytes
    print(f"{pressed + 1} rounds; memory since {settled.minutes:.1f} min: {growth / 1e6:+.1f} MB")
    return 1 if growth > MOST_GROWTH_BYTES else 0


def _round(terminal: Terminal, number: int, made: random.Random) -> bool:
    """One screen: its keys, random bytes and pastes, every dialog over it, and another size.

    False where the app has ended.
    """
    terminal.written = terminal.written[-_KEPT_BYTES:]
    screen = str(number % _SCREENS + 1)
    _press(terminal, screen, _DOWN, *_OWN_KEYS.get(screen, ()))
    for dialog in _DIALOGS:
        _press(terminal, *dialog)
        if dialog[0] == made.choice(_DIALOGS)[0]:
            _type(terminal, made)
    if number % _SCREENS == _SCREENS - 1:
        terminal.resize(*_SIZES[number // _SCREENS % len(_SIZES)])
    return terminal.process.poll() is None


def _type(terminal: Terminal, made: random.Random) -> None:
    """Random bytes, none of which is a key that measures, then back to the screen."""
    data = _SIZE_TOLD.sub(b"", sequence(made)).translate(None, _MEASURING)
    for keys in (data, ENDS, *[b"\x1b"] * 4):
        terminal.type(keys)
        terminal.read(_PAUSE_SECONDS)
    _wait(terminal)
    if made.random() < _ODD_SIZES:
        terminal.resize(made.randrange(1, 250), made.randrange(1, 80))
        terminal.read(_PAUSE_SECONDS)
    terminal.resize(*made.choice(_SIZES))  # the bytes may have told of another size


def _wait(terminal: Terminal) -> None:
    """Let Esc be a key of its own on a busy machine: with what follows at once it is Alt."""
    end = time.monotonic() + _ANSWER_SECONDS
    while time.monotonic() < end:
        terminal.read(_PAUSE_SECONDS)


def _press(terminal: Terminal, *keys: str) -> None:
    for key in keys:
        if key in _OPENS_PALETTE:
            _open_palette(terminal, key)
            continue
        before = len(terminal.written)
        terminal.send(key)
        end = time.monotonic() + _ANSWER_SECONDS
        while len(terminal.written) == before and time.monotonic() < end:
            terminal.read(_PAUSE_SECONDS)
        while len(terminal.written) != before and time.monotonic() < end:
            before = len(terminal.written)
            terminal.read(_PAUSE_SECONDS)
        if key == _ESCAPE:
            _wait(terminal)


def _open_palette(terminal: Terminal, key: str) -> None:
    """Press the key until the palette is there: a panel that closes late swallows it.

    Letters that come before that would be keys of the screen, where `a` measures all.
    """
    terminal.forget()
    for _ in range(_PALETTE_TIMES):
        terminal.send(key)
        with suppress(AssertionError):
            terminal.wait_for(_PALETTE_SIGN, _PALETTE_SECONDS)
            return
        terminal.send(_ESCAPE)  # of a panel that random keys opened, and that has no such key
        _wait(terminal)
    raise AssertionError(f"no palette: {terminal.text()[-1500:]!r}")


def _sample(process: psutil.Process, minutes: float) -> Sample:
    return Sample(
        minutes,
        process.memory_info().rss,
        process.num_threads(),
        process.num_fds(),
        len(process.children(recursive=True)),
        process.cpu_percent(),
    )
