"""The sign of each severity."""

from __future__ import annotations

from gputop.pages.severity import SIGNS
from gputop.topology.diagnosis.finding import SEVERITIES


def test_every_severity_has_a_sign_of_its_own() -> None:
    assert set(SIGNS) == set(SEVERITIES)
    assert len({sign for sign, _, _ in SIGNS.values()}) == len(SIGNS)
