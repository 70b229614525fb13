"""What a log says of a node: nothing is refused that speaks of a failure."""

from __future__ import annotations

import pytest

from gputop.topology.diagnosis.symptoms.part import part_of_log
from gputop.topology.diagnosis.symptoms.unproven import UNKNOWN
from gputop.topology.model.severity import CANNOT_TELL

FAILS = "nvidia: the frobnicator could not attach: unknown error"
TIMEOUT = "rdzv_configs     : {'timeout': 900}"


def test_a_failure_in_unknown_words_is_told_and_not_refused() -> None:
    part = part_of_log(f"{TIMEOUT}\n{FAILS}\n".encode(), "said.txt", alone=True)
    assert part is not None
    (found,) = part.symptoms
    assert (found.id, found.severity) == (UNKNOWN, CANNOT_TELL)
    assert FAILS in found.title
    assert [fact.line for fact in found.evidence] == [2]


@pytest.mark.parametrize(
    "text", [TIMEOUT, "We had errors last week. They went away.", "error: cats"]
)
def test_other_text_is_none_of_a_node(text: str) -> None:
    assert part_of_log(f"{text}\n".encode(), "said.txt", alone=True) is None


def test_codes_that_are_handed_up_name_the_part_that_failed() -> None:
    text = "".join(
        f"n1:11:12 [0] NCCL INFO {file} -> 2\n"
        for file in ("misc/socket.cc:564", "bootstrap.cc:270", "init.cc:1303")
    )
    part = part_of_log(text.encode(), "said.txt", alone=True)
    assert part is not None
    (found,) = part.symptoms
    assert found.id == "returned-error"
    assert "connection" in found.candidates[0].cause
    ends = (
        "n1:11:11 [0] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 10.0.0.4<56849> "
    )
    named = part_of_log(
        (ends + "returned 113(No route to host)\n" + text).encode(), "a", alone=True
    )
    assert named is not None
    assert "returned-error" not in {one.id for one in named.symptoms if one.severity.counts}
