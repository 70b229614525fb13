"""Texts are found wherever they stand, whatever stands beside them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.topology.recorded.sought import Sought, Vocabulary, lines_with

PIECES = st.sampled_from([b"ab", b"a1", b" ", b"\n", b"\t", b":", b"7", b"cd", b" x ", b"\xc2\xa0"])
TEXTS = st.lists(PIECES, min_size=1, max_size=6).map(b"".join)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(TEXTS, max_size=5), st.lists(TEXTS, max_size=5), TEXTS)
def test_everything_that_stands_in_a_text_is_found(
    before: list[bytes], after: list[bytes], wanted: bytes
) -> None:
    text = b"".join([*before, wanted, *after])
    assert Sought([wanted]).found(Vocabulary(text)) == [wanted]


def test_what_does_not_stand_there_is_not_found() -> None:
    text = b"GPU 12 is lost: reboot"
    wanted = [b"GPU 1", b"is lo", b" is ", b"is found", b"GPU  12", b"lost, ", b"GPU 13", b""]
    assert Sought(wanted).found(Vocabulary(text)) == [b"GPU 1", b"is lo", b" is ", b""]
    assert b"GPU 13" in Sought(wanted).possible(Vocabulary(text))


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_are_found_with_what_they_hold(end: bytes) -> None:
    text = b"a b\n\nb c b" + end
    assert lines_with([b"b", b"c", b"d"], text) == {b"a b": [b"b"], b"b c b": [b"b", b"c"]}
