from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gputop.checking.file import write
from gputop.topology.fleet.facts import digest
from gputop.topology.fleet.section import CATEGORIES
from tests.support.checked import checked
from tests.support.command import powerless

UNHEARD = ("checked", "document")


@pytest.fixture(autouse=True)
def nobody_elses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("gputop.checking.policy.SYSTEM", tmp_path / "none.toml")
    for name in ("SLURMD_NODENAME", "SLURM_JOB_ID", "GPUTOP_REDACT_KEY"):
        monkeypatch.delenv(name, raising=False)


def document(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return found


def test_a_file_for_each_node_and_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPUTOP_NODE", "g7")
    monkeypatch.setenv("SLURM_JOB_ID", "41")
    done = checked(capsys, "--demo", "sick-h100-8", "-o", str(tmp_path / "new" / "%j-%n.json.gz"))
    path = tmp_path / "new" / "41-g7.json.gz"
    found = document(path)
    assert (done.code, found["exit_code"]) == (1, 1)
    assert done.out.startswith("g7: ")
    assert done.out.count("\n") == 1
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert path.stat().st_size < 6000
    fleet = found["fleet"]
    assert (fleet["host"], fleet["job"], fleet["product"]) == (
        "g7",
        "41",
        "8 × NVIDIA H100 80GB HBM3",
    )
    assert tuple(fleet["facts"]) == CATEGORIES
    assert fleet["digests"] == {name: digest(fleet["facts"][name]) for name in CATEGORIES}
    assert fleet["snapshot"] is None


def test_a_deadline_changes_nothing_where_all_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPUTOP_NODE", "g7")
    path = str(tmp_path / "%n.json")
    done = checked(capsys, "--demo", "hgx-a100-8", "-o", path, "--deadline", "300", "--snapshot")
    assert done.code == 0
    assert done.out.startswith("g7: ✓ healthy")
    found = document(tmp_path / "g7.json")
    assert found["verdict"] == "healthy"
    assert found["fleet"]["snapshot"]["schema"] == "gputop.snapshot/1"


def test_a_deadline_counts_from_the_command_in_a_process_that_did_other_things_before(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputop.checking.deadline._age_seconds", lambda: 3600.0)
    arguments = ("--demo", "hgx-a100-8", "--deadline", "300", "--json")
    assert checked(capsys, *arguments).document["verdict"] == "healthy"
    monkeypatch.setattr("gputop.own_process", True)
    late = checked(capsys, *arguments)
    assert (late.code, late.document["verdict"]) == (3, "cannot tell")


def test_names_are_replaced_alike_in_all_files(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hosts: list[str] = []
    texts: list[str] = []
    for name, key in (
        ("secretive7", "a"),
        ("secretive7", "a"),
        ("other8", "a"),
        ("secretive7", "b"),
    ):
        monkeypatch.setenv("GPUTOP_NODE", name)
        monkeypatch.setenv("GPUTOP_REDACT_KEY", key)
        folder = tmp_path / str(len(hosts))
        arguments = ("--demo", "hgx-a100-8", "--redact", "--snapshot")
        checked(capsys, *arguments, "-o", str(folder / "%n.json"))
        (path,) = folder.iterdir()
        hosts.append(document(path)["fleet"]["host"])
        texts.append(path.read_text())
        assert path.stem == hosts[-1]
        assert name not in texts[-1]
    assert hosts[0] == hosts[1]
    assert len(set(hosts)) == 3
    assert document(tmp_path / "0" / f"{hosts[0]}.json")["fleet"]["redacted"] is True


def test_a_key_is_made_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPUTOP_NODE", "g7")
    for _ in range(2):
        checked(capsys, "--demo", "hgx-a100-8", "--redact", "-o", str(tmp_path / "o" / "%n.json"))
    assert len(list((tmp_path / "o").iterdir())) == 1
    (key,) = (tmp_path / "config" / "gputop").iterdir()
    assert key.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("-o", "%x"), "%n"),
        (("-o", "/nowhere/at/all/%n.json"), "not written"),
        (("-o", "/tmp"), "folder"),
        (("--redact",), "--json, -o"),
        (("--probe", "gem"), "did you mean gemm?"),
    ],
)
def test_wrong_usage_is_said_in_a_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], word: str
) -> None:
    done = checked(capsys, "--demo", "hgx-a100-8", *arguments)
    assert done.code == 64
    assert word in done.err.splitlines()[-1]


def test_a_folder_that_may_not_be_looked_into_is_said(tmp_path: Path) -> None:
    locked = tmp_path / "root"
    locked.mkdir(mode=0)
    for place in (locked / "x.json", locked / "sub" / "%n.json.gz"):
        done = powerless("check", "--quick", "--demo", "hgx-a100-8", "-o", str(place))
        assert done.returncode == 64
        assert done.stderr.endswith("not written: Permission denied\n")
    done = powerless("probe", "net", "--rank", "0", "--of", "2", "--meet", str(locked / "a" / "m"))
    assert (done.returncode, done.stderr.count("nothing can be written in")) == (64, 1)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--probe", "gem"), "did you mean gemm"),
        (("--probe", ","), "needs a name"),
        (("--probe", "gemm", "--quick"), "--probe says"),
    ],
)
def test_probes_are_chosen_by_name(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], word: str
) -> None:
    done = checked(capsys, *arguments)
    assert done.code == 64
    assert word in done.err


def test_others_of_the_share_may_read_the_file(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write(tmp_path / "g1.json", "{}")
    finally:
        os.umask(before)
    assert (tmp_path / "g1.json").stat().st_mode & 0o777 == 0o644
