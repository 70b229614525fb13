"""A picture reads what Textual writes, and refuses what it cannot follow."""

from __future__ import annotations

import pytest

from gputop.terminal.painting.pens import DEFAULT, Pen, PictureError
from gputop.terminal.painting.picture import Picture, cells_of

RED = Pen(front="31")


def test_text_lies_where_it_was_put_with_its_pen() -> None:
    picture = Picture()
    assert picture.read("\x1b[2;3H\x1b[31mab\x1b[0mc\n\x1b[1;1Hx") == ""
    assert picture.texts == [["x"], [None, None, "a", "b", "c"]]
    assert picture.pens[1] == [None, None, RED, RED, DEFAULT]
    assert picture.changed == {0, 1}
    assert (picture.row, picture.column) == (0, 1)


def test_what_is_no_picture_goes_on_in_its_order() -> None:
    aside = (
        "\x1b[?1000h\x1b[?2004h\x1b[>9u\x1b[<u\x1b[?2048$p\x1b]52;c;eA==\x07\x07\x1b[5 q"
        "\x1b[6n\x1b]0;title\x1b\\"
    )
    picture = Picture()
    assert picture.read(f"\x1b[H{aside}a") == aside
    assert picture.texts == [["a"]]
    assert not picture.emptied


def test_marks_of_a_frame_are_kept_back_and_another_screen_is_noticed() -> None:
    picture = Picture()
    assert picture.read("\x1b[?2026h\x1b[Ha\x1b[?2026l\x1b[?1049h") == "\x1b[?1049h"
    assert picture.synchronized
    assert picture.emptied


@pytest.mark.parametrize("at", range(1, 20))
def test_a_sequence_may_be_cut_anywhere(at: int) -> None:
    data = "\x1b[1;2H\x1b[31ma\x1b]0;t\x1b\\"
    picture = Picture()
    assert picture.read(data[:at]) + picture.read(data[at:]) == "\x1b]0;t\x1b\\"
    assert picture.texts == [[None, "a"]]
    assert picture.pens[0][1] == RED


@pytest.mark.parametrize(
    "data",
    [
        "text without a place",
        "\x1b[Ha\nb",  # a terminal may scroll
        "\x1b[H\x1b[K",
        "\x1b[2J",
        "\x1b[H\x1b[3X",
        "\x1b[Ha\x1b[5b",
        "\x1b[Ha\tb",
        "\x1b[Ha\x9b1m",
        "\x1bPq\x1b\\",
        "\x1bc",
        "\x1b[2000;1Ha",
        "\x1b[1;1999Habc",
        "\x1b[4:3m",
        "\x1b[?5W",
    ],
)
def test_what_it_cannot_follow_is_an_error(data: str) -> None:
    with pytest.raises(PictureError):
        Picture().read(data)


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("ab▼·", ["a", "b", "▼", "·"]),
        ("日本", ["日", "", "本", ""]),
        ("e\u0301x", ["e\u0301", "x"]),
        ("a👩\u200d🔬b", ["a", "👩\u200d🔬", "", "b"]),
        ("☁\ufe0f!", ["☁\ufe0f", "", "!"]),
    ],
)
def test_letters_fill_as_many_cells_as_they_are_wide(text: str, cells: list[str]) -> None:
    assert cells_of(text) == ("", tuple(cells))


def test_a_mark_joins_the_letter_before_it() -> None:
    picture = Picture()
    picture.read("\x1b[He\x1b[31m\u0301x")
    assert picture.texts == [["e\u0301", "x"]]


def test_half_a_wide_letter_that_is_overwritten_leaves_a_blank() -> None:
    picture = Picture()
    picture.read("\x1b[H日本語")
    picture.read("\x1b[1;2Hab")
    assert picture.texts == [[" ", "a", "b", " ", "語", ""]]
