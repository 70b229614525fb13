"""What a suite of probes came to, by what each of them did."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gputop.measuring.state import SuiteState
from gputop.probes.protocol.status import Status

C, F, D, S = Status.CANCELLED, Status.FINISHED, Status.DIED, Status.SKIPPED


@pytest.mark.parametrize(
    ("steps", "whole"),
    [
        ((F, F), F), ((D, F), F), ((S, F), F), ((F, C), C), ((D, C, S), C), ((S, D), D),
        ((S, S), S), ((), S),
    ],
)  # fmt: skip
def test_one_probe_that_finished_makes_a_result_unless_somebody_ended_it(
    steps: tuple[Status, ...], whole: Status
) -> None:
    ran: Any = tuple(SimpleNamespace(status=status) for status in steps)
    assert SuiteState(ran, running=False).status is whole
    assert SuiteState(ran, running=False, broken=True).status is Status.FAILED
    assert SuiteState(ran).status is Status.RUNNING
