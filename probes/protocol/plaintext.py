"""Makes foreign text safe to show."""

import re
import unicodedata

_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)"
)


def plain(text: str, limit: int = 2000) -> str:
    """The last `limit` characters without escape sequences and control characters but newlines."""
    text = _ESCAPE.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ")
    kept = [c for c in text if c == "\n" or unicodedata.category(c)[0] != "C"]
    return "".join(kept)[-limit:]


def one_line(text: str, limit: int = 200) -> str:
    """The text on one line; an ellipsis replaces the end of a long one."""
    line = " ".join(plain(text, 10 * limit).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
