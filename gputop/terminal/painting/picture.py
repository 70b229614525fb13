"""What the terminal has to show: a grid of cells, filled from the text that Textual writes."""

from __future__ import annotations

import re
from functools import lru_cache

from rich.cells import cell_len

from gputop.terminal.painting.pens import DEFAULT, Pen, PictureError, turned

MOST_ROWS, MOST_COLUMNS = 1000, 2000
JOINERS = "\u200d\ufe0f"
_TOKEN = re.compile(
    r"(?:\x1b\[([\d;]*)m)?([^\x00-\x1f\x7f-\x9f]+)(\x1b\[0m)?"  # text, often in its colours
    r"|\x1b\[([\d;]*)m"
    r"|\x1b\[(\d*)(?:;(\d*))?H"
    r"|(\n)"
    r"|(\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x07)"
    r"|(\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?)?\Z)"  # the end of the data cuts it
)
_TEXT, _RESET, _PEN, _ROW, _COLUMN, _LINE, _OTHER, _CUT = range(2, 10)
_LINK = re.compile(r"\x1b\]8;(.*?)(?:\x07|\x1b\\)", re.DOTALL)
_SYNCHRONIZED = re.compile(r"\x1b\[\?2026[hl]")
_EMPTIES = re.compile(r"\x1b\[\?(?:47|1047|1049)[hl]")
_HARMLESS = re.compile(
    r"\x1b\[(?:[?>=<][\d;:]*\$?[hlpu]|[\d;]*(?: q|[nct]|\$p))|\x1b\].*|\x07", re.DOTALL
)
"""Modes, questions, titles, the clipboard: they change no cell."""


class Picture:
    """Reads text as a terminal does; rows and columns count from 0.

    A cell is its characters and its pen. The right half of a wide character is "", and a cell of
    which nothing is known yet is None.
    """

    def __init__(self) -> None:
        self.texts: list[list[str | None]] = []
        self.pens: list[list[Pen | None]] = []
        self.changed: set[int] = set()
        """Rows that were written to; whoever has seen them takes them out."""
        self.wide: set[int] = set()
        """Rows that have had a wide character."""
        self.emptied = False
        """Whether the terminal was told to show another, empty screen."""
        self.synchronized = False
        """Whether the terminal can be told where a frame begins and ends."""
        self.row: int | None = None
        self.column = 0
        self._pen = DEFAULT
        self._rest = ""

    def read(self, data: str) -> str:
        """Take what Textual writes; gives back what is no part of the picture.

        Raises PictureError.
        """
        data, self._rest = self._rest + data, ""
        aside: list[str] = []
        end = 0
        for token in _TOKEN.finditer(data):
            if token.start() != end:
                break
            end, kind = token.end(), token.lastindex
            if kind in (_TEXT, _RESET):
                if token[1] is not None:
                    self._pen = turned(self._pen, token[1])
                self._write(token[_TEXT])
                if kind == _RESET:
                    self._pen = turned(self._pen, "0")
            elif kind == _PEN:
                self._pen = turned(self._pen, token[_PEN])
            elif kind in (_ROW, _COLUMN):
                self.row = int(token[_ROW] or 1) - 1
                self.column = int(token[_COLUMN] or 1) - 1
            elif kind == _LINE:
                self.row = None  # a place follows, or the terminal would scroll
            elif kind == _CUT:
                self._rest = token[0]
            else:
                aside.append(self._other(token[0]))
        if end != len(data):
            raise PictureError(repr(data[end : end + 20]))
        return "".join(aside)

    def _other(self, sequence: str) -> str:
        link = _LINK.fullmatch(sequence)
        if link is not None:
            self._pen = self._pen._replace(link="" if link[1] == ";" else link[1])
            return ""
        if _SYNCHRONIZED.fullmatch(sequence):
            self.synchronized = True
            return ""
        if not _HARMLESS.fullmatch(sequence):
            raise PictureError(repr(sequence))
        if _EMPTIES.fullmatch(sequence):
            self.emptied = True
        return sequence

    def _write(self, text: str) -> None:
        joined, cells = cells_of(text)
        begin, row = self.column, self.row
        end = begin + len(cells)
        if row is None or row >= MOST_ROWS or end > MOST_COLUMNS:
            raise PictureError(f"text without a place, or at {row}, {begin}")
        while len(self.texts) <= row:
            self.texts.append([])
            self.pens.append([])
        texts, pens = self.texts[row], self.pens[row]
        if len(texts) < end:
            texts += [None] * (end - len(texts))
            pens += [None] * (end - len(pens))
        if joined:
            self._join(texts, begin - 1, joined)
        if row in self.wide:
            # A wide character of which one half is overwritten leaves a blank.
            if begin < len(texts) and texts[begin] == "" and begin:
                texts[begin - 1] = " "
            if end < len(texts) and texts[end] == "":
                texts[end] = " "
        texts[begin:end] = cells
        pens[begin:end] = [self._pen] * len(cells)
        if "" in cells:
            self.wide.add(row)
        self.changed.add(row)
        self.column = end

    def _join(self, texts: list[str | None], column: int, joined: str) -> None:
        """Add characters without a width to the one before them."""
        if column > 0 and texts[column] == "":
            column -= 1
        if column >= 0 and texts[column]:
            texts[column] = f"{texts[column]}{joined}"


@lru_cache(512)
def cells_of(text: str) -> tuple[str, tuple[str, ...]]:
    """The cells that a text fills, and what joins the character before it."""
    if text.isascii() or all(cell_len(character) == 1 for character in text):
        return "", tuple(text)
    joined, cells, width = "", [""][:0], 0
    for number, character in enumerate(text, start=1):
        wider = cell_len(text[:number]) - width
        width += wider
        head = len(cells) - 1
        while head > 0 and not cells[head]:
            head -= 1
        if wider > 0 and character not in JOINERS:
            cells += [character, ""][:wider]
        elif cells:
            cells[head] += character
            cells += [""] * wider
        else:
            joined += character
    return joined, tuple(cells)
