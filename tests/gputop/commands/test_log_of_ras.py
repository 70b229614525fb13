"""`gputop log` and `gputop jobs --from` explain what `ncclras` printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gputop.__main__ import run
from gputop.exits import ANSWERED, CANNOT_TELL
from tests.support.places import RECORDINGS

from .test_log_of_dumps import said

PUBLIC = RECORDINGS / "ras" / "public"
KILLED = RECORDINGS / "ras" / "killed.txt"


@pytest.mark.parametrize("command", [["log"], ["jobs", "--from"]])
def test_an_answer_alone_is_told_in_the_first_lines(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said([*command, str(KILLED)], capsys)
    assert (code, err) == (ANSWERED, "")
    assert out.startswith(
        "▼ RAS as saved (killed.txt, lines 1-34): 2 ranks, rank 1 (pid 624, GPU0 of 127.0.0.1) "
        "does not answer RAS"
    )
    assert run([*command, str(KILLED), "--json"]) == ANSWERED
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["source"]) == ("gputop.jobs/1", ["RAS"])
    assert document["jobs"][0]["verdict"] == "faulty"


def test_an_answer_among_lines_of_a_job_is_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(["log", str(PUBLIC / "healthy-2.26.2.txt")], capsys)
    assert code == ANSWERED
    assert "A collective did not end in time" in out
    assert "RAS: 256 ranks on 32 nodes, all answer RAS and have launched equally many" in out
    run(["log", str(PUBLIC / "healthy-2.26.2.txt"), "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [finding["id"] for finding in findings] == ["watchdog-timeout", "ras-answer"]


def test_an_answer_beside_a_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lscpu = (RECORDINGS / "pasted" / "epyc-lscpu.txt").read_text()
    both = tmp_path / "both.txt"
    both.write_text(f"{lscpu}\n{KILLED.read_text()}")
    code, out, _ = said(["jobs", "--from", str(both)], capsys)
    assert code == ANSWERED
    assert "rank 1 (pid 624, GPU0 of 127.0.0.1) does not answer RAS" in out
    _, out, err = said(["topo", "--from", str(both)], capsys)
    assert "RAS" not in err
    found = json.loads(said(["check", "--json", "--from", str(both)], capsys)[1])["findings"]
    assert any("rank 1 (pid 624, GPU0 of 127.0.0.1)" in one["title"] for one in found)


def test_a_cut_answer_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cut.json"
    path.write_bytes((RECORDINGS / "ras" / "healthy.json").read_bytes()[:900])
    for command in (["log"], ["jobs", "--from"]):
        code, _, err = said([*command, str(path)], capsys)
        assert code == CANNOT_TELL
        assert "its JSON is broken or cut off" in err
        assert "Traceback" not in err
