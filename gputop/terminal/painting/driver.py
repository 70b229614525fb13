"""Textual's driver, with a painter between it and the terminal."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

from textual import events
from textual.driver import Driver
from textual.message import Message

from gputop.terminal.painting.holding import holding
from gputop.terminal.painting.sender import Sender
from gputop.terminal.size import HIGHEST, WIDEST, bounded

READS_KEYS = "textual.drivers.linux_driver"
PAINTED = "LinuxDriver"
"""The driver of Textual that draws on a terminal; any other is left as it is."""

# Waiting for keys without looking ten times a second whether there are any.
#
# Textual's thread that reads keys wakes every tenth of a second: it gives an Escape that nothing
# follows, and sees that the app ends. That takes a tenth of all that the app takes at rest.
LIVELY_SECONDS = 2.0
"""How long behind a key Textual's own times hold: much more than a terminal takes for a key."""
OLD_MOUSE = re.compile(rb"\x1b\[M[^\x1b]{3}")
OLD_MOUSE_BEGUN = re.compile(rb"\x1b\[(?:M[^\x1b]{0,2})?\Z")

CTRL_C, PASTE_ENDS = b"\x03", b"\x1b[201~"
SEQUENCE = re.compile(r"\x1b\[([\d:;]*)([u~A-FHP-St])")
SEQUENCE_BEGUN = re.compile(r"\x1b\[[\d:;]{1,40}\Z")
"""Textual takes no longer ones for a key."""
LAST_LETTER, SURROGATES = 0x10FFFF, range(0xD800, 0xE000)


def _sound(found: re.Match[str]) -> str:
    """A key or a size as Textual can read it; "" where it means nothing."""
    fields = found[1].split(";")
    numbers = [int(number[:9]) for number in re.findall(r"\d+", found[1])]
    if any(number > LAST_LETTER or number in SURROGATES for number in numbers):
        return ""
    if found[2] == "t" and numbers[:1] == [48] and len(fields) == 5:
        lines, columns, high, wide = (int(field.partition(":")[0] or 0) for field in fields[1:])
        if not (0 < lines <= HIGHEST and 0 < columns <= WIDEST):
            return ""
        # Some do not know how large a cell is: then the mouse counts cells.
        return f"\x1b[48;{lines};{columns};{high or lines};{wide or columns}t"
    kept = [field.partition(":")[0] for field in fields[:2]]
    return f"\x1b[{';'.join(kept + fields[2:])}{found[2]}"


class KeyDecoder(codecs.IncrementalDecoder):
    """Turns what a terminal sends into text, whatever it sends.

    A paste may be Latin-1: what is no UTF-8 becomes U+FFFD. A terminal without SGR mouse reports
    sends the button and the cell as three bytes of any value, which would be keys: they go. So
    do keys that are no letter and sizes that no terminal has.
    """

    def __init__(self, errors: str = "replace") -> None:
        super().__init__(errors)
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = b""
        self._held = ""

    def decode(self, data: bytes, final: bool = False) -> str:  # type: ignore[override]
        """Give the text that is whole by now."""
        if data and not data.strip(CTRL_C):
            data = PASTE_ENDS + data  # of a paste that never ends it would be a part
        data = OLD_MOUSE.sub(b"", self._begun + data)
        begun = None if final else OLD_MOUSE_BEGUN.search(data)
        self._begun = b"" if begun is None else begun.group()
        text = self._held + self._utf8.decode(data[: len(data) - len(self._begun)], final)
        open_ = None if final else SEQUENCE_BEGUN.search(text)
        self._held = "" if open_ is None else open_.group()
        return SEQUENCE.sub(_sound, text[: len(text) - len(self._held)])


class Patience:
    """Lets a driver of Textual wait until there is a key, or until `end`."""

    def __init__(self) -> None:
        self._pipe: tuple[int, int] | None = None
        self._ends = True

    def begin(self) -> None:
        """Be patient from here on."""
        if self._pipe is None:
            self._pipe = os.pipe()
        self._ends = False

    def end(self) -> None:
        """Wake whoever waits; from here on nobody waits longer than Textual does."""
        self._ends = True
        if self._pipe is not None:
            os.write(self._pipe[1], b"\0")

    def close(self) -> None:
        """Let go of the pipe, once nobody waits."""
        pipe, self._pipe = self._pipe, None
        for descriptor in pipe or ():
            os.close(descriptor)

    @contextmanager
    def of(self, module: Any) -> Iterator[None]:
        """Let the selectors that this module makes be patient; nothing where it makes none."""
        if self._pipe is None or getattr(module, "selectors", None) is not selectors:
            yield
            return
        module.selectors = _Selectors(partial(_Patient, self._pipe[0], lambda: self._ends))
        try:
            yield
        finally:
            module.selectors = selectors


class _Selectors:
    """The module `selectors` with another SelectSelector."""

    def __init__(self, selector: Callable[[], selectors.SelectSelector]) -> None:
        self.SelectSelector = selector

    def __getattr__(self, name: str) -> Any:
        return getattr(selectors, name)


class _Patient(selectors.SelectSelector):
    """Returns for a key, and for `woken`, which nobody sees."""

    def __init__(self, woken: int, ends: Callable[[], bool]) -> None:
        super().__init__()
        self._woken, self._ends = woken, ends
        self._lively_until = time.monotonic() + LIVELY_SECONDS
        self.register(woken, selectors.EVENT_READ)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not self._ends() and time.monotonic() > self._lively_until:
            timeout = None
        found = super().select(timeout)
        keys = [(key, events) for key, events in found if key.fd != self._woken]
        if len(keys) < len(found):
            os.read(self._woken, 64)
        if keys:
            self._lively_until = time.monotonic() + LIVELY_SECONDS
        return keys


class _InTurn:
    """The file that Textual's own thread writes to."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with holding.turn:
            self._file.write(text)

    def flush(self) -> None:
        with holding.turn:
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class Painting(Driver):
    """Stands before a driver of Textual in the order of classes; calls documented methods only.

    Where the terminal cannot be opened once more, as for another user after `su`, and where
    Textual writes something unheard of, the driver behind it draws.
    """

    shown_before = ""
    """The text that drew what stands on the terminal already, when it is taken the first time."""
    _sender: Sender | None = None
    _in_band_window_resize = False

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._patience = Patience()
        self._file = _InTurn(getattr(self, "_file", None))
        self._size = self._size or self._get_terminal_size()

    def write(self, data: str) -> None:
        """Give text to the painter."""
        if self._sender is None:
            super().write(data)  # type: ignore[safe-super]
        else:
            self._sender.write(data)

    def start_application_mode(self) -> None:
        """Take the terminal, which is empty then."""
        self._end_sender()
        holding.begun = True
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
        self._heed_windows()
        if sender is not None:
            sender.begin()

    def _heed_windows(self) -> None:
        """Ask the window for its size whenever it says that it changed.

        Textual does not once a size came as text, which may have been no terminal's: pasted, one of
        a single cell left a picture of that size for good.
        """
        heard = signal.getsignal(signal.SIGWINCH)
        if not callable(heard):
            return

        def resized(number: int, frame: FrameType | None) -> None:
            in_band, self._in_band_window_resize = self._in_band_window_resize, False
            if self._sender is not None:
                self._sender.ask_size()
            try:
                heard(number, frame)
            finally:
                self._in_band_window_resize = in_band

        signal.signal(signal.SIGWINCH, resized)

    def _get_terminal_size(self) -> tuple[int, int]:
        """What the window says, which no picture of millions of cells follows."""
        return bounded(*super()._get_terminal_size())  # type: ignore[misc]

    def run_input_thread(self) -> None:
        """Read keys, without a look at the clock while there are none."""
        module: Any = sys.modules.get(READS_KEYS)
        if hasattr(module, "getincrementaldecoder"):
            module.getincrementaldecoder = lambda _encoding: KeyDecoder
        try:
            with self._patience.of(module):
                super().run_input_thread()  # type: ignore[misc]
        except Exception as error:  # noqa: BLE001 - the app border; Textual would end with 0
            self._app.call_later(_fail, error)

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
        holding.begun = False
        self._patience.close()

    def process_message(self, message: Message) -> None:
        """Keep the answers to our own questions."""
        if self._sender is not None:
            if isinstance(message, events.CursorPosition) and self._sender.answer():
                return
            if isinstance(message, events.Resize):
                # As text anybody may have said it: the window itself knows, where it says one.
                window = self._sender.window()
                if window is not None and window != tuple(message.size):
                    message = events.Resize.from_dimensions(window, message.pixel_size)
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


def _fail(error: Exception) -> None:
    """Raise what another thread met, where the app sees it."""
    raise error


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
