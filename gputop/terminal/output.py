"""The one place where what gputop says leaves it: no control character gets past it.

While a command runs, an `Outlet` stands in the place of sys.stdout and sys.stderr. Whatever is
printed goes through it, by click and other libraries too. `writing.py` is its like for files.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TextIO, TypeVar, cast

import gputop
from gputop.exits import CANNOT_TELL, Exit
from gputop.terminal import signs
from gputop.terminal.clean import clean
from gputop.topology.model.characters import harmless, json_text
from gputop.topology.model.severity import SILENCED_SIGN, NodeState, Severity, Verdict

GOOD, BAD, WARN, MUTED, HEAD, KEY = "32", "1;31", "33", "2", "1", "36"
"""What a terminal is told: SGR parameters (ECMA-48)."""
_INKS = {"good": GOOD, "bad": BAD, "warn": WARN, "muted": MUTED, "strong": HEAD}
_INKS |= {"link-nvlink": GOOD, "link-pcie": KEY, "link-socket": WARN}
_BARE = {"key bold": HEAD, "key": KEY}
"""Headings, and commands to copy."""
SIGNS = {mark.sign: _INKS[mark.ink] for mark in (*Severity, *Verdict, NodeState.ODD)} | {
    SILENCED_SIGN: MUTED
}
"""Sign -> its colour, the same as on the screens of the app."""
WORDS = "healthy|slow|broken|cannot tell|notice|by design|silenced|low|high|no reference"
"""Words that are coloured with the sign in front of them."""
_LEADS = "Impact|Ruled out if|Do|Because|Change|Speed|Route|Usage|Options|Commands|Assumed"
_PARTS = re.compile(
    rf"^(?P<sign>[ ]*[✓✗▼▽•○?–](?:[ ](?:\d+[ ])?(?:{WORDS})\b|(?=[ ])))"
    rf"|^(?P<lead>[ ]*(?:{_LEADS}):)(?=[ ]|$)"
    r"|^(?P<note>note:.*)$"
    r"|^(?P<problem>gputop:|Error:)(?=[ ])"
    r"|(?P<id>\[[a-z][a-z0-9]*(?:-[a-z0-9]+)+\])(?=$|[ ]\()"
    r"|(?P<mark>[✓✗▼])",
    re.MULTILINE,
)


T = TypeVar("T")


class Outlet(io.TextIOBase):
    """A stream of text in front of another one.

    Its methods raise BrokenPipeError when the reader has left, and Exit for any other OSError, such
    as that of a full disk; what follows then goes nowhere. Where `answers` is False, what is said
    beside the answer passes through: a loss of it raises nothing. `said`: whether anything was.
    """

    def __init__(self, stream: TextIO, *, answers: bool = True) -> None:
        self._stream = stream
        self._answers = answers
        self._coloured = shows_colour(stream)
        self._thread = threading.get_ident()
        self.said = False
        signs.fit(stream)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the stream behind."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write text for people; what a terminal would obey becomes a replacement mark.

        Colour is added behind that, on a terminal that shows it.
        """
        if self is sys.stdout and threading.get_ident() != self._thread:
            # Answers come from one thread. The others ask drivers, whose bindings may print.
            sys.stderr.write(text)
            return len(text)
        shown = harmless(text)
        self._put(add_colour(shown) if self._coloured else shown)
        return len(text)

    def line(self, spans: Sequence[tuple[str, str]]) -> None:
        """Write a line of spans, each a text with the name of its ink, in colour on a terminal."""
        if not self._coloured or not any(ink for _, ink in spans):
            self.write("".join(text for text, _ in spans).rstrip() + "\n")
            return
        parts: list[list[str]] = []
        for text, ink in spans:
            if parts and (parts[-1][1] == ink or not text.strip()):
                parts[-1][0] += text
            else:
                parts.append([text, ink])
        shown = "".join(_inked(harmless(text), ink) for text, ink in parts)
        self._put(shown.rstrip() + "\n")

    def document(self, text: str) -> None:
        """Write a document for programs: in UTF-8, whatever the encoding of the terminal."""
        self._put(harmless(text), "utf-8")
        self.flush()

    def overwrite(self, text: str) -> None:
        """Put text in the place of the line on which the cursor of the terminal is."""
        self._put(f"\r\x1b[K{harmless(text)}")
        self.flush()

    def flush(self) -> None:
        """Hand over what was written so far."""
        with self._failing():
            self._stream.flush()

    def isatty(self) -> bool:
        """Whether a terminal is behind it."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The descriptor behind it; io.UnsupportedOperation where there is none."""
        return self._stream.fileno()

    def writable(self) -> bool:
        """Always."""
        return True

    def __del__(self) -> None:
        """Leave the stream behind as it is: io would flush it, and it may be closed by now."""

    def _put(self, text: str, encoding: str | None = None) -> None:
        # click writes "" to find out what kind of stream this is, and passes over every error.
        if text:
            self.said = True
            with self._failing():
                behind = getattr(self._stream, "buffer", None)
                if behind is None:
                    self._stream.write(text)
                    return
                errors = self._stream.errors or "strict"
                left = memoryview(text.encode(encoding or self.encoding, errors))
                self._stream.flush()
                while left:
                    # Unbuffered (PYTHONUNBUFFERED) it may take a part, which Python's own text
                    # streams do not look at.
                    taken = behind.write(left)
                    if taken is None:
                        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
                    left = left[taken:]

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._drop()
            if not self._answers:
                return
            if isinstance(error, BrokenPipeError):
                raise
            why = error.strerror or error
            raise Exit(f"cannot write the answer: {why}", CANNOT_TELL) from error

    def _drop(self) -> None:
        """Let what is still in a buffer go nowhere, or Python would fail over it at its end."""
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Send all that is printed through outlets; a stream that the caller closed leads nowhere."""
    before = sys.stdin, sys.stdout, sys.stderr
    with contextlib.ExitStack() as opened:

        def there(stream: TextIO | None, mode: str) -> TextIO:
            if stream is not None:
                return stream
            return opened.enter_context(cast("TextIO", open(os.devnull, mode, encoding="utf-8")))

        # None where the caller closed it, whatever its type says.
        sys.stdin = there(sys.stdin, "r")
        sys.stdout = Outlet(_apart(there(sys.stdout, "w")))
        sys.stderr = Outlet(there(sys.stderr, "w"), answers=False)
        try:
            yield
        finally:
            with contextlib.suppress(OSError, Exit):
                sys.stdout.flush()
            sys.stdin, sys.stdout, sys.stderr = before


def _apart(stream: TextIO) -> TextIO:
    """Stdout on a descriptor of its own: what libraries of drivers print themselves goes to stderr.

    That stays so to the end of the process, since C has buffers too.
    """
    if not gputop.own_process or stream is not sys.__stdout__:
        return stream
    try:
        kept = fcntl.fcntl(stream.fileno(), fcntl.F_DUPFD_CLOEXEC, 3)
        _send_libraries(None if sys.stderr is None else sys.stderr.fileno())
    except (OSError, ValueError):
        return stream
    made = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(kept, "w")),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.isatty(),
    )
    sys.__stdout__ = made  # type: ignore[misc]
    return made


def _send_libraries(to: int | None) -> None:
    """Let what is written to C's stdout go to a descriptor; None: nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere if to is None else to, 1)
    if nowhere > 2:
        os.close(nowhere)


def mute_libraries() -> None:
    """Let what libraries print themselves go nowhere: an app has the terminal."""
    if gputop.own_process and sys.__stdout__ is not None and sys.__stdout__.fileno() > 2:
        _send_libraries(None)


def flush() -> None:
    """Hand over all that was printed; raises what an Outlet raises."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def print_problem(text: str) -> None:
    """Say in one line on stderr why the program ends."""
    if sys.stderr is not None:
        sys.stderr.write(f"gputop: {clean(text, 600)}\n")
        sys.stderr.flush()


def print_no_answer(code: int, why: str) -> None:
    """Print a document where one was asked for, and nothing was printed that could be one."""
    stream = sys.stdout
    if isinstance(stream, Outlet) and not stream.said:
        told = {"gputop": gputop.__version__, "exit_code": code, "why": clean(why, 600)}
        with contextlib.suppress(OSError, Exit):
            stream.document(json_text({"schema": "gputop.no-answer/1", **told}) + "\n")


def print_lines(lines: Iterable[Sequence[tuple[str, str]]]) -> None:
    """Print lines of spans for people."""
    for line in lines:
        _print(Outlet.line, sys.stdout, line)


def print_document(text: str) -> None:
    """Write a document for programs on stdout."""
    _print(Outlet.document, sys.stdout, text)


def overwrite(text: str) -> None:
    """Put text in the place of the last line of the terminal on stderr; "" clears it."""
    _print(Outlet.overwrite, sys.stderr, text)


def _print(how: Callable[[Outlet, T], None], stream: TextIO | None, text: T) -> None:
    if stream is not None:
        how(stream if isinstance(stream, Outlet) else Outlet(stream), text)


# Colour for lines that go to a terminal: it follows the signs and words that are there anyway.
#
# Nothing is said by colour alone, so a file, a pipe and a terminal without colour lose nothing. The
# sixteen colours of the terminal are used, which its owner chose.
def shows_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows colour, to somebody who wants it (no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in (None, "", "dumb"):
        return False
    try:
        return stream.isatty()
    except ValueError:
        return False  # closed


def add_colour(text: str) -> str:
    """Colour signs with their words, the heads of lines, notes and ids; the text stays the same."""
    return _PARTS.sub(_painted, text)


def _painted(found: re.Match[str]) -> str:
    kind, text = found.lastgroup or "", found[0]
    if kind in ("sign", "mark"):
        return _in(SIGNS[text.lstrip()[0]], text)
    return _in({"lead": HEAD, "problem": BAD}.get(kind, MUTED), text)


def _inked(text: str, ink: str) -> str:
    """A text in its ink; one without an ink has the colours of its signs and words."""
    words = ink.split()
    colour = next((_INKS[word] for word in words if word in _INKS), _BARE.get(ink, ""))
    return _in(colour, text) if colour and text.strip() else add_colour(text) if not ink else text


def _in(colour: str, text: str) -> str:
    bare = text.strip(" ")
    before, _, after = text.partition(bare)
    return f"{before}\x1b[{colour}m{bare}\x1b[0m{after}"
