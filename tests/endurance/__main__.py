"""Runs one of the long trials; none of them belongs to the gate."""

from __future__ import annotations

import argparse

from .soak import soak


def main() -> int:
    """Run `soak`; 1 where a limit is passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance")
    trials = parser.add_subparsers(dest="trial", required=True)
    soaking = trials.add_parser("soak", help="use the app for a long time and watch its memory")
    soaking.add_argument("--minutes", type=float, default=30.0)
    soaking.add_argument("--demo", default="sick-h100-8")
    given = parser.parse_args()
    return soak(given.minutes, given.demo)


if __name__ == "__main__":
    raise SystemExit(main())
