"""Which files an agent may name: plain ones, and with `--root` those of some folders alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from gputop.agents.requests import ToolRequest
from gputop.exits import USAGE, Exit
from gputop.terminal.clean import clean

T = TypeVar("T", bound=ToolRequest)
FIELDS = ("file", "before", "after", "expect")
"""Arguments that may name a file."""
DEMOS_TOO = ("before", "after")
"""Those in which the name of a demo is that demo, whatever file is called so."""


def confined(request: T, roots: Sequence[str]) -> T:
    """The request with the files that are meant, links followed; all lie in one of the folders.

    Without folders every file may be named. A file that lies outside is refused in the same words
    whether it is there or not. Raises Exit.
    """
    if not roots:
        return request
    inside = {
        name: _inside(path, roots)
        for name in FIELDS
        if (path := getattr(request, name, "")) and _names_a_file(name, path)
    }
    return msgspec.structs.replace(request, **inside)


def _names_a_file(field: str, text: str) -> bool:
    """Whether the value of an argument is taken for a file; some take other names before."""
    if field == "expect":
        return os.sep in text or os.path.lexists(text)
    if field not in DEMOS_TOO:
        return True
    from gputop.topology.recorded.demos import demo

    return text not in demo.names()


def _inside(path: str, roots: Sequence[str]) -> str:
    tops = [os.path.realpath(root) for root in roots]
    found = os.path.realpath(path)
    try:
        every = [found, *(entry.path for entry in os.scandir(found) if entry.is_symlink())]
    except OSError:
        every = [found]
    for one in map(os.path.realpath, every):
        if not any(os.path.commonpath((one, top)) == top for top in tops):
            raise Exit(f"{clean(path, 200)} lies outside of --root", USAGE)
    return found
