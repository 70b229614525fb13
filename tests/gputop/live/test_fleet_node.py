"""The whole file of one node: findings with their proof, and its snapshot or why there is none."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gputop.live.fleet_node import read_whole


def put(folder: Path, **fields: object) -> None:
    document = {"schema": "gputop.check/1", "verdict": "healthy", **fields}
    (folder / "g1.json").write_bytes(msgspec.json.encode(document))


def test_findings_that_are_not_sound_are_left_out(tmp_path: Path) -> None:
    sound = {"id": "acs-on", "severity": "slow", "title": "ACS is on"}
    put(tmp_path, findings=[sound, {"id": 1}, {**sound, "severity": "made-up"}])
    whole = read_whole(str(tmp_path), "g1.json")
    assert [finding.id for finding in whole.findings] == ["acs-on"]
    assert (whole.snapshot, whole.why) == (None, "its file holds no snapshot")


def test_a_snapshot_that_cannot_be_read_is_no_end(tmp_path: Path) -> None:
    put(tmp_path, fleet={"snapshot": {"schema": "gputop.snapshot/99"}})
    whole = read_whole(str(tmp_path), "g1.json")
    assert whole.snapshot is None
    assert whole.why.startswith("its snapshot cannot be read: schema 'gputop.snapshot/99'")


def test_a_file_that_is_none_is_said_in_a_clause(tmp_path: Path) -> None:
    (tmp_path / "g1.json").write_text("{")
    with pytest.raises(ValueError, match="not a valid document"):
        read_whole(str(tmp_path), "g1.json")
    with pytest.raises(ValueError, match="no such file"):
        read_whole(str(tmp_path), "g2.json")
