"""Since when communicators stand still."""

from __future__ import annotations

from gputop.topology.jobs.ras.answer import RasAnswer, parse
from gputop.topology.jobs.ras.memory import quiet, remember
from gputop.topology.jobs.ras.text import parse as parse_text
from tests.topology.jobs.ras.service import document, rank
from tests.topology.jobs.ras.test_text import BEHIND, HEALTHY


def told(*launched: int, name: str = "0xa") -> RasAnswer:
    return parse(document([rank(n, 10 + n, count) for n, count in enumerate(launched)], name=name))


def test_what_does_not_change_is_as_old_as_its_first_look() -> None:
    memory = remember({}, [told(7, 6)], 100.0)
    memory = remember(memory, [told(7, 6)], 120.0)
    assert quiet(memory, "0xa", 131.5) == 31.5
    memory = remember(memory, [told(7, 7)], 132.0)
    assert quiet(memory, "0xa", 133.0) == 1.0
    assert quiet(memory, "0xb", 133.0) is None
    assert quiet(remember(memory, [told(1, name="0xb")], 134.0), "0xa", 135.0) is None


def test_a_text_is_remembered_where_it_counts() -> None:
    memory = remember({}, [parse_text(BEHIND.encode()), parse_text(HEALTHY.encode())], 1.0)
    assert quiet(remember(memory, [parse_text(BEHIND.encode())], 4.0), "0xa1b2c3d4", 9.0) == 8.0
    assert quiet(memory, None, 9.0) is None
