"""Answers of RAS that grow in one way: none may take a time that grows with its square.

Each took half a minute of CPU time or never ended where it did, and takes a second where it does
not, so the limit fails no slow machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.endurance.judging import Limits, breaches
from tests.harness.endurance.running import ended

LIMITS = Limits(cpu_seconds=20)
HEAD = """\
NCCL version 2.27.3 compiled with CUDA 12.9

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1     12500         8    100000    100000   RUNNING  MISMATCH

Warnings
========

#0-0 (0123456789abcdef) MISMATCH
  Communicator ranks have different AllReduce operation counts
"""


def many_ranks() -> str:
    """Ranks that a text names one by one."""
    ranks = (
        f"  Rank {rank} has launched up to operation {rank % 40} -- GPU {rank % 8} managed by "
        f"process {rank + 1} on node 10.0.{rank // 800}.{rank % 250}\n"
        for rank in range(40_000)
    )
    return HEAD + "".join(ranks)


def many_functions() -> str:
    """Collectives that a text names one by one."""
    return HEAD + "".join(
        f"  Communicator ranks have different F{number} operation counts\n"
        f"  31 ranks have launched up to operation {number}\n"
        for number in range(38_000)
    )


def functions_of_their_own() -> str:
    """Ranks of which each names another collective, as JSON."""
    ranks = [{"rank": rank, "collective_counts": {f"F{rank}": 1}} for rank in range(50_000)]
    communicator = {"hash": "0x1", "size": len(ranks), "ranks": ranks}
    return json.dumps({"nccl_version": "2.28.9", "communicators": [communicator]})


def blanks() -> str:
    """A line of blanks that ends in something else."""
    return f"{HEAD}{' ' * 300_000}x\n"


@pytest.mark.parametrize("made", [many_ranks, many_functions, functions_of_their_own, blanks])
def test_a_large_answer_takes_no_minute(made: Callable[[], str], tmp_path: Path) -> None:
    path = tmp_path / "ras.txt"
    path.write_text(made())
    arguments = ["jobs", "--json", "--from", str(path)]
    answer = ended(arguments)
    assert breaches(arguments, answer, LIMITS) == []
    assert answer.code == 0
