"""Chunks of lines that say nothing are passed over whole; what says something in them is found."""

from __future__ import annotations

import io

import pytest

from gputop.topology.diagnosis.symptoms.explain import known_signs
from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.report import LogReport

DULL = [b"step %d loss 0.%d on cuda, torch and GPU of a model" % (n, n * 7919) for n in range(4000)]


def read(lines: list[bytes]) -> LogReport:
    return read_log(io.BytesIO(b"\n".join(lines) + b"\n"), signs=known_signs())


def test_lines_are_counted_all_the_same() -> None:
    log = read(DULL)
    assert (log.lines, log.kinds) == (4000, {"elsewhere": 4000})
    assert log.empty


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (b"RuntimeError: NCCL error: unhandled cuda error", "notes"),
        (b"Last error:\nsomething happened", "notes"),
        (b"node:1:2 [0] NCCL WARN Duplicate GPU detected", "notes"),
        (b"nvidia-container-cli: initialization error: nvml error", "suspects"),
        (b"export NCCL_P2P_DISABLE=1", "environment"),
        (b'  "NCCL_IB_DISABLE": "1",', "environment"),
        (b"NCCL version 2.20.5+cuda12.4", "versions"),
        (b"torch: a fatal thing, FATAL", "suspects"),
    ],
    ids=["torch", "last", "warn", "nvml", "setting", "json", "version", "suspect"],
)
@pytest.mark.parametrize("place", [60, 2000, 3999])
def test_one_line_among_them_is_found(line: bytes, kept: str, place: int) -> None:
    log = read([*DULL[:place], *line.split(b"\n"), *DULL[place:]])
    found = getattr(log, kept)
    said = found.line if kept == "versions" else found[0].line if found else None
    assert said in (place + 1, place + 2)
    assert log.lines == 4001 + line.count(b"\n")
