"""Characters that a terminal obeys or that hide what a text says, and what is written instead."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

REPLACEMENT = "\ufffd"
_BEYOND = (
    # Format characters (Cf): soft hyphen, zero width, bidirectional overrides, tags.
    r"\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
    # Line separators; lone surrogates and private use, which mean nothing elsewhere; what XML
    # does not allow.
    r"\u2028\u2029\ud800-\uf8ff\ufffe\uffff\U000f0000-\U0010ffff"
)
HOSTILE = re.compile(rf"[\x00-\x1f\x7f-\x9f{_BEYOND}]")
"""In one line of text: controls (C0, DEL, C1) and what is listed above."""
_IN_BLOCKS = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BEYOND}]")
"""The same without tabulators and line ends."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")
PIECE = 256 * 1024
"""Bytes of a document that are put into lines at once, about: it is larger than its data."""


def harmless(text: str) -> str:
    """Put a replacement mark in the place of each such character; tabulators and line ends stay."""
    # None of them is printable, and to find that out takes a tenth of the time.
    if text.replace("\n", "").isprintable():
        return text
    return _IN_BLOCKS.sub(REPLACEMENT, text)


def printable(value: str) -> str:
    """Leave out what terminals and XML cannot bear, and what has no shape."""
    if value.isprintable():
        return value
    return "".join(char for char in value if char.isprintable())


def json_text(document: object) -> str:
    """One JSON document, indented by two blanks; such characters are escaped.

    `document` is what msgspec writes. A lone surrogate, which stands for a byte of a file's name
    that is no UTF-8, becomes a replacement mark.
    """
    return "".join(json_pieces(document))


def json_pieces(document: object) -> Iterator[str]:
    """The same piece by piece, so that nobody has to hold all of a large one."""
    try:
        data = msgspec.json.encode(document)
    except UnicodeEncodeError:
        data = msgspec.json.encode(without_surrogates(msgspec.to_builtins(document)))
    yield from _pieces(data, "\n")


def _pieces(data: bytes, line: str) -> Iterator[str]:
    """`line`: a line end and the blanks that every line after the first begins with."""
    opening = data[:1]
    if len(data) <= PIECE or opening not in (b"{", b"["):
        yield _lines(data).replace("\n", line)
        return
    before = opening.decode()
    if opening == b"{":
        for name, value in msgspec.json.decode(data, type=dict[str, msgspec.Raw]).items():
            yield f"{before}{line}  {_lines(msgspec.json.encode(name))}: "
            yield from _pieces(bytes(value), f"{line}  ")
            before = ","
        yield f"{line}}}"
        return
    items = msgspec.json.decode(data, type=list[msgspec.Raw])
    many = len(items) * PIECE // len(data)
    for start in range(0, len(items), max(many, 1)):
        if many > 1:
            some = _lines(b"[%b]" % b",".join(items[start : start + many]))
            yield before + some[1:-2].replace("\n", line)
        else:
            yield f"{before}{line}  "
            yield from _pieces(bytes(items[start]), f"{line}  ")
        before = ","
    yield f"{line}]"


def _lines(data: bytes) -> str:
    text = msgspec.json.format(data, indent=2).decode()
    if data.decode().isprintable():
        return text
    # They stand in strings only: around these JSON has nothing but ASCII.
    return _IN_BLOCKS.sub(_escape, text)


def without_surrogates(part: Any) -> Any:
    """Plain data with a replacement mark for each lone surrogate, which no encoding has."""
    if isinstance(part, str):
        return _SURROGATE.sub(REPLACEMENT, part)
    if isinstance(part, dict):
        return {without_surrogates(key): without_surrogates(part[key]) for key in part}
    if isinstance(part, list | tuple):
        return [without_surrogates(item) for item in part]
    return part


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
