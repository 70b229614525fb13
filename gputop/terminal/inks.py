"""Inks as escape sequences, for what is drawn while Textual is not there yet."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from rich.color import Color, ColorSystem, ColorType

import gputop.themes
from gputop.terminal.painting.pens import DEFAULT, Pen, change, turned
from gputop.topology.toml import tomllib

THEMES = Path(gputop.themes.__file__).parent
"""The folder of our own themes."""
DARK_FILE, SIXTEEN_FILE = "dark.toml", "sixteen.toml"
"""The theme of a start, and the one for terminals of sixteen colours."""
OURS = "gputop-"
"""How the names of our own themes begin; the rest is the name of the file."""
ATTRIBUTES = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7"}
"""Words of an ink that are no colour, with their parameter of SGR (ECMA-48)."""
HEAVY = frozenset({"bad", "strong"})
"""Inks that are bold besides."""
_SYSTEMS = {"truecolor": ColorSystem.TRUECOLOR, "24bit": ColorSystem.TRUECOLOR}
_TERMS = {
    "256color": ColorSystem.EIGHT_BIT,
    "kitty": ColorSystem.EIGHT_BIT,
    "16color": ColorSystem.STANDARD,
}


def colour_system() -> ColorSystem:
    """How many colours the terminal shows, as Rich finds it for Textual."""
    said = os.environ.get("COLORTERM", "").strip().lower()
    term = os.environ.get("TERM", "").strip().lower()
    return _SYSTEMS.get(said) or _TERMS.get(term.rpartition("-")[2], ColorSystem.STANDARD)


class EarlyInks:
    """Writes texts in the inks of the theme that a start has."""

    def __init__(
        self, system: ColorSystem, *, coloured: bool = True, file: str = DARK_FILE
    ) -> None:
        """`file`: the theme, where the terminal shows more than sixteen colours."""
        name = SIXTEEN_FILE if system == ColorSystem.STANDARD else file
        theme = tomllib.loads((THEMES / name).read_text(encoding="utf-8"))
        self._system = system
        self._colours: dict[str, str] = theme["colors"] | theme["variables"] if coloured else {}
        self._pen = cache(self._worked_out)
        self._last: Pen | None = None

    @classmethod
    def of_terminal(cls, theme: str = "") -> EarlyInks | None:
        """What this terminal shows, without colours for somebody who wants none.

        `theme`: the name of the one to wear, "" for the usual one; None where it is not one of
        ours, whose colours only Textual works out.
        """
        file = DARK_FILE
        if theme:
            ours = {f"{OURS}{entry.name}": entry.name for entry in THEMES.iterdir()}
            if f"{theme}.toml" not in ours:
                return None
            file = ours[f"{theme}.toml"]
        return cls(colour_system(), coloured="NO_COLOR" not in os.environ, file=file)

    def text(self, text: str, ink: str, ground: str) -> str:
        """A text in an ink, on a ground: both names as `theming.Inks` knows them."""
        return f"{self._turned(ink.partition('@')[0].strip(), ground)}{text}"

    def erased(self, ground: str, how: str) -> str:
        """Erase in the colour of a ground; `how` is the end of the sequence: "J", "K"."""
        return f"{self._turned('', ground)}\x1b[{how}"

    def _turned(self, ink: str, ground: str) -> str:
        """What turns the terminal from the last ink to this one."""
        last, self._last = self._last, self._pen(ink, ground)
        return change(last, self._last)

    def _worked_out(self, ink: str, ground: str) -> Pen:
        words = ink.split()
        codes = [ATTRIBUTES[word] for word in words if word in ATTRIBUTES]
        if ground == "cursor" or HEAVY.intersection(words):
            codes.append(ATTRIBUTES["bold"])
        named = next((word for word in words if word in self._colours), "foreground")
        over = f"{ground}-text"
        named = over if over in self._colours else named
        codes += self._parameters(named, foreground=True)
        codes += self._parameters(ground, foreground=False)
        return turned(DEFAULT, ";".join(("0", *codes)))

    def _parameters(self, name: str, *, foreground: bool) -> tuple[str, ...]:
        value = self._colours.get(name)
        if value is None:
            return ()
        colour = Color.parse(value)
        if colour.type == ColorType.TRUECOLOR:
            colour = colour.downgrade(self._system)
        return tuple(colour.get_ansi_codes(foreground=foreground))
