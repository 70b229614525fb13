"""What a reader takes when one thing in its input stands there twice as often, and twice again."""

from __future__ import annotations

import gzip
import math
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from .inputs import NO_FILES, PLACE, MutatedInput, mutated_input
from .mutate import warm_up
from .originals import originals
from .repetition import repeated
from .running import ended

FIRST_TIMES = 250
MOST_INPUT_BYTES = 6_000_000
SEEN_SECONDS = 0.4
"""An exponent is taken where the repeated part took more than that; below, it is noise."""
FIRST_STEP = 8
ENOUGH_SECONDS = 6.0
BAD_SECONDS = 10.0
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
    done: Counter[str] = Counter()
    warm_up(only)
    with multiprocessing.get_context("fork").Pool(processes, maxtasksperchild=8) as pool:
        for growth in pool.imap_unordered(_Grower(seed, only), numbers):
            done[growth.form] += 1
            times, size, seconds, memory = growth.points[-1]
            exponent = growth.exponent
            if (exponent or 0) > SLOW_EXPONENT or seconds > BAD_SECONDS or memory > 500e6:
                bad += 1
                shown = "?" if exponent is None else f"{exponent:.2f}"
                print(
                    f"{growth.number} {growth.form} {growth.original}: exponent {shown}, {times} "
                    f"times, {size / 1e3:.0f} kB, {seconds:.1f} s, {memory / 1e6:.0f} MB: "
                    f"{growth.command}",
                    flush=True,
                )
    print("  ".join(f"{form}: {count}" for form, count in done.items()))
    print(f"{bad} of {done.total()} inputs grow too fast, {time.monotonic() - started:.0f} s")
    return 1 if bad else 0


@dataclass(frozen=True)
class _Grower:
    seed: int
    only: str

    def __call__(self, number: int) -> Growth:
        rolls = Random(f"{self.seed}:{number}")
        try:
            made = mutated_input(self.seed, number, self.only)
        except Exception as error:  # noqa: BLE001 - of the mutation alone; the others go on
            return Growth(number, "(not made)", "", repr(error), ((0, 0, 0.0, 0),))
        original = rolls.choice(originals(made.form))
        name = rolls.choice(list(original.files))
        place = rolls.random()
        points: list[tuple[int, int, float, int]] = []
        times = 0
        while made.form not in NO_FILES and times < 1_000_000:
            content = _again(name, original.files[name], Random(place), times)
            files = {**original.files, name: content}
            grown = MutatedInput(number, made.form, original.name, "", made.command, files)
            with tempfile.TemporaryDirectory(prefix="gputop-grown-") as folder:
                answer = ended(grown.arguments(grown.write(Path(folder) / "input")))
            points.append((times, len(content), answer.cpu_seconds, answer.memory_bytes))
            seen = sum(point[2] - points[0][2] > SEEN_SECONDS for point in points)
            if (
                seen > 1 and answer.cpu_seconds > ENOUGH_SECONDS
            ) or answer.cpu_seconds > BAD_SECONDS:
                break
            if len(content) > MOST_INPUT_BYTES:
                break
            # In large steps to where it takes time, from there by doubling.
            times = times * (2 if seen else FIRST_STEP) or FIRST_TIMES
        command = " ".join(made.command).replace(PLACE, name)
        return Growth(number, made.form, original.name, command, tuple(points) or ((0, 0, 0.0, 0),))


def _again(name: str, content: bytes, rolls: Random, times: int) -> bytes:
    if name.endswith(".gz") and not name.endswith(".tar.gz"):
        inner = gzip.decompress(content)
        return gzip.compress(repeated(name[:-3], inner, rolls, times), 1, mtime=0)
    return repeated(name, content, rolls, times)
