"""Runs one of the long trials; of `mutate` a small share belongs to the gate."""

from __future__ import annotations

import argparse
from pathlib import Path

from .growth import grow
from .judging import Limits
from .mutate import Trial, mutate
from .soak import soak
from .typed import typed


def main() -> int:
    """Run `soak` or `mutate`; 1 where a limit is passed or a contract broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.endurance")
    trials = parser.add_subparsers(dest="trial", required=True)
    soaking = trials.add_parser("soak", help="use the app for a long time and watch its memory")
    soaking.add_argument("--minutes", type=float, default=30.0)
    soaking.add_argument("--demo", default="sick-h100-8")
    soaking.add_argument("--seed", type=int, default=1)
    mutating = trials.add_parser("mutate", help="give mutated input to every command")
    mutating.add_argument("--count", type=int, default=10_000)
    mutating.add_argument("--first", type=int, default=0, help="where to go on")
    mutating.add_argument("--number", type=int, help="try this one input alone")
    mutating.add_argument("--seed", type=int, default=1)
    mutating.add_argument("--only", default="", help="only formats whose name holds this")
    mutating.add_argument("--processes", type=int, default=2)
    mutating.add_argument("--cpu-seconds", type=float, default=Limits.cpu_seconds)
    mutating.add_argument("--failures", type=Path, default=Path("mutated-failures"))
    typing = trials.add_parser("type", help="type and paste random bytes into every screen")
    typing.add_argument("--count", type=int, default=2_000)
    typing.add_argument("--seed", type=int, default=1)
    typing.add_argument("--processes", type=int, default=2)
    growing = trials.add_parser("grow", help="repeat one thing in an input ever more often")
    growing.add_argument("--count", type=int, default=1_000)
    growing.add_argument("--first", type=int, default=0, help="where to go on")
    growing.add_argument("--number", type=int, help="try this one input alone")
    growing.add_argument("--seed", type=int, default=1)
    growing.add_argument("--only", default="", help="only formats whose name holds this")
    growing.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    if given.trial == "soak":
        return soak(given.minutes, given.demo, given.seed)
    if given.trial == "type":
        return typed(given.seed, given.count, given.processes)
    whole = range(given.first, given.first + given.count)
    numbers = whole if given.number is None else (given.number,)
    if given.trial == "grow":
        return grow(given.seed, numbers, given.only, given.processes)
    limits = Limits(cpu_seconds=given.cpu_seconds)
    trial = Trial(given.seed, given.only, limits, given.failures)
    return mutate(trial, numbers, given.processes)


if __name__ == "__main__":
    raise SystemExit(main())
