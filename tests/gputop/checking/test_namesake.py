from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path

import pytest

from gputop.checking.file import SAME_RUN_SECONDS, apart

HOURS = 3600.0


@pytest.fixture(autouse=True)
def up_for_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_gettime", lambda _: 48 * HOURS)


def written(path: Path, boot_id: str | None, ago_seconds: float = 5.0) -> Path:
    data = json.dumps({"schema": "gputop.check/1", "fleet": {"boot_id": boot_id}}).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    then = time.time() - ago_seconds
    os.utime(path, (then, then))
    return path


@pytest.mark.parametrize("name", ["g7.json.gz", "g7.json", "g7.site.json.gz", "g7.gz"])
def test_another_machines_file_stays(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, "one boot")
    beside = apart(path, "another boot")
    assert beside != path
    assert beside.name.replace("~2", "") == name
    written(beside, "a third boot")
    assert apart(path, "another boot").name == beside.name.replace("~2", "~3")
    assert apart(path, "one boot") == path


@pytest.mark.parametrize(
    ("boot_id", "ago"),
    [("this boot", 5.0), (None, 5.0), ("a boot before", SAME_RUN_SECONDS + 60)],
)
def test_our_own_and_an_earlier_run_are_overwritten(
    tmp_path: Path, boot_id: str | None, ago: float
) -> None:
    path = written(tmp_path / "g7.json.gz", boot_id, ago)
    assert apart(path, "this boot") == path


def test_a_node_that_was_started_again_overwrites_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "g7.json.gz", "the boot before", ago_seconds=600.0)
    monkeypatch.setattr(time, "clock_gettime", lambda _: 300.0)
    assert apart(path, "this boot") == path


def test_what_is_no_check_or_not_there_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "g7.json.gz"
    assert apart(path, "this boot") == path
    for content in (b"", b"text", gzip.compress(b'{"fleet": {"boot_id": "x"}}')[:-9], b"\x1f\x8b"):
        path.write_bytes(content)
        assert apart(path, "this boot") == path
    assert apart(written(path, "another"), None) == path
