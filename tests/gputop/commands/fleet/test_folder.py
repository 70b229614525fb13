from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from gputop.__main__ import run
from tests.support.fleet_made import calls_itself, node, other, packed

Asked = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Asked:
    """Run the command; its exit code, stdout and stderr."""

    def asked(*arguments: str) -> tuple[int, str, str]:
        code = run(["fleet", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return asked


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Six nodes: one broken, one odd."""
    where = tmp_path / "now"
    where.mkdir()
    for number in range(1, 7):
        made = node(f"g{number}")
        if number == 3:
            made = calls_itself(made, "broken", "gpu-lost", "GPU3 does not answer")
        if number == 5:
            made = other(made, "settings", "power limit", "500 W")
        (where / f"g{number}.json.gz").write_bytes(packed(made))
    return str(where)


def test_the_verdict_comes_first(ask: Asked, folder: str) -> None:
    code, out, _ = ask(folder, "--nodes", "g[1-7]")
    assert code == 2
    lines = out.splitlines()
    assert lines[0] == "✗ 1 of 7 nodes broken, 1 missing, 1 odd; 4 healthy"
    assert "✗ g3: GPU3 does not answer [gpu-lost]" in lines
    assert "✗ g7: asked for, and no answer [missing]" in lines
    assert "▽ g5: power limit 500 W where 5 of 6 have 700 W [settings-differs]" in lines
    assert '  scontrol update NodeName=g7 State=DRAIN Reason="gputop: no answer"' in lines
    assert any(line.startswith("  5 × g[1-4,6]: 8 × NVIDIA H100") for line in lines)


def test_verbose_has_the_evidence_and_node_by_node(ask: Asked, folder: str) -> None:
    _, out, _ = ask(folder, "-v")
    assert "    • power limit: 500 W; 5 of 6 have 700 W (g5.json.gz)" in out
    assert "  g5: odd: settings-differs" in out


def test_json_has_both_tables(ask: Asked, folder: str) -> None:
    code, out, _ = ask(folder, "--json")
    found = json.loads(out)
    assert (found["schema"], found["exit_code"], code) == ("gputop.fleet/1", 2, 2)
    assert {"gputop", "source", "assumptions"} <= found.keys()
    assert found["counts"]["broken"] == 1
    assert found["hosts"]["g5"] == {
        "state": "odd", "file": "g5.json.gz", "findings": ["settings-differs"],
    }  # fmt: skip
    assert {row["id"]: row["hosts"] for row in found["findings"]} == {
        "gpu-lost": "g3", "settings-differs": "g5",
    }  # fmt: skip


def test_junit_has_a_case_for_each_node(ask: Asked, folder: str, tmp_path: Path) -> None:
    path = tmp_path / "fleet.xml"
    ask(folder, "--junit", str(path))
    cases = {case.get("name"): case for case in Xml.parse(path).getroot().iter("testcase")}
    assert len(cases) == 6
    failed = [name for name, case in cases.items() if case.find("failure") is not None]
    assert failed == ["g3", "g5"]


def test_since_says_what_came(ask: Asked, folder: str, tmp_path: Path) -> None:
    before = tmp_path / "before"
    before.mkdir()
    for number in range(1, 7):
        (before / f"g{number}.json.gz").write_bytes(packed(node(f"g{number}")))
    _, out, _ = ask(folder, "--since", str(before))
    assert "  worse: g3: healthy → broken" in out
    assert "  came: g5: power limit 500 W" in out
    assert "nothing changed" in ask(folder, "--since", folder)[1]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("/nowhere",), "No such file"),
        ((".", "--nodes", "g[1-"), "nothing closes"),
        ((".", "--nodes", ""), "needs a list"),
        ((".", "--since", "/nowhere"), "No such file"),
    ],
)
def test_wrong_usage_is_64_and_one_line(
    ask: Asked,
    arguments: tuple[str, ...],
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = ask(*arguments)
    assert (code, out) == (64, "")
    assert word in err.splitlines()[-1]


def test_an_empty_folder_is_not_healthy(ask: Asked, tmp_path: Path) -> None:
    code, out, _ = ask(str(tmp_path))
    assert code == 3
    assert out.startswith("? cannot tell: no node has written into")
