"""Textual's driver, with a painter between it and the terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from textual import events
from textual.driver import Driver
from textual.message import Message

from gputop.terminal.painting.patience import Patience
from gputop.terminal.painting.sender import Sender

READS_KEYS = "textual.drivers.linux_driver"
PAINTED = "LinuxDriver"
"""The driver of Textual that draws on a terminal; any other is left as it is."""


class Painting(Driver):
    """Stands before a driver of Textual in the order of classes; calls documented methods only.

    Where the terminal cannot be opened once more, as for another user after `su`, and where
    Textual writes something unheard of, the driver behind it draws.
    """

    shown_before = ""
    """The text that drew what stands on the terminal already, when it is taken the first time."""
    _sender: Sender | None = None

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._patience = Patience()

    def write(self, data: str) -> None:
        """Give text to the painter."""
        if self._sender is None:
            super().write(data)  # type: ignore[safe-super]
        else:
            self._sender.write(data)

    def start_application_mode(self) -> None:
        """Take the terminal, which is empty then."""
        self._end_sender()
        self._patience.begin()
        loop = asyncio.get_running_loop()

        def give_up(text: str) -> None:
            if self._sender is sender and not given_up:
                given_up.append(True)
                loop.call_soon_threadsafe(self.repaint)
            super(Painting, self).write(text)  # type: ignore[safe-super]

        given_up: list[bool] = []
        terminal = _opened_again()
        shown, self.shown_before = self.shown_before, ""
        sender = None if terminal is None else Sender(terminal, _encoded, give_up, shown)
        self._sender = sender
        super().start_application_mode()  # type: ignore[safe-super]
        if sender is not None:
            sender.begin()

    def run_input_thread(self) -> None:
        """Read keys, without a look at the clock while there are none."""
        with self._patience.of(sys.modules.get(READS_KEYS)):
            super().run_input_thread()  # type: ignore[misc]

    def disable_input(self) -> None:
        """Read no more keys; nobody would read an answer of the terminal then."""
        if self._sender is not None:
            self._sender.rest()
        self._patience.end()
        super().disable_input()  # type: ignore[safe-super]

    def close(self) -> None:
        """Write the rest and let go of the terminal."""
        self._end_sender()
        super().close()
        self._patience.close()

    def process_message(self, message: Message) -> None:
        """Keep the answers to our own questions."""
        if self._sender is not None:
            if isinstance(message, events.CursorPosition) and self._sender.answer():
                return
            if isinstance(message, events.Resize):
                self._sender.resize(*message.size)
        super().process_message(message)

    def repaint(self) -> None:
        """Draw everything again, whatever the terminal shows."""
        if self._sender is not None:
            self._sender.repaint()
        self._app.screen.refresh(layout=True)

    def _end_sender(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.stop()


def painting(chosen: type[Driver]) -> type[Driver]:
    """The driver that Textual chose, with a painter where it draws on a terminal.

    Who names a driver in Textual's own variable gets that one.
    """
    if chosen.__name__ != PAINTED or os.environ.get("TEXTUAL_DRIVER"):
        return chosen
    return type("PaintingDriver", (Painting, chosen), {})


def _opened_again() -> int | None:
    """A descriptor of the terminal that does not block: the one at hand is the shell's too."""
    try:
        name = os.ttyname(sys.__stderr__.fileno())  # type: ignore[union-attr]
        return os.open(name, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (AttributeError, OSError, ValueError):
        return None


def _encoded(text: str) -> bytes:
    """Bytes as Textual's driver would write them: without UTF-8, other signs."""
    stream = sys.__stderr__
    if stream is None:
        return text.encode("utf-8", "replace")
    return text.encode(stream.encoding, stream.errors or "strict")
