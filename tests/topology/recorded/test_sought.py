"""Texts are found wherever they stand, whatever stands beside them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.topology.recorded.sought import Sought, Vocabulary, lines_with

PIECES = [b"ab", b"a1", b" ", b"\t", b":", b"7", b"1042", b"0" * 40, b"cd", b" x ", b"\xc2\xa0"]
TEXTS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map(b"".join)
LINES = st.lists(st.sampled_from([*PIECES, b"\n"]), min_size=1, max_size=6).map(b"".join)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(LINES, max_size=5), st.lists(LINES, max_size=5), TEXTS)
def test_everything_that_stands_in_a_text_is_found(
    before: list[bytes], after: list[bytes], wanted: bytes
) -> None:
    text = b"".join([*before, wanted, *after])
    assert Sought([wanted]).found(Vocabulary(text)) == [wanted]


def test_what_does_not_stand_there_is_not_found() -> None:
    text = b"GPU 12 is lost: reboot"
    wanted = [b"GPU 1", b"is lo", b" is ", b"is found", b"GPU  12", b"GPU 13", b"GPU", b""]
    assert Sought(wanted).found(Vocabulary(text)) == [b"GPU 1", b"is lo", b" is ", b"GPU", b""]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(LINES, max_size=5), st.lists(TEXTS, max_size=8))
def test_no_more_is_found_than_stands_there(parts: list[bytes], wanted: list[bytes]) -> None:
    text = b"".join(parts)
    there = [one for one in dict.fromkeys(wanted) if one in text]
    assert Sought(wanted).found(Vocabulary(text)) == there
    assert Sought(wanted).any(Vocabulary(text)) == bool(there)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_are_found_with_what_they_hold(end: bytes) -> None:
    text = b"a b\n\nb c b" + end
    assert lines_with([b"b", b"c", b"d"], text) == {b"a b": [b"b"], b"b c b": [b"b", b"c"]}
