"""Tuning tables and picks of NCCL's own code, compiled for the CPU, against ours.

`python -m tests.support.nccl.tuning_cases [--misses N] [VERSION ...]` prints what is equal,
version by version. tests/recordings/README.md says how the recordings were made.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from gputop.topology.model.versions import numbers
from gputop.topology.nccl.prediction import Graphs, SearchGraph
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.tuning.channels import coll_channels, nvls_channels
from gputop.topology.nccl.tuning.choices import choose
from gputop.topology.nccl.tuning.inputs import TuningInput
from gputop.topology.nccl.tuning.model import tuning
from gputop.topology.nccl.tuning.remarks import failure
from gputop.topology.nccl.tuning.threads import most_threads, threshold
from gputop.topology.nccl.tuning.version import PROTOCOLS
from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "nccl-tuning"
COLUMNS = ("refused", "table", "threads", "channels", "picks", "spread", "times")
"""Table: latency and bandwidth; threads: with their thresholds; channels: how many there are;
picks: algorithm and protocol by size; spread: first and last channel of each."""

LARGEST = 1 << 33
NEAR = 6e-6
"""The recordings keep six digits."""

GRAPH = (
    *("pattern", "channels", "bw_intra", "bw_inter", "type_intra", "type_inter"),
    *("same_channels", "cross_nic", "latency_inter_us"),
)

Entry = dict[str, Any]


class Case(NamedTuple):
    """One communicator under one version and environment."""

    machine: str
    kept: Entry

    @property
    def version(self) -> str:
        """The version that was compiled, "2.28.9"."""
        return str(self.kept["version"])

    def __str__(self) -> str:
        kept = self.kept
        return f"{self.machine} {self.version} on {kept['nodes']} nodes {kept['env'] or ''}"


class Compared(NamedTuple):
    """What came of one case: the columns that it has, and what differs in each."""

    counted: tuple[str, ...]
    misses: dict[str, list[str]]
    picks: int


@cache
def cases() -> tuple[Case, ...]:
    """Everything recorded, oldest version first."""
    found = [
        Case(path.name.removesuffix(".json.gz"), kept)
        for path in sorted(FOLDER.glob("*.json.gz"))
        for kept in json.loads(gzip.decompress(path.read_bytes()))
    ]
    return tuple(sorted(found, key=lambda case: numbers(case.version)))


def communicator(kept: Entry) -> TuningInput:
    """What was given to NCCL."""
    graphs = {
        name: SearchGraph(**dict(zip(GRAPH, figures, strict=True)))
        for name, figures in kept["graphs"].items()
    }
    low, high = kept["sm"]
    arch, vendor = kept["cpu"]
    return TuningInput(
        graphs=Graphs(**graphs),
        ranks=kept["ranks"],
        nodes=kept["nodes"],
        min_sm=low,
        max_sm=high,
        cpu_arch=arch,
        cpu_vendor=vendor,
        net_gbs=kept["net_gbs"],
        nvls=kept["nvls"],
        number=kept["version"],
        settings=Settings(kept["env"]),
    )


def compare(case: Case) -> Compared:
    """One case against ours."""
    kept, comm = case.kept, communicator(case.kept)
    refusal = failure(comm)
    if "refused" in kept or refusal is not None:
        same = ("refused" in kept) == (refusal is not None)
        return Compared(("refused",), {} if same else {"refused": [str(refusal)]}, 0)
    misses: defaultdict[str, list[str]] = defaultdict(list)
    for column, text in [*_numbers(kept, comm), *_calls(kept, comm)]:
        misses[column].append(text)
    picks = sum(1 for rows in kept["picks"].values() for _ in sizes(rows))
    return Compared(COLUMNS[1:], misses, picks)


def sizes(rows: list[list[Any]]) -> Iterator[tuple[int, str, tuple[int, int]]]:
    """Every size of one collective with its pick; a row holds until the next one begins."""
    size, ends = rows[0][0], [row[0] for row in rows[1:]] + [LARGEST + 1]
    for (_, pick, low, high), end in zip(rows, ends, strict=True):
        while size < end:
            yield size, pick, (low, high)
            size *= 2


def _numbers(kept: Entry, comm: TuningInput) -> Iterator[tuple[str, str]]:
    for name, mine in (("coll", coll_channels(comm)), ("nvls", nvls_channels(comm))):
        if mine != kept[f"{name}_channels"]:
            yield "channels", f"{name} {kept[f'{name}_channels']}, not {mine}"
    for what, asked in (("threads", most_threads), ("thresholds", threshold)):
        for algorithm, row in kept[what].items():
            found = [asked(comm, algorithm, protocol) for protocol in PROTOCOLS]
            if found != row:
                yield "threads", f"{what} of {algorithm} {row}, not {found}"
    for collective, rows in tuning(comm).items():
        for algorithm, cells in rows.items():
            figures = kept["table"].get(collective, {}).get(algorithm, [[0.0, 0.0]] * 3)
            for (protocol, cell), wanted in zip(cells.items(), figures, strict=True):
                if not all(map(same, cell, wanted)):
                    yield "table", f"{collective} {algorithm} {protocol} {wanted}, not {cell}"


def _calls(kept: Entry, comm: TuningInput) -> Iterator[tuple[str, str]]:
    table, channels = tuning(comm), coll_channels(comm)
    for collective, rows in kept["picks"].items():
        for size, pick, span in sizes(rows):
            where = f"{collective} of {size}:"
            found = choose(comm, table, channels, collective, size)
            name = f"{found.algorithm} {found.protocol}" if found is not None else ""
            if name != pick:
                yield "picks", f"{where} {pick}, not {name}"
            elif found is not None and found.channels != span:
                yield "spread", f"{where} {span}, not {found.channels}"
            time = kept["times"].get(str(size)) if collective == "AllReduce" else None
            if found is not None and time is not None and not same(found.time_us, time):
                yield "times", f"{where} {time} us, not {found.time_us}"


def same(found: float, kept: float) -> bool:
    """Equal to the last digit that was kept."""
    return abs(found - kept) <= NEAR * max(1.0, abs(kept))


def main() -> None:
    """Print the table, and what differs first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*")
    parser.add_argument("--misses", type=int, default=3, help="printed of each column")
    asked = parser.parse_args()
    counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    equal: defaultdict[str, Counter[str]] = defaultdict(Counter)
    shown: Counter[tuple[str, str]] = Counter()
    picks: Counter[str] = Counter()
    for case in cases():
        if asked.versions and case.version not in asked.versions:
            continue
        result = compare(case)
        picks[case.version] += result.picks
        counted[case.version].update(result.counted)
        equal[case.version].update(name for name in result.counted if not result.misses.get(name))
        for column, texts in result.misses.items():
            shown[case.version, column] += 1
            if shown[case.version, column] <= asked.misses:
                sys.stdout.write(f"    {case} {column}: {texts[0]}\n")
    titles = "".join(f"{name:>11}" for name in COLUMNS)
    sys.stdout.write(f"{'version':<9}{titles}{'picks':>9}\n")
    for version, total in counted.items():
        row = "".join(f"{f'{equal[version][name]}/{total[name]}':>11}" for name in COLUMNS)
        sys.stdout.write(f"{version:<9}{row}{picks[version]:>9}\n")


if __name__ == "__main__":
    main()
