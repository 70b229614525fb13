"""What merging a fleet costs: `python -m tests.harness.bench.fleet 10000 [FOLDER]`, by hand.

It writes so many nodes, one percent of them sick in ten ways, judges them in a process of its own,
and says the seconds, the memory, and whether every sick node is named and no healthy one accused.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from gputop.answers.fleet import FleetAnswer, page
from gputop.printing.render import texts
from gputop.topology.fleet.finding import COMPARED, HEALTHY
from gputop.topology.fleet.fleet import Fleet
from gputop.topology.fleet.hosts import expand, fold
from gputop.topology.fleet.merging.growing import read_fleet
from tests.support.fleet_made import NOW, hosts, write

JUDGE = "--judge"


def misjudged(fleet: Fleet, sick: dict[str, str]) -> tuple[list[str], list[str]]:
    """Sick nodes that nothing names, and healthy ones that something accuses."""
    named = {host for item in fleet.findings for host in item.hosts}
    accused = {
        host
        for host in fleet.hosts
        if fleet.states[host] != HEALTHY
        or any(item.scope is COMPARED for item in fleet.by_host.get(host, ()))
    }
    return [host for host in sick if host not in named], sorted(accused - set(sick))


def judge(folder: str, expected: str) -> None:
    """Judge a folder and print what it took."""
    started = time.perf_counter()
    fleet = read_fleet(folder, expand(expected), now=NOW + 600)
    text = texts(page(FleetAnswer.of(fleet)).blocks, 100)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(text[0])
    print(f"{len(fleet.nodes)} files: {seconds:.1f} s, {peak:.0f} MiB at most")


def main(count: int, folder: Path) -> None:
    """Write, judge and compare."""
    started = time.perf_counter()
    sick = write(folder, count)
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{count} nodes written in {time.perf_counter() - started:.0f} s, {size / 1e6:.0f} MB")
    for way, number in Counter(sick.values()).items():
        print(f"  {number:5} × {way}")
    names = fold(hosts(count))
    subprocess.run(
        [sys.executable, "-m", "tests.harness.bench.fleet", JUDGE, str(folder), names], check=True
    )
    missed, accused = misjudged(read_fleet(str(folder), hosts(count), now=NOW + 600), sick)
    print(f"{len(sick)} sick, {len(missed)} of them not named; {len(accused)} healthy accused")
    print(*missed[:10], *accused[:10])


if __name__ == "__main__":
    if sys.argv[1] == JUDGE:
        judge(sys.argv[2], sys.argv[3])
    elif len(sys.argv) > 2:
        main(int(sys.argv[1]), Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(int(sys.argv[1]), Path(made))
