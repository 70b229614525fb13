"""What a reader takes when one thing in its input stands there twice as often, and twice again."""

from __future__ import annotations

import gzip
import math
import multiprocessing
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from .inputs import PLACE, MutatedInput, mutated_input
from .originals import formats, originals
from .repetition import repeated
from .running import ended

FIRST_TIMES = 250
MOST_INPUT_BYTES = 6_000_000
SEEN_SECONDS = 0.4
"""An exponent is taken where the repeated part took more than that; below, it is noise."""
ENOUGH_SECONDS = 6.0
SLOW_EXPONENT = 1.35
"""Reported from here on: clocks of a busy machine are off by some percent."""


@dataclass(frozen=True)
class Growth:
    """How one input grew."""

    number: int
    form: str
    original: str
    command: str
    points: tuple[tuple[int, int, float, int], ...]
    """Times, bytes of the input, seconds of CPU, bytes of memory."""

    @property
    def exponent(self) -> float | None:
        """By the last doubling that is long enough to be seen; None where none was."""
        base = self.points[0][2]
        seen = [point for point in self.points[1:] if point[2] - base > SEEN_SECONDS]
        if len(seen) < 2:
            return None
        (few, _, before, _), (many, _, after, _) = seen[-2:]
        return math.log((after - base) / (before - base)) / math.log(many / few)


def grow(seed: int, numbers: Iterable[int], only: str, processes: int) -> int:
    """Print what grows too fast; 1 where something does."""
    bad = 0
    started = time.monotonic()
    done = 0
    with multiprocessing.get_context("fork").Pool(processes, maxtasksperchild=8) as pool:
        for growth in pool.imap_unordered(_Grower(seed, only), numbers):
            done += 1
            times, size, seconds, memory = growth.points[-1]
            exponent = growth.exponent
            if (exponent or 0) > SLOW_EXPONENT or seconds > 10 or memory > 500e6:
                bad += 1
                shown = "?" if exponent is None else f"{exponent:.2f}"
                print(
                    f"{growth.number} {growth.form} {growth.original}: exponent {shown}, {times} "
                    f"times, {size / 1e3:.0f} kB, {seconds:.1f} s, {memory / 1e6:.0f} MB: "
                    f"{growth.command}",
                    flush=True,
                )
    print(f"{bad} of {done} inputs grow too fast, {time.monotonic() - started:.0f} s")
    return 1 if bad else 0


@dataclass(frozen=True)
class _Grower:
    seed: int
    only: str

    def __call__(self, number: int) -> Growth:
        rolls = Random(f"{self.seed}:{number}")
        made = mutated_input(self.seed, number, self.only)
        forms = [form for form in formats() if self.only in form]
        original = rolls.choice(originals(forms[number % len(forms)]))
        name = rolls.choice(list(original.files))
        place = rolls.random()
        points = []
        for times in self._sizes():
            content = _again(name, original.files[name], Random(place), times)
            grown = MutatedInput(
                number,
                made.form,
                original.name,
                "",
                made.command,
                {**original.files, name: content},
            )
            if made.form == "setting":
                continue
            with tempfile.TemporaryDirectory(prefix="gputop-grown-") as folder:
                where = grown.write(Path(folder) / "input")
                answer = ended(grown.arguments(where))
            points.append((times, len(content), answer.cpu_seconds, answer.memory_bytes))
            if answer.cpu_seconds > ENOUGH_SECONDS or len(content) > MOST_INPUT_BYTES:
                break
        command = " ".join(made.command).replace(PLACE, name)
        return Growth(number, made.form, original.name, command, tuple(points) or ((0, 0, 0.0, 0),))

    def _sizes(self) -> Iterator[int]:
        yield 0
        times = FIRST_TIMES
        while times < 1_000_000:
            yield times
            times *= 2


def _again(name: str, content: bytes, rolls: Random, times: int) -> bytes:
    if name.endswith(".gz") and not name.endswith(".tar.gz"):
        inner = gzip.decompress(content)
        return gzip.compress(repeated(name[:-3], inner, rolls, times), 1, mtime=0)
    return repeated(name, content, rolls, times)
