"""The reports of a check: what stands in them, sizes, names, and how they are written."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from gputop.__main__ import run
from gputop.answers.check import CheckAnswer, CheckLevel
from gputop.answers.check_report import (
    LONGEST_HTML,
    LONGEST_MARKDOWN,
    fitting,
    html,
    markdown,
    told,
)
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node
from tests.gputop.printing.test_html import read
from tests.support.checked import checked, saved
from tests.support.hostile import obeyed, poisoned
from tests.support.snapshots import demo_node


def answered(snapshot: NodeSnapshot) -> CheckAnswer:
    found = diagnose(Case(Node(snapshot)))
    return CheckAnswer.of(found, snapshot, mode=CheckLevel.QUICK)


@pytest.mark.parametrize("name", ["sick-h100-8", "mi250x-8", "pcie-l40s-8", "dgx-1v"])
def test_both_hold_verdict_proof_fix_map_and_digest(name: str) -> None:
    answer = answered(demo_node(name).snapshot)
    of = told(answer)
    page = fitting(html, of, LONGEST_HTML).decode()
    ticket = fitting(markdown, of, LONGEST_MARKDOWN).decode()
    text = "".join(read(page).texts)
    for report in (text, ticket):
        assert f"{answer.verdict.sign} {answer.verdict}" in report
        assert of.digest in report
        for finding in answer.findings:
            assert finding.title in report
            assert all(fix.command in report for fix in finding.fix if "\n" not in fix.command)
        assert "GPU0" in report
    assert "<svg" in page
    assert "NUMA" in ticket or "CPU" in ticket


def test_hostile_names_are_text() -> None:
    snapshot = demo_node("sick-h100-8").snapshot
    evil = msgspec.convert(poisoned(msgspec.to_builtins(snapshot), 1), NodeSnapshot)
    of = told(answered(evil))
    page, ticket = html(of, 1000, picture=True), markdown(of, 1000, picture=True)
    read(page)
    assert obeyed(page) == obeyed(ticket) == set()


def test_what_would_be_too_long_is_left_out_and_said() -> None:
    answer = answered(demo_node("sick-h100-8").snapshot)
    many = msgspec.structs.replace(answer, findings=answer.findings * 15)
    for write, longest in ((html, 40_000), (markdown, 30_000)):
        data = fitting(write, told(many), longest)
        assert len(data) <= longest
        assert b"more of them would make this too long" in data


def test_the_digest_is_that_of_the_snapshot_that_gputop_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = saved(demo_node("sick-h100-8").snapshot, tmp_path / "node.json")
    path = tmp_path / "report.html"
    done = checked(capsys, "--from", node, "--quick", "--html", str(path))
    assert done.code == 1
    run(["snapshot", "--from", node])
    printed = capsys.readouterr().out
    assert sha256(printed.encode()).hexdigest() in path.read_text()


def test_redact_hides_names_in_reports_and_prints_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTOP_REDACT_KEY", "a secret")
    document = msgspec.to_builtins(demo_node("sick-h100-8").snapshot)
    document["machine"]["host"]["hostname"] = "secret-17.example.org"
    node = saved(msgspec.convert(document, NodeSnapshot), tmp_path / "node.json")
    files = [tmp_path / "a.html", tmp_path / "a.md"]
    options = ("--html", str(files[0]), "--markdown", str(files[1]), "--redact")
    done = checked(capsys, "--from", node, "--quick", "--json", *options)
    assert "secret-17" not in done.out
    for file in files:
        assert "secret-17" not in file.read_text()
        assert done.document["node"] in file.read_text()
    told_alone = checked(capsys, "--demo", "hgx-h100-8", "--quick", *options)
    assert told_alone.out.count("\n") == 1


def test_a_wrong_place_is_said_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*given: object) -> int:
        raise AssertionError("it was measured first")

    monkeypatch.setattr("gputop.answers.check._work", work)
    same = str(tmp_path / "same")
    for places in (("--html", f"{tmp_path}/none/a"), ("--html", same, "--markdown", same)):
        done = checked(capsys, "--demo", "hgx-h100-8", *places)
        assert done.code == 64
        assert "--html" in done.err


@pytest.mark.parametrize("option", ["--html", "--markdown"])
def test_a_link_is_refused_and_so_is_a_folder(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "other")
    for name, why in (("link", "symbolic link"), ("", "director"), ("none/a", "No such file")):
        done = checked(capsys, "--demo", "hgx-h100-8", "--quick", option, str(tmp_path / name))
        assert done.code == 64
        assert why in done.err
        assert option in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link"]
