"""One fault has one reason, whoever tells it."""

from __future__ import annotations

from gputop.topology.model.finding import Finding
from gputop.topology.model.one_reason import without_told
from gputop.topology.model.severity import BROKEN, SLOW

KILLED = Finding.of(id="oom-killed", severity=SLOW, title="the kernel ended a program")
RANK = Finding.of(id="rank-out-of-memory", severity=BROKEN, title="a rank was killed")
OTHER = Finding.of(id="nvlink-down", severity=SLOW, title="a link is down")


def test_a_row_that_says_more_of_the_same_lines_takes_the_place_of_the_rule() -> None:
    assert without_told((KILLED, OTHER), (RANK,)) == (OTHER,)
    assert without_told((KILLED, OTHER), (OTHER,)) == (KILLED, OTHER)
    assert without_told((KILLED,), ()) == (KILLED,)
