"""Text from elsewhere, made safe to show."""

import re
import unicodedata

_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)"
)


def plain(text: str, limit: int = 2000) -> str:
    """Without escape sequences and control characters, newlines kept; the last `limit` of it."""
    text = _ESCAPE.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ")
    kept = [c for c in text if c == "\n" or unicodedata.category(c)[0] != "C"]
    return "".join(kept)[-limit:]


def one_line(text: str, limit: int = 200) -> str:
    """The same on one line, cut at the end with an ellipsis."""
    line = " ".join(plain(text, 10 * limit).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
