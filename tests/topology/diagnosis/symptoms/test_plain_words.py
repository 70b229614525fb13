"""What a program says in plain words leads the answer, before what only follows from it."""

from pathlib import Path
from typing import Any

import pytest

from gputop.topology.diagnosis.symptoms.explain import known_signs
from gputop.topology.diagnosis.symptoms.log import ReadLog, examine
from gputop.topology.logs.reading.read import read_log
from gputop.topology.model.severity import NOTICE
from gputop.topology.toml import tomllib

CASES = tomllib.loads(Path(__file__).with_name("plain_words.toml").read_text())


def _read(text: str, path: Path) -> ReadLog:
    path.write_text(text.lstrip())
    with path.open("rb") as log:
        return examine(read_log(log, name="log", signs=known_signs()), None)


@pytest.mark.parametrize("case", CASES["case"], ids=lambda case: str(case["first"]))
def test_the_plain_sentence_leads(case: dict[str, Any], tmp_path: Path) -> None:
    first = _read(case["text"], tmp_path / "log.txt").findings[0]
    said = [first.title, first.cause, *(fix.text for fix in first.fix)]
    said += [cause.cause for cause in first.candidates[:1]]
    said += [fix.text for cause in first.candidates[:1] for fix in cause.fix]
    assert first.id == case["first"]
    assert case.get("words", "") in " ".join(said)
    assert first.evidence[0].line is not None


@pytest.mark.parametrize("case", CASES["innocent"])
def test_a_run_that_went_on_is_not_accused(case: dict[str, Any], tmp_path: Path) -> None:
    for finding in _read(case["text"], tmp_path / "log.txt").findings:
        assert finding.severity.order >= NOTICE.order
