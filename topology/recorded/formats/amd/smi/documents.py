"""JSON of amd-smi and rocm-smi: several documents in one output, with warnings between them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .....model.format import FormatError, check_values

MAX_BYTES = 32 * 1024 * 1024
MAX_DOCUMENTS = 64
MAX_DEPTH = 32
MAX_GPUS = 512
"""Most GPUs of one output: 8 packages in 8 parts are 64."""
_START = re.compile(r"(?m)^[ \t]*(?=[\[{])")
_PROSE = re.compile(r"\[[A-Za-z]")
"""The beginning of a message with a bracket: "[WARNING] ...". No tool prints a list of words."""


def documents(data: bytes) -> list[Any]:
    """All JSON documents of an output; lines of text around them are passed over.

    amd-smi writes warnings about groups before, and `amd-smi partition` three documents and a
    legend. Raises FormatError when there is no document, or when one is broken.
    """
    if len(data) > MAX_BYTES:
        raise FormatError(f"{len(data)} bytes; the limit for this JSON is {MAX_BYTES}")
    check_values(data)
    text = data.decode("utf-8-sig", "replace")
    decoder = json.JSONDecoder(parse_constant=_constant)
    found: list[Any] = []
    place = 0
    while (match := _START.search(text, place)) is not None:
        if _PROSE.match(text, match.end()) is not None:
            place = _next_line(text, match.end())
            continue
        try:
            document, place = decoder.raw_decode(text, match.end())
        except json.JSONDecodeError as error:
            raise FormatError(f"not JSON: {error.msg}", error.lineno) from error
        except RecursionError as error:
            raise FormatError("JSON that is nested too deep") from error
        except ValueError as error:  # a number with thousands of digits
            raise FormatError(f"not JSON: {error}"[:200]) from error
        if depth(document) > MAX_DEPTH:
            raise FormatError("JSON that is nested too deep")
        found.append(document)
        if len(found) > MAX_DOCUMENTS:
            raise FormatError(f"more than {MAX_DOCUMENTS} JSON documents")
    if not found:
        raise FormatError("no JSON in it")
    return found


def _constant(name: str) -> None:
    """Reject NaN and Infinity, which are no values of a device."""


def _next_line(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end + 1


def depth(value: Any) -> int:
    """Depth to which lists and objects are nested; a plain value has depth 0."""
    deepest, waiting = 0, [(value, 0)]
    while waiting:
        value, level = waiting.pop()
        deepest = max(deepest, level)
        if level > MAX_DEPTH:
            break
        if isinstance(value, dict):
            waiting.extend((inner, level + 1) for inner in value.values())
        elif isinstance(value, list):
            waiting.extend((inner, level + 1) for inner in value)
    return deepest


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object at the top of a document, through the lists around it."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
        elif isinstance(value, list):
            waiting.extend(reversed(value))


def index(value: Any) -> int | None:
    """The number of a GPU; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 4096 else None
