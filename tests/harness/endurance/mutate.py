"""Thousands of mutated inputs: every format, every command that reads it, one contract."""

from __future__ import annotations

import gc
import multiprocessing
import shlex
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.harness.outputs.running import printed

from .inputs import PLACE, MutatedInput, mutated_input
from .judging import Limits, breaches
from .originals import formats, originals
from .running import Ended, ended

NAMED = 3
"""How many inputs are named for their time, and for their memory."""


@dataclass(frozen=True)
class Trial:
    """What is to be tried; the same trial makes the same inputs."""

    seed: int
    only: str
    """Formats whose name holds this."""
    limits: Limits
    failures: Path
    """The folder that keeps what failed."""


@dataclass(frozen=True)
class Tried:
    """What one input came to."""

    number: int
    form: str
    code: int
    cpu_seconds: float
    memory_bytes: int
    breaches: tuple[str, ...]


def mutate(trial: Trial, numbers: Iterable[int], processes: int) -> int:
    """Try the inputs of these numbers and print a table; 1 where one breaks the contract."""
    if not any(trial.only in form for form in formats()):
        print(f"no format {trial.only!r}; there are: {', '.join(formats())}")
        return 2
    warm_up(trial.only)
    started = time.monotonic()
    tried: list[Tried] = []
    shown = started
    for result in _results(trial, numbers, processes):
        tried.append(result)
        for what in result.breaches:
            print(f"{result.number} {result.form}: {what}", flush=True)
        if time.monotonic() - shown > 60:
            shown = time.monotonic()
            print(f"{len(tried)} inputs after {shown - started:.0f} s", flush=True)
    print("\n".join(_table(tried)))
    for result in sorted(tried, key=lambda result: -result.cpu_seconds)[:NAMED]:
        print(f"slow: {result.cpu_seconds:.1f} s for {result.number} {result.form}")
    for result in sorted(tried, key=lambda result: -result.memory_bytes)[:NAMED]:
        print(f"large: {result.memory_bytes / 1e6:.0f} MB for {result.number} {result.form}")
    counts = Counter(result.form for result in tried)
    fewest = min(counts, key=counts.__getitem__)
    print(f"{len(counts)} readers, at least {counts[fewest]} inputs for each ({fewest})")
    failed = sum(bool(result.breaches) for result in tried)
    print(f"{failed} of {len(tried)} inputs break the contract")
    if failed:
        print(f"they are kept in {trial.failures}")
    return 1 if failed else 0


def _results(trial: Trial, numbers: Iterable[int], processes: int) -> Iterator[Tried]:
    if processes == 1:
        yield from map(_Examiner(trial), numbers)
        return
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap(_Examiner(trial), numbers, chunksize=16)


@dataclass(frozen=True)
class _Examiner:
    trial: Trial

    def __call__(self, number: int) -> Tried:
        try:
            made = mutated_input(self.trial.seed, number, self.trial.only)
        except Exception as error:  # noqa: BLE001 - of the mutation alone; the others go on
            return Tried(number, "(not made)", 0, 0.0, 0, (f"our mutation failed: {error!r:.200}",))
        with tempfile.TemporaryDirectory(prefix="gputop-mutated-") as folder:
            place = made.write(Path(folder) / "input")
            arguments = made.arguments(place)
            answer = ended(arguments)
        found = tuple(breaches(arguments, answer, self.trial.limits))
        if found:
            self._keep(made, answer, found)
        return Tried(number, made.form, answer.code, answer.cpu_seconds, answer.memory_bytes, found)

    def _keep(self, made: MutatedInput, answer: Ended, found: tuple[str, ...]) -> None:
        """Write down the input, the answer, and the lines that repeat it."""
        folder = self.trial.failures / f"{made.number:05}-{made.form}"
        shutil.rmtree(folder, ignore_errors=True)
        place = made.write(folder / "input")
        (folder / "stdout").write_bytes(answer.out[:1_000_000])
        (folder / "stderr").write_bytes(answer.err[:1_000_000])
        only = f" --only {self.trial.only}" if self.trial.only else ""
        again = f"mutate --seed {self.trial.seed} --number {made.number}{only}"
        lines = (
            f"{made.original}, changed: {made.mutated}",
            *found,
            f"python -m tests.harness.endurance {again}",
            f"python -m gputop {shlex.join(made.arguments(place))}",
        )
        text = "\n".join(lines) + "\n"
        (folder / "failure.txt").write_text(text, encoding="utf-8", errors="backslashreplace")


def warm_up(only: str) -> None:
    """Import what the commands import, and read the originals: every fork then has them."""
    for command in (("check", "--quick"), ("explain",), ("flags", "NCCL_ALGO"), ("topo",)):
        printed([*command, "--demo", "hgx-h100-8"])
    with tempfile.TemporaryDirectory(prefix="gputop-sound-") as folder:
        for form in formats():
            if only in form:
                _read_one(form, Path(folder) / form)
    gc.collect()
    gc.freeze()


def _read_one(form: str, folder: Path) -> None:
    sound = originals(form)[0]
    command = {
        "log": ("log", PLACE),
        "log-gz": ("log", PLACE),
        "ras-text": ("log", PLACE),
        "ras-json": ("jobs", "--from", PLACE),
        "torchfrtrace": ("log", PLACE),
        "watchdog": ("log", PLACE),
        "dumps": ("log", PLACE),
        "job-folder": ("check", "--quick", "--from", PLACE),
        "fleet": ("fleet", PLACE),
        "pairs": ("fleet", "plan", PLACE),
        "network": ("fleet", "plan", PLACE, "--nodes", "g1,g2", "--topology", f"{PLACE}/topology"),
        "theme": ("completion", "bash"),
    }.get(form, ("snapshot", "--from", PLACE))
    made = MutatedInput(0, form, sound.name, "", command, sound.files)
    printed(made.arguments(made.write(folder)))


def _table(tried: list[Tried]) -> Iterator[str]:
    """A line a format: inputs, exit codes, the slowest, the largest."""
    groups: dict[str, list[Tried]] = defaultdict(list)
    for result in tried:
        groups[result.form].append(result)
    yield f"{'format':<14} {'inputs':>6}  {'CPU s':>6} {'slowest':>7} {'largest':>7}  exits"
    for form, results in [*groups.items(), ("all", tried)]:
        codes = Counter(result.code for result in results)
        exits = "  ".join(f"{code}: {times}" for code, times in sorted(codes.items()))
        yield (
            f"{form:<14} {len(results):>6}  {sum(one.cpu_seconds for one in results):>6.0f}"
            f" {max((one.cpu_seconds for one in results), default=0):>5.1f} s"
            f" {max((one.memory_bytes for one in results), default=0) / 1e6:>4.0f} MB  {exits}"
        )
