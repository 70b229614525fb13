"""Colour for lines that go to a terminal: it follows the signs and words that are there anyway.

Nothing is said by colour alone, so a file, a pipe and a terminal without colour lose nothing. The
sixteen colours of the terminal are used, which its owner chose.
"""

from __future__ import annotations

import os
import re
from typing import TextIO

from gputop.topology.model.severity import SILENCED_SIGN, Severity, Verdict

GOOD, BAD, WARN, MUTED, HEAD = "32", "1;31", "33", "2", "1"
"""What a terminal is told: SGR parameters (ECMA-48)."""
_INKS = {"good": GOOD, "bad": BAD, "warn": WARN, "muted": MUTED}
SIGNS = {mark.sign: _INKS[mark.ink] for mark in (*Severity, *Verdict)} | {SILENCED_SIGN: MUTED}
"""Sign -> its colour, the same as on the screens of the app."""
WORDS = "healthy|slow|broken|cannot tell|notice|by design|silenced|low|high|no reference"
"""Words that are coloured with the sign in front of them."""
_LEADS = "Impact|Ruled out if|Do|Because|Change|Speed|Route|Usage|Options|Commands|Assumed"
_PARTS = re.compile(
    rf"^(?P<sign>[ ]*[✓✗▼•○?–](?:[ ](?:\d+[ ])?(?:{WORDS})\b|(?=[ ])))"
    rf"|^(?P<lead>[ ]*(?:{_LEADS}):)(?=[ ]|$)"
    r"|^(?P<note>note:.*)$"
    r"|^(?P<problem>gputop:|Error:)(?=[ ])"
    r"|(?P<id>\[[a-z][a-z0-9]*(?:-[a-z0-9]+)+\])(?=$|[ ]\()"
    r"|(?P<mark>[✓✗▼])",
    re.MULTILINE,
)


def wanted(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows colour, to somebody who wants it (no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in (None, "", "dumb"):
        return False
    try:
        return stream.isatty()
    except ValueError:
        return False  # closed


def painted(text: str) -> str:
    """Colour signs with their words, the heads of lines, notes and ids; the text stays the same."""
    return _PARTS.sub(_painted, text)


def _painted(found: re.Match[str]) -> str:
    kind, text = found.lastgroup or "", found[0]
    if kind in ("sign", "mark"):
        return _in(SIGNS[text.lstrip()[0]], text)
    return _in({"lead": HEAD, "problem": BAD}.get(kind, MUTED), text)


def _in(colour: str, text: str) -> str:
    bare = text.lstrip(" ")
    return f"{text[: len(text) - len(bare)]}\x1b[{colour}m{bare}\x1b[0m"
