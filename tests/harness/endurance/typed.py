"""Random bytes, typed and pasted into every screen and dialog of both apps, in a terminal."""

from __future__ import annotations

import itertools
import multiprocessing
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.fleet_made import write
from tests.support.places import RECORDINGS, ROOT
from tests.support.terminal import APP, Terminal

LEAVING = b"\x03\x04\x11\x12\x13\x1a\x1c"
"""What ends or stops a program, or its output, as it should."""
_KEYS = b"qx"
"""Keys that end the app or write a file: text in a line or a paste, no key of a screen."""
_SIZE = (100, 30)
_RECORDING = "night.gtrec"
_MOVES = (b"", b"c", b",", b".", b"<", b">", b"-", b"+", b"N", b"B", b"H", b"D", b"/", b"w")
"""Keys of the time bar, and dialogs over it."""
_PAUSE_SECONDS = 0.05
_ANSWER_SECONDS = 20.0
_FIRST_SECONDS = (0.0, 0.3)
"""When the bytes of the first picture come, from the start of the program."""
ENDS = b"\x1b[201~\x07\x1b\\"
"""Ends whatever a sequence began: a paste, a title, a device's answer."""


def parts(made: random.Random) -> bytes:
    """One piece of what a terminal may send."""
    number = str(made.choice((0, 1, 7, 255, 65536, 10**12, -1))).encode()
    kinds: tuple[Callable[[], bytes], ...] = (
        lambda: made.randbytes(made.randrange(1, 12)),
        lambda: made.choice(("é", "漢字", "\u202e", "\ufeff", "[bold]", "{x}", "%s")).encode(),
        lambda: "äöü ß".encode("latin-1"),
        lambda: b"\x1b[" + made.randbytes(made.randrange(1, 6)),
        lambda: b"\x1b[" + b";".join([number] * made.randrange(1, 5)) + made.choice([b"~", b"u"]),
        lambda: b"\x1b[<" + b";".join([number] * 3) + made.choice((b"M", b"m", b"")),
        lambda: b"\x1b[M" + made.randbytes(made.randrange(0, 4)),
        lambda: b"\x1b[48;" + number + b";" + number + b";0;0t",
        lambda: b"\x1b]" + made.randbytes(made.randrange(1, 30)),
        lambda: b"\x1bP" + made.randbytes(made.randrange(1, 30)),
        lambda: b"\x1bO" + made.randbytes(1),
        lambda: made.choice((b"\x1b[I", b"\x1b[O", b"\x1b[A", b"\x1b[6~", b"\t", b"\x7f", b"\r")),
        lambda: b"\x1b[200~" + made.randbytes(made.randrange(0, 400)) + b"\x1b[201~",
        lambda: b"\x1b[200~" + b"a\n" * made.randrange(1, 200) + b"\x1b[200~",
        lambda: made.choice((b"\xc3", b"\xe9", b"\xf0\x9f", b"\xed\xa0\x80", b"\xc0\x80", b"\xff")),
    )  # fmt: skip
    return made.choice(kinds)()


def sequence(made: random.Random) -> bytes:
    """A few pieces, without what ends the app."""
    data = b"".join(parts(made) for _ in range(made.randrange(1, 8)))
    return data.translate(None, LEAVING + _KEYS)


class _Trial:
    """One app, used until it ends or all is typed."""

    def __init__(self, arguments: list[str], ready: str, places: list[bytes], folder: str) -> None:
        self.arguments, self.ready, self.places, self.folder = arguments, ready, places, folder

    def type(self, count: int, made: random.Random) -> Iterator[str]:
        """Type so many sequences; what went wrong, with what was typed last."""
        todo = iter(range(count))
        places = itertools.cycle(self.places)
        left = count
        while left:
            with Terminal(
                self.arguments, columns=_SIZE[0], lines=_SIZE[1], folder=self.folder
            ) as terminal:
                place = data = b""
                self._wait(terminal, made.uniform(*_FIRST_SECONDS))
                terminal.type(sequence(made) + ENDS)
                terminal.resize(*_SIZE)
                try:
                    terminal.wait_for(self.ready)
                except AssertionError as silent:
                    yield f"does not begin: {silent}"
                    left -= sum(1 for _ in itertools.islice(todo, 5))
                    continue
                for _ in todo:
                    left -= 1
                    place, data = next(places), sequence(made)
                    for key in (b"\x1b", b"\x1b", b"\x1b", place[:1], place[1:], data, ENDS):
                        terminal.type(key)
                        self._wait(terminal, _PAUSE_SECONDS)
                    terminal.resize(*_SIZE)  # the bytes may have told of another one
                    terminal.written = terminal.written[-20_000:]
                    if terminal.process.poll() is not None:
                        break  # "Quit" may have been chosen in the palette
                yield from self._judge(terminal, place + b" " + data)

    def _judge(self, terminal: Terminal, last: bytes) -> Iterator[str]:
        if terminal.process.poll() is None:
            terminal.type(b"\x1b" + ENDS)
            for _ in range(5):
                self._wait(terminal, 0.3)
                terminal.type(b"\x1b")
            terminal.forget()
            terminal.type(b"?")
            try:
                terminal.wait_for(r"\S{3}", _ANSWER_SECONDS)
            except AssertionError as silent:
                state = psutil.Process(terminal.process.pid).status()
                yield f"no answer any more ({state}): {silent}, behind {last!r}"
                return
            for _ in range(6):  # panels and lines close first
                terminal.type(b"\x03")
                give_up = time.monotonic() + _ANSWER_SECONDS / 6
                while terminal.process.poll() is None and time.monotonic() < give_up:
                    terminal.read(0.1)
            if terminal.process.poll() is None:
                yield f"Ctrl+C does not end it, behind {last!r}: {terminal.text()[-1500:]}"
                return
        terminal.wait_end()
        if terminal.process.returncode or "Traceback" in terminal.text() or not terminal.sane():
            yield f"{terminal.process.returncode} behind {last!r}: {terminal.text()[-1500:]}"

    @staticmethod
    def _wait(terminal: Terminal, seconds: float) -> None:
        before = -1
        while before != len(terminal.written):
            before = len(terminal.written)
            terminal.read(seconds)


def typed(seed: int, count: int, processes: int) -> int:
    """Type so many sequences in all; 1 where an app ended, hung, or left the terminal odd."""
    faults = []
    done: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "checks"), 40)
        command = [sys.executable, "-m", "gputop", "record", "--demo", "sick-h100-8"]
        subprocess.run(
            [*command, "-o", str(Path(folder, _RECORDING)), "--duration", "5s"],
            cwd=ROOT,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        shares = [
            _Share(seed, place, first, min(_SHARE, count // TRIALS - first), folder)
            for first in range(0, count // TRIALS, _SHARE)
            for place in range(TRIALS)
        ]
        with multiprocessing.get_context("fork").Pool(processes) as pool:
            for share, found in pool.imap_unordered(_typed, shares):
                name = " ".join(share.trial().arguments)
                done[name] += share.count
                faults += found
                for fault in found:
                    print(f"seed {seed}, {name}, from {share.first}: {fault}", flush=True)
    print("\n".join(f"{name}: {sequences} sequences" for name, sequences in done.items()))
    print(f"{len(faults)} faults")
    return 1 if faults else 0


TRIALS = 4
_SHARE = 30
"""Sequences that one process types before the next app."""


@dataclass(frozen=True)
class _Share:
    seed: int
    place: int
    first: int
    count: int
    folder: str

    def trial(self) -> _Trial:
        """The app, and the places in which is typed, from another one in each share."""
        openers = (
            *(b"", b"/", b"?", b"w", b"&", b"f", b"t", b"\x10", b"v", b"u", b"m", b"z", b"d"),
            *(b"D", b"H", b"\x12"),  # another node, the events, a recording
        )
        screens = [str(number).encode() + key for number in range(1, 10) for key in openers]
        tabs = [
            str(number).encode() + key
            for number in range(1, 6)
            for key in (b"", b"/", b"?", b"&", b"t", b"\r", b"\x10")
        ]
        moves = [one[:1] + key for one in screens[:: len(openers)] for key in _MOVES]
        snapshot = str(RECORDINGS / "hgx-h200-4gpu-live/snapshot.json")
        arguments, ready, places = (
            (["--demo", "sick-h100-8"], APP, screens),
            (["--from", snapshot], APP, screens),
            (["fleet", str(Path(self.folder, "checks"))], "quit", tabs),
            (["replay", str(Path(self.folder, _RECORDING))], APP, moves),
        )[self.place]
        start = self.first % len(places)
        return _Trial(arguments, ready, places[start:] + places[:start], self.folder)


def _typed(share: _Share) -> tuple[_Share, list[str]]:
    made = random.Random(f"{share.seed} {share.place} {share.first}")
    return share, list(share.trial().type(share.count, made))
