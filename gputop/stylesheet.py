"""The styles of the app, parsed once for a theme."""

from __future__ import annotations

from textual.cache import LRUCache
from textual.css.stylesheet import Stylesheet

SOURCES = 512
"""Room for the styles of all widgets; each kind has its own."""


class KeptStylesheet(Stylesheet):
    """Parses what is new, and everything only after a change of the theme.

    Textual's own parses all styles again whenever a screen is shown for the first time.
    """

    def __init__(self, *, variables: dict[str, str] | None = None) -> None:
        super().__init__(variables=variables)
        self._parse_cache = LRUCache(SOURCES)

    def set_variables(self, variables: dict[str, str]) -> None:
        """Take other colours, if they are others."""
        if variables != self._variables:
            super().set_variables(variables)

    def reparse(self) -> None:
        """Parse what was not parsed with these variables."""
        self.parse()
