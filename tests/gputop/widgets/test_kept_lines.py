"""Lines that a widget keeps are those that Textual would draw."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from textual.app import App
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gputop.widgets.board import Board
from gputop.widgets.kept_lines import KeptLines
from gputop.widgets.spans import Line

pytestmark = pytest.mark.usefixtures("every_picture")


def lines(*texts: str) -> tuple[Line, ...]:
    return tuple(((text, ""),) for text in texts)


class Alone(App[None]):
    CSS = "Board { height: 6; border-top: solid red; } .low { background: blue; }"

    def compose(self) -> Iterator[Board]:
        yield Board(fixed_rows=1)


def drawn(board: Board, crop: Region) -> tuple[list[str], list[Strip]]:
    """What a board gives to be shown, as text and as it is."""
    given = board.render_lines(crop)
    # Textual draws nothing anew now: it gives what it has drawn of each line last.
    assert given == Widget.render_lines(board, crop)
    return [strip.text.rstrip() for strip in given], given


async def test_whatever_changes_the_lines_are_those_that_textual_draws() -> None:
    async with Alone().run_test(size=(12, 8)) as pilot:
        board = pilot.app.query_one(Board)
        crop = Region(0, 0, 12, 6)
        board.show(lines(*"abcdefgh"))
        await pilot.pause()
        assert drawn(board, crop)[0][1:] == ["a", "b", "c", "d", "e"]
        board.show(lines(*"aXcdYfgh"))
        assert drawn(board, crop)[0][1:] == ["a", "X", "c", "d", "Y"]
        assert drawn(board, Region(0, 2, 12, 2))[0] == ["X", "c"]
        assert drawn(board, crop)[0][1:] == ["a", "X", "c", "d", "Y"]
        board.scroll_to(0, 3, animate=False)
        await pilot.pause()
        assert drawn(board, crop)[0][1:] == ["a", "Y", "f", "g", "h"]
        before = drawn(board, crop)[1]
        board.caption("name")
        assert "name" in drawn(board, crop)[0][0]
        board.add_class("low")
        await pilot.pause()
        assert not any(a == b for a, b in zip(before, drawn(board, crop)[1], strict=True))
        # A change of all lines that Textual notes for those of the content alone.
        board.marks = ()
        board.lines = lines(*"ijklmnop")
        board.release_lines()
        board.refresh()
        assert drawn(board, crop)[0][1:] == ["i", "m", "n", "o", "p"]


async def test_what_has_not_changed_is_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Alone().run_test(size=(12, 8)) as pilot:
        board = pilot.app.query_one(Board)
        crop = Region(0, 0, 12, 6)
        board.show(lines(*"abcd"))
        await pilot.pause()
        first = board.render_lines(crop)
        asked: list[Region] = []

        def render_lines(_: Widget, crop: Region) -> list[Strip]:
            asked.append(crop)
            return first[crop.y : crop.bottom]

        monkeypatch.setattr(Widget, "render_lines", render_lines)
        assert board.render_lines(crop) is first
        assert asked == []
        board.show(lines(*"aXcd"))
        board.render_lines(crop)
        assert asked == [Region(0, 2, 12, 1)]
        # A Textual that notes elsewhere what has changed draws all.
        monkeypatch.delattr(board._styles_cache, "_dirty_lines")
        board.render_lines(crop)
        assert asked[1:] == [crop]


async def test_lines_that_are_let_go_are_drawn_again() -> None:
    async with Alone().run_test(size=(12, 8)) as pilot:
        widget: KeptLines = pilot.app.query_one(Board)
        crop = Region(0, 0, 12, 6)
        first = widget.render_lines(crop)
        widget.release_lines()
        again = widget.render_lines(crop)
        assert again == first
        assert again is not first
