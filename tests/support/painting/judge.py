"""pyte as the judge: what a terminal shows after the text of Textual, and after ours."""

from __future__ import annotations

import re
from typing import Any
from weakref import WeakKeyDictionary

import pyte
import pytest
from pyte.screens import Char
from rich.control import Control
from textual import constants
from textual.app import App

from gputop.terminal.painting.painter import Painter
from gputop.terminal.painting.picture import Picture

_UNKNOWN = re.compile(
    r"\x1b\[[?>=<][^hl\x1b]*?[a-zA-Z]|\x1b\[[\d;]*[nt]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
)
"""What pyte takes for text; none of it is a part of the picture."""
_CUT = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?)?\Z")
DIM, BLINK = 2, 5


class Shown(pyte.Screen):
    """A terminal that draws dim cells as blinking ones, which pyte knows, and no half letters."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__(columns, rows)
        self.reset_mode(7, private=True)
        self._stream = pyte.Stream(self)
        self._rest = ""

    def feed(self, text: str) -> None:
        """Show what is written; a sequence that is not whole yet waits for its end."""
        text, self._rest = self._rest + text, ""
        if cut := _CUT.search(text):
            text, self._rest = text[: cut.start()], cut[0]
        self._stream.feed(_UNKNOWN.sub("", text))

    def select_graphic_rendition(self, *codes: int, **rest: bool) -> None:
        """Dim and bold end together."""
        told: list[int] = []
        left = list(codes)
        while left:
            code = left.pop(0)
            count = {5: 1, 2: 3}[left[0]] + 1 if code in (38, 48) else 0
            told += {DIM: [BLINK], 22: [22, 25]}.get(code, [code]) + left[:count]
            del left[:count]
        super().select_graphic_rendition(*told)

    def draw(self, data: str) -> None:
        """Blank the other half of a wide letter that is overwritten."""
        for letter in data:
            line, before = self.buffer[self.cursor.y], self.cursor.x
            halved = before < self.columns and line[before].data == ""
            super().draw(letter)
            after = self.cursor.x
            if halved and after > before:
                line[before - 1] = line[before - 1]._replace(data=" ")
            if before < after < self.columns and line[after].data == "":
                line[after] = line[after]._replace(data=" ")

    def cells(self) -> list[list[Char]]:
        """Every cell, with its colours and attributes."""
        return [[self.buffer[y][x] for x in range(self.columns)] for y in range(self.lines)]


class Judge:
    """Two terminals side by side: one gets Textual's text, the other what the painter sends."""

    def __init__(self, columns: int, rows: int, *, counts_only: bool = False) -> None:
        self._counts_only = counts_only
        self._unseen: list[tuple[str, str]] = []
        """pyte is slow: an app would be looked at too early while it waits for it."""
        self.theirs, self.ours = Shown(columns, rows), Shown(columns, rows)
        self._picture = Picture()
        self._painter = Painter(self._picture)
        self._painter.fit(columns, rows)
        self.theirs_bytes = self.ours_bytes = 0

    def write(self, text: str, most: int | None = None) -> bool:
        """Show a frame, or as much of it as so many bytes bring; whether it is whole."""
        self._picture.read(text)
        sent, whole = self._painter.paint(most)
        if not self._counts_only:
            self._unseen.append((text, sent))
        self.theirs_bytes += len(text.encode())
        self.ours_bytes += len(sent.encode())
        return whole

    def resize(self, columns: int, rows: int) -> None:
        """Make both terminals as large; a terminal keeps what it shows, as far as that fits."""
        self.look()
        for shown in (self.theirs, self.ours):
            shown.resize(rows, columns)
        self._painter.fit(columns, rows)

    def look(self) -> None:
        """Let both terminals show what was written."""
        for text, sent in self._unseen:
            self.theirs.feed(text)
            self.ours.feed(sent)
        self._unseen.clear()

    def differences(self) -> list[str]:
        """The cells that differ."""
        self.look()
        ours = self.ours.cells()
        return [
            f"row {y}, column {x}: {cell} is {ours[y][x]}"
            for y, line in enumerate(self.theirs.cells())
            for x, cell in enumerate(line)
            if cell != ours[y][x]
        ]


class Judged:
    """Shows everything that an app without a terminal draws to a judge of its size."""

    def __init__(self, *, counts_only: bool) -> None:
        self.judge: Judge | None = None
        self._counts_only = counts_only
        self._size = (0, 0)
        self.frames = 0

    def frame(self, app: App[Any], renderable: Any) -> None:
        """Take what `App._display` was given."""
        if not hasattr(renderable, "render_segments"):
            return
        size = (app.size.width, app.size.height)
        if self.judge is None:
            self.judge = Judge(*size, counts_only=self._counts_only)
        elif size != self._size:
            self.judge.resize(*size)
        self._size = size
        cursor = app.screen.outer_size.clamp_offset(app.cursor_position)
        text = renderable.render_segments(app.console) + Control.move_to(*cursor).segment.text
        self.judge.write(text)
        self.frames += 1

    def ours_bytes(self) -> int:
        """Bytes that the painter sent since this was asked last."""
        assert self.judge is not None
        sent, self.judge.ours_bytes = self.judge.ours_bytes, 0
        return sent

    def differences(self) -> list[str]:
        """The cells in which both terminals differ."""
        assert self.judge is not None
        return self.judge.differences()


class Watched:
    """All apps that draw while it is entered, each with its judge; colours are of 24 bits."""

    def __init__(self, patch: pytest.MonkeyPatch, *, counts_only: bool = False) -> None:
        self._counts_only = counts_only
        self._seen: WeakKeyDictionary[App[Any], Judged] = WeakKeyDictionary()
        self.all: list[Judged] = []
        display = App._display

        def both(app: App[Any], screen: Any, renderable: Any) -> None:
            if renderable is not None and not app._batch_count:
                self.of(app).frame(app, renderable)
            display(app, screen, renderable)

        patch.setattr(App, "_display", both)
        patch.setattr(constants, "COLOR_SYSTEM", "truecolor")

    def of(self, app: App[Any]) -> Judged:
        """The judge of one app."""
        if app not in self._seen:
            self._seen[app] = Judged(counts_only=self._counts_only)
            self.all.append(self._seen[app])
        return self._seen[app]
