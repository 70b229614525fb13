"""Values that nvidia-smi could not print: Unknown Error, a reset that is required, a lost GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from tests.support.places import RECORDINGS

WHOLE = RECORDINGS / "nvidia-public/t4.xml"


@pytest.mark.parametrize(
    ("words", "verdict", "finding"),
    [
        ("Unknown Error", "cannot tell", "driver-fails"),
        ("[GPU requires reset]", "broken", "gpu-reset-required"),
        ("GPU is lost", "broken", "gpu-lost"),
    ],
)
def test_what_nvidia_smi_could_not_read_is_no_health(
    tmp_path: Path, words: str, verdict: str, finding: str
) -> None:
    text = WHOLE.read_text()
    assert "<serial>" in text
    before, _, after = text.partition("<serial>")
    file = tmp_path / "q.xml"
    file.write_text(f"{before}<serial>{words}</serial>{after.partition('</serial>')[2]}")
    whole = diagnose(Case(Node(load([str(WHOLE)]).snapshot)))
    assert [lack.id for lack in whole.lacking] == ["bus"]  # no output shows what fell off the bus
    found = diagnose(Case(Node(load([str(file)]).snapshot)))
    assert found.verdict == verdict
    assert found.findings[0].id == finding


def test_an_output_without_its_section_on_errors_is_not_examined(tmp_path: Path) -> None:
    before, _, after = WHOLE.read_text().partition("<ecc_errors>")
    file = tmp_path / "q.xml"
    file.write_text(before + after.partition("</ecc_errors>")[2])
    found = diagnose(Case(Node(load([str(file)]).snapshot)))
    assert found.verdict == "cannot tell"
    assert [lack.id for lack in found.lacking] == ["errors", "bus"]
