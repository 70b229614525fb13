"""Pens: what SGR makes of one, and the shortest way to the next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.terminal.painting.pens import DEFAULT, OFF, Pen, PictureError, change, turned

COLORS = st.sampled_from(["", "31", "97", "38;5;200", "38;2;1;2;3"])
GROUNDS = st.sampled_from(["", "41", "107", "48;5;200", "48;2;1;2;3"])
PENS = st.builds(
    Pen, st.frozensets(st.sampled_from(sorted(OFF)), max_size=3), COLORS, GROUNDS, st.just("")
)


@given(PENS, PENS)
def test_a_change_turns_one_pen_into_the_other(before: Pen, after: Pen) -> None:
    sequence = change(before, after)
    if sequence:
        assert turned(before, sequence.removeprefix("\x1b[").removesuffix("m")) == after
    assert bool(sequence) == (before != after)
    assert len(sequence) <= len(change(None, after))


def test_a_change_says_only_what_changes() -> None:
    dark = Pen(frozenset({1}), "38;2;1;2;3", "48;2;9;9;9")
    assert change(dark, dark._replace(front="31")) == "\x1b[31m"
    assert change(dark, dark._replace(attributes=frozenset())) == "\x1b[22m"
    assert change(dark, DEFAULT) == "\x1b[m"
    assert change(None, DEFAULT) == "\x1b[m"
    # 22 ends both, so what stays is said again.
    both = Pen(frozenset({1, 2}), "38;2;1;2;3", "48;2;9;9;9")
    assert change(both, both._replace(attributes=frozenset({2}))) == "\x1b[22;2m"


def test_a_link_is_opened_and_closed() -> None:
    linked = DEFAULT._replace(link="id=1;https://example.org")
    assert change(DEFAULT, linked) == "\x1b]8;id=1;https://example.org\x1b\\"
    assert change(linked, DEFAULT) == "\x1b]8;;\x1b\\"
    assert change(None, linked).endswith("\x1b[m")


@pytest.mark.parametrize("parameters", ["38;2;1;2", "48;7;1", "58;2;1;2;3", "77"])
def test_what_no_pen_can_say_is_an_error(parameters: str) -> None:
    with pytest.raises(PictureError):
        turned(DEFAULT, parameters)
