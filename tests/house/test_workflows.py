"""What runs on every change, as far as it can be checked without a network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gputop.topology.toml import tomllib
from tests.support.places import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.y*ml"))
PINNED = re.compile(r"[\w-]+/[\w./-]+@[0-9a-f]{40}  # v\d+(\.\d+)*")
HOOKS = ("ruff check", "ruff format", "python -m mypy")


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def keys(name: str, text: str) -> list[str]:
    """What stands behind a key, wherever it stands."""
    return re.findall(rf"^[ -]*{name}: *(.*?) *$", text, re.MULTILINE)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_foreign_actions_are_pinned_and_rights_are_few(path: Path) -> None:
    text = read(path)
    used = [name for name in keys("uses", text) if not name.startswith("./.github/workflows/")]
    assert [name for name in used if not PINNED.fullmatch(name)] == []
    assert len(used) == text.count("persist-credentials: false") + len(
        [name for name in used if not name.startswith("actions/checkout@")]
    )
    assert "\npermissions:\n  contents: read\n" in text
    assert text.count("permissions:") == 1
    assert "secrets." not in text
    assert "pull_request_target" not in text


def test_every_change_runs_the_gate_and_nothing_else() -> None:
    text = read(GITHUB / "workflows" / "tests.yaml")
    head = text.partition("permissions:")[0]
    assert re.search(r"^  push:$", head, re.MULTILINE)
    assert re.search(r"^  pull_request:$", head, re.MULTILINE)
    assert keys("run", text) == [".ci/run"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_a_release_begins_with_the_gate() -> None:
    text = read(GITHUB / "workflows" / "release.yaml")
    assert "uses: ./.github/workflows/tests.yaml" in text
    assert "needs: gate" in text


def test_hooks_are_the_linters_of_the_gate() -> None:
    text = read(ROOT / ".pre-commit-config.yaml")
    assert [entry.removesuffix(" --force-exclude") for entry in keys("entry", text)] == list(HOOKS)
    assert keys("repo", text) == ["local"]
    gate = read(ROOT / "README.md") + read(ROOT / "tests" / "house" / "test_types.py")
    assert all(hook.removeprefix("python -m ") in gate for hook in HOOKS)
    dev = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]["optional-dependencies"]["dev"]
    assert {"ruff", "mypy"} <= {re.split(r"[^\w-]", need)[0] for need in dev}


def test_who_reports_is_asked_for_what_is_needed() -> None:
    forms = GITHUB / "ISSUE_TEMPLATE"
    assert "gputop doctor" in read(forms / "bug.yml")
    assert "gputop snapshot --redact" in read(forms / "wrong-answer.yml")
    assert (forms / "feature.yml").is_file()
    assert (GITHUB / "SECURITY.md").is_file()
    assert ".ci/run" in read(GITHUB / "pull_request_template.md")
