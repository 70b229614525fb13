"""Python's own reader of TOML; before Python 3.11, which brought it, the package it came from.

A file of a user is read by `user_table`: `tomllib` keeps every prefix of a dotted key, so a line of
200 KB takes it gigabytes.
"""

import re
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib", "user_table"]

MOST_PARTS = 32
"""Of a dotted key; the longest of ours has three."""
_TEXT_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\\?\Z)'
    r"|'''.*?(?:'''|\Z)"
    r'|"(?:\\.|[^"\\\n])*"?'
    r"|'[^'\n]*'?"
    r"|#[^\n]*",
    re.DOTALL,
)
_BETWEEN_KEYS = re.compile(r"[\n=,{}\[\]]")


def user_table(path: Path, most_bytes: int) -> dict[str, Any]:
    """Read a file of a user; raises OSError, and ValueError for what is not read as TOML."""
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"more than {most_bytes} bytes")
    text = data.decode()
    bare = _TEXT_OR_COMMENT.sub("", text)
    if any(part.count(".") >= MOST_PARTS for part in _BETWEEN_KEYS.split(bare)):
        raise ValueError(f"a key of more than {MOST_PARTS} parts, which is gputop's limit")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("too many levels") from error
