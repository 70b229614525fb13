"""JSON of nvbandwidth (`-j`): read as its text is, of which the same lines are made.

A test with several tables has one matrix in which their rows follow each other, and the title of
the last table. Rates are texts of six digits. An error stands beside the tests, and ends the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ....model.format import FormatError, check_values, text_format
from ....model.part import PartialNode
from . import nvbandwidth
from .figures import MAX_BYTES, MAX_GPUS

TOOL = "nvbandwidth -j"
_NAME = re.compile(r"[a-z_]{4,60}\Z")
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,12})?(?:e[-+]\d{1,2})?\Z")
_TOTAL = " Total bandwidth"


def _parse(lines: list[str]) -> PartialNode:
    text = "\n".join(lines)
    check_values(text.encode())
    try:
        found, _ = json.JSONDecoder().raw_decode(text.strip())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}"[:200], getattr(error, "lineno", None)) from error
    said = found.get(nvbandwidth.TOOL) if isinstance(found, dict) else None
    if not isinstance(said, dict):
        raise FormatError('no object "nvbandwidth" in it')
    return nvbandwidth.parse_lines(list(_lines(said)))


def _lines(said: dict[str, Any]) -> Iterator[str]:
    """What it says, in the lines of the text."""
    yield f"Driver Version: {said.get('Driver Version')}"
    devices = _list(said.get("GPU Device list") or said.get("GPU Device info"))
    yield from (f"Device {device}" for device in devices if isinstance(device, str))
    for test in _list(said.get("testcases")):
        name = test.get("name") if isinstance(test, dict) else None
        if isinstance(name, str) and _NAME.match(name):
            yield f"Running {name}."
            yield from _tables(test)
            yield from _list_of_words(test.get("error"))
    yield from _list_of_words(said.get("error"))


def _tables(test: dict[str, Any]) -> Iterator[str]:
    title, rows = test.get("bandwidth_description"), _list(test.get("bandwidth_matrix"))
    width = len(rows[0]) if rows and isinstance(rows[0], list) else 0
    if not isinstance(title, str) or not 0 < width <= MAX_GPUS:
        return
    if any(not isinstance(row, list) or len(row) != width for row in rows):
        raise FormatError(f"rows of {test['name']} have different numbers of cells")
    # One table has a row for each GPU, or a single one.
    height = 1 if len(rows) == 1 else width
    for first in range(0, len(rows), height):
        last = first + height >= len(rows)
        yield title if last else title.replace(_TOTAL, f" {first // height + 1} bandwidth")
        yield "  " + " ".join(map(str, range(width)))
        for number, row in enumerate(rows[first : first + height]):
            yield f" {number} " + " ".join(map(_cell, row))


def _cell(value: object) -> str:
    text = str(value)
    return f"{float(text):.4f}" if _NUMBER.match(text) else "N/A"


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _list_of_words(error: object) -> list[str]:
    return error.splitlines() if isinstance(error, str) else []


FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    most_bytes=MAX_BYTES,
    starts=re.compile(r"(?m)^[ \t]*\{\s{0,80}\"nvbandwidth\"\s{0,80}:"),
    needs=('"nvbandwidth"',),
    goes_on=re.compile(r"[ \t]*[\"\[\]{},]"),
    repeats=True,
)
