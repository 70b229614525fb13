"""Puts every warning into every run, one at a time, and lists the answers that accuse a run.

    python -m tests.harness.injection [FOLDER ...]

FOLDER holds the source of NCCL or RCCL; without one the warnings of the table alone are taken.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from gputop.topology.diagnosis.symptoms.explain import known_signs
from gputop.topology.diagnosis.symptoms.log import examine
from gputop.topology.logs.reading.read import read_log

from .runs import Run, runs
from .warnings import of_source, of_table


def accused(lines: Iterable[bytes]) -> set[str]:
    """The findings of severity broken or slow in a log."""
    found = examine(read_log(list(lines), signs=known_signs()), None).findings
    return {finding.id for finding in found if finding.severity.counts}


def blamed(run: Run, before: set[str], *warnings: bytes) -> set[tuple[str, int]]:
    """What a run is accused of with these warnings and not `before`, and at which place."""
    return {
        (ident, at)
        for at in run.places
        for ident in accused(run.with_warnings(*warnings, at=at)) - before
    }


def main() -> int:
    """Print a line for each accusation, then the numbers; 1 where there is one."""
    options = argparse.ArgumentParser(prog="python -m tests.harness.injection")
    options.add_argument("folder", nargs="*", type=Path)
    warnings = of_table()
    for folder in options.parse_args().folder:
        warnings |= of_source(folder)
    read = wrong = 0
    for name, run in runs().items():
        before = accused(run.lines)
        for shown, warning in warnings.items():
            found = blamed(run, before, warning)
            read, wrong = read + len(run.places), wrong + len(found)
            for ident, at in sorted(found):
                print(f"{name}, line {at + 1}: {ident} by {shown}")
    print(f"{len(runs())} runs, {len(warnings)} warnings, {read} texts: {wrong} accusations")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
