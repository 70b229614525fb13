"""Has the terminal before Textual does: for a picture that is drawn before Textual is imported."""

from __future__ import annotations

import sys
import termios
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gputop.terminal.job_control import in_front
from gputop.terminal.painting.holding import holding

if TYPE_CHECKING:
    from textual.driver import Driver

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
"""The alternate screen, on which the shell's text is not touched. Entering clears it."""
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_LOCAL = 3
"""Place of the local modes in what tcgetattr gives (termios(3))."""
_COOKED = termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG
"""Modes that Textual switches off too: a key that is typed now waits for the app."""


class EarlyScreen:
    """The alternate screen, until a driver of Textual's takes it over as it is.

    A signal that ends the process gives the terminal back (`hangup.guard`).
    """

    def __init__(self) -> None:
        self._before: list[Any] | None = None
        """The terminal's modes before it was ours; None while it is not."""
        self._picture = ""

    def draw(self, picture: str) -> None:
        """Show a picture; nothing where the terminal is not ours to draw on."""
        stdin, out = sys.__stdin__, sys.__stderr__
        if stdin is None or out is None or self._before is not None:
            return
        if not in_front():
            return  # started with `&`: Textual knows how to wait
        with suppress(OSError, ValueError, termios.error):
            before = termios.tcgetattr(stdin)
            modes = [*before]
            modes[_LOCAL] &= ~_COOKED
            holding.begun = True
            termios.tcsetattr(stdin, termios.TCSANOW, modes)
            self._before, self._picture = before, picture
            out.write(f"{ENTER}{HIDE_CURSOR}{picture}")
            out.flush()

    def give_back(self) -> None:
        """Restore the terminal, unless a driver has taken it over, which then does that."""
        before = self._taken()
        if before is None or sys.__stdin__ is None or sys.__stderr__ is None:
            return
        with suppress(OSError, ValueError, termios.error):
            termios.tcsetattr(sys.__stdin__, termios.TCSANOW, before)
            sys.__stderr__.write(f"{SHOW_CURSOR}{LEAVE}")
            sys.__stderr__.flush()
            holding.begun = False

    def driver(self, base: type[Driver]) -> type[Driver]:
        """A driver that goes on with what is on screen, so that it does not flicker."""
        early = self

        class Continuing(base):  # type: ignore[misc, valid-type]
            attrs_before: list[Any] | None

            def start_application_mode(self) -> None:
                if early._before is not None:
                    self.shown_before = early._picture
                super().start_application_mode()
                before = early._taken()
                if before is not None:
                    # At the end it restores these, not the modes that it found.
                    self.attrs_before = before

            def write(self, data: str) -> None:
                if data != ENTER or early._before is None:
                    super().write(data)

        return Continuing

    def _taken(self) -> list[Any] | None:
        """The modes to restore, for whoever has the terminal from here on."""
        before, self._before = self._before, None
        return before
