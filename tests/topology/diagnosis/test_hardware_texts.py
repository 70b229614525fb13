"""Hardware texts that people paste, each with a twin in which nothing is guilty."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import LACKING, NOTHING, Diagnosis, diagnose
from gputop.topology.model.severity import Verdict
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.toml import tomllib

TABLE = Path(__file__).with_name("hardware_texts.toml")
TEXTS: list[dict[str, Any]] = tomllib.loads(TABLE.read_text())["text"]
SILENT = (LACKING, NOTHING)


def found(text: str, path: Path) -> Diagnosis:
    (path / "paste.txt").write_text(text)
    return diagnose(Case(Node(load([str(path / "paste.txt")]).snapshot).decide()))


def said(diagnosis: Diagnosis) -> list[str]:
    every = (f"{one.id}: {one.severity}" for one in diagnosis.findings if one.id not in SILENT)
    return sorted(every)


@pytest.mark.parametrize("entry", TEXTS, ids=lambda entry: entry["name"])
def test_a_text_gives_its_finding_and_its_twin_none(entry: dict[str, Any], tmp_path: Path) -> None:
    diagnosis = found(entry["text"], tmp_path)
    titles = "\n".join(finding.title for finding in diagnosis.findings)
    assert said(diagnosis) == sorted(entry["says"]), titles
    assert [word for word in entry.get("words", ()) if word not in titles] == [], titles
    assert [word for word in entry.get("never", ()) if word in titles] == [], titles
    assert diagnosis.verdict is not Verdict.HEALTHY
    if twin := entry.get("twin"):
        assert said(found(twin, tmp_path)) == sorted(entry.get("twin_says", ()))


@pytest.mark.parametrize("entry", TEXTS, ids=lambda entry: entry["name"])
def test_no_fix_is_empty(entry: dict[str, Any], tmp_path: Path) -> None:
    for finding in found(entry["text"], tmp_path).findings:
        assert all(fix.text or fix.command for fix in finding.fix), finding.id
