"""All that is read from recorded logs, and all that the comparison with the prediction says."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from gputop.topology.diagnosis.symptoms.explain import known_signs
from gputop.topology.logs.comparing.overlay import lay, rebuild
from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.report import LogReport
from gputop.topology.toml import tomllib
from tests.support.places import RECORDINGS
from tests.support.whole import changes, whole

UNHEARD = ("*",)
LOGS = {
    path.name.split(".")[0]: path
    for folder in ("nccl-logs", "nccl-public", "rccl-logs")
    for path in sorted((RECORDINGS / folder).glob("*.log*"))
}
for alike in ("h200-cumem0", "h200-lvlphb"):
    del LOGS[alike]
EDITED = ("mesh_a100_amd__P2P_DISABLE=1_SHM_DISABLE=1", "mi250x-4x2", "rx7900xtx-2")
UNREAD = ("bytes", "lines", "sources")


def lines_in(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()


def report_of(lines: list[bytes]) -> LogReport:
    return read_log(lines, name="a.log", signs=known_signs())


def kind_of(line: bytes) -> bytes:
    """The words of a line, whatever its numbers are."""
    return re.sub(rb"0x[0-9a-f]+|[0-9.]+", b"#", line)


@pytest.mark.parametrize("name", LOGS)
def test_what_a_log_says(name: str, snapshot: SnapshotAssertion) -> None:
    log = report_of(lines_in(LOGS[name]))
    assert whole(log, without=UNREAD) == snapshot
    overlay = lay(log, None)
    assert whole([overlay.agreement, overlay.node, overlay.assumptions, rebuild(log)]) == snapshot


@pytest.mark.parametrize("name", EDITED)
def test_what_each_kind_of_line_adds(name: str, snapshot: SnapshotAssertion) -> None:
    """Without all lines of one kind, and with other numbers in the first of them."""
    lines = lines_in(LOGS[name])
    before = whole(report_of(lines), without=("line", "count"))
    found = []
    kinds = [kind_of(line) for line in lines]
    for kind in dict.fromkeys(kinds):
        first = kinds.index(kind)
        head, colon, tail = lines[first].partition(b"NCCL ")
        other = (
            head + colon + re.sub(rb"(?<![.\w])[0-9]\b", lambda n: b"%d" % (int(n[0]) + 1), tail)
        )
        for edited in (
            [line for line, is_ in zip(lines, kinds, strict=True) if is_ != kind],
            [*lines[:first], other, *lines[first + 1 :]],
        ):
            after = whole(report_of(edited), without=("line", "count"))
            found.append(f"{kind.decode()[-60:]}\n{changes(before, after)[:1500]}")
    assert "\n".join(found) == snapshot


MADE: dict[str, str] = tomllib.loads(Path(__file__).with_name("made_lines.toml").read_text())


@pytest.mark.parametrize("name", MADE)
def test_what_made_lines_say(name: str, snapshot: SnapshotAssertion) -> None:
    """All of them, and what is missing without each one of them."""
    lines = [line.encode() for line in MADE[name].strip().splitlines()]
    assert whole(report_of(lines), without=UNREAD) == snapshot
    full = whole(report_of(lines), without=(*UNREAD, "line"))
    found = []
    for number, line in enumerate(lines):
        less = whole(report_of(lines[:number] + lines[number + 1 :]), without=(*UNREAD, "line"))
        found.append(f"without {line.decode()[:60]}\n{changes(full, less)[:900]}")
    assert "\n".join(found) == snapshot
