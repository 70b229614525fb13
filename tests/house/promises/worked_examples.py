"""The worked examples of docs/adding.md, so that tests try what a reader copies."""

from __future__ import annotations

import re
from functools import cache

from tests.support.places import ROOT

_BLOCK = re.compile(r"^```(?:python|toml)\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"Its line in `([^`]+)`: `([^`]+)`")


@cache
def _document() -> str:
    return (ROOT / "docs" / "adding.md").read_text(encoding="utf-8")


def paths() -> tuple[str, ...]:
    """The files that the examples add or add to, in the order of the document."""
    return tuple(path for path, _ in _BLOCK.findall(_document()))


def example(path: str) -> str:
    """The example for this file; ValueError unless there is exactly one."""
    (text,) = (text for name, text in _BLOCK.findall(_document()) if name == path)
    return str(text)


def line(path: str) -> str:
    """What the document adds to a list of names; ValueError unless it says so exactly once."""
    (text,) = (text for name, text in _LINE.findall(_document()) if name == path)
    return str(text)
