"""The file of a check stands for its node wherever --from is taken."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.model.snapshot import encode
from gputop.topology.recorded.check_file import IN_FOLDER, NONE_INSIDE
from gputop.topology.recorded.load import LoadError, load
from tests.support.app import demo_report


@pytest.fixture(scope="module")
def check() -> dict[str, Any]:
    inside = json.loads(encode(demo_report("dgx-1v").node.snapshot))
    return {"schema": "gputop.check/1", "verdict": "healthy", "fleet": {"snapshot": inside}}


@pytest.mark.parametrize("name", ["g7.json", "g7.json.gz"])
def test_a_check_with_a_snapshot_is_its_node(
    tmp_path: Path, check: dict[str, Any], name: str
) -> None:
    text = json.dumps(check).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    found = load([str(path)]).snapshot
    assert (len(found.machine.gpus), found.source) == (8, (name,))
    with pytest.raises(LoadError, match=IN_FOLDER):
        load([str(tmp_path)])


def test_a_packed_snapshot_is_read(tmp_path: Path, check: dict[str, Any]) -> None:
    path = tmp_path / "node.json.gz"
    path.write_bytes(gzip.compress(json.dumps(check["fleet"]["snapshot"]).encode()))
    assert len(load([str(path)]).snapshot.machine.gpus) == 8


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"schema": "gputop.check/1", "fleet": {"host": "g7"}}', NONE_INSIDE),
        (b'{"schema": "gputop.check/1", "fleet": nul', "cut off or damaged"),
        (b'{"schema": "gputop.check/1", "fleet": {"snapshot": {"schema": 7}}}', "no schema"),
        (b'{"schema": "gputop.check/1", "fleet": 7}', "not a format"),
        (gzip.compress(b'{"schema": "gputop.check/1"}', mtime=0)[:-9], "ends in the middle"),
        (gzip.compress(b"x" * 300, mtime=0)[:20] + b"\xff" * 9, "gzip that is damaged"),
        (gzip.compress(b"", mtime=0), "not a format"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "g7.json.gz"
    path.write_bytes(data)
    with pytest.raises(LoadError, match=why):
        load([str(path)])
