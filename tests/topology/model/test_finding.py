"""What a finding says of its cause."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.model.finding import Candidate, Finding
from gputop.topology.model.severity import BROKEN, CANNOT_TELL, Sureness

ONE_OF_SEVERAL: dict[str, Any] = {"cause": "A port is down.", "sureness": Sureness.POSSIBLE}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "Possibly: A port is down."),
        ({"sureness": Sureness.LIKELY}, "A port is down."),
        ({"sureness": Sureness.UNSAID}, "A port is down."),
        ({"cause": ""}, ""),
        ({"cause": "Mostly a port is down."}, "Mostly a port is down."),
        ({"cause": "This is an echo: a port is down."}, "This is an echo: a port is down."),
        ({"candidates": (Candidate(cause="A port."),)}, "A port is down."),
        ({"severity": CANNOT_TELL}, "A port is down."),
    ],
)
def test_a_cause_that_is_only_possible_is_called_so(changed: dict[str, Any], said: str) -> None:
    fields = {"severity": BROKEN, **ONE_OF_SEVERAL, **changed}
    assert Finding.of(id="a-fault", title="a fault", **fields).said_cause == said
