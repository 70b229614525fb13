"""The JSON of `dcgmi diag -j`, of DCGM 2, 3 and 4.

Up to DCGM 3 the tests lie in "DCGM GPU Diagnostic" (nvvs/src/JsonOutput.cpp), in DCGM 4 in "DCGM
Diagnostic"; both hold test_categories > tests > results, with a status for each device and
warnings, which are texts or objects. Lines may stand before the document.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..model.severity import BROKEN, CANNOT_TELL
from .record import NodeFinding, one_line

_HEADS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
_SIGNS = tuple(f'"{head}"'.encode() for head in _HEADS)
_MOST = 50
_RAN = ("pass", "fail", "warn")
_SETTINGS = ("persistence mode",)
"""Failures of a setting, which DCGM counts as one of the deployment: no device is bad."""


def read_dcgm(data: bytes) -> tuple[str | None, list[NodeFinding]] | None:
    """The host, which DCGM never names, and what failed; None for another text."""
    if not any(sign in data for sign in _SIGNS):
        return None
    start, end = data.find(b"{"), data.rfind(b"}")
    try:
        document = msgspec.json.decode(data[start : end + 1])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        why = "the output of DCGM's diagnostics is cut off or damaged"
        return None, [NodeFinding(id="dcgm-unread", severity=CANNOT_TELL, title=why)]
    body = next((document[head] for head in _HEADS if head in document), None)
    if not isinstance(body, dict):
        return None
    tests = list(_tests(body))
    failed = [item for test in tests for item in _failed(*test)]
    error = body.get("runtime_error") or body.get("Error")
    if error:
        title = f"the diagnostics did not run: {one_line(error, 200)}"
        failed.append(NodeFinding(id="dcgm-unread", severity=CANNOT_TELL, title=title))
    elif not any(_status(result) in _RAN for _, results in tests for result in results):
        title = "no test of the diagnostics ran"
        failed.append(NodeFinding(id="dcgm-unread", severity=CANNOT_TELL, title=title))
    return None, failed[:_MOST]


def _tests(body: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for category in _dicts(body.get("test_categories")):
        for test in _dicts(category.get("tests")):
            yield one_line(test.get("name", "a test"), 60), _dicts(test.get("results"))


def _failed(name: str, results: list[dict[str, Any]]) -> Iterator[NodeFinding]:
    for result in results:
        if _status(result) != "fail":
            continue
        warnings = [text for text in map(_warning, result.get("warnings") or ()) if text]
        if warnings and all(text.lower().startswith(_SETTINGS) for text in warnings):
            continue
        who = result.get("gpu_id", result.get("gpu_ids", result.get("entity_id")))
        where = "" if who in (None, "") else f" on GPU {one_line(who, 40)}"
        what = f": {warnings[0]}" if warnings else ""
        yield NodeFinding(
            id="dcgm-fails", severity=BROKEN, title=f"{name} failed{where}{what}"[:300]
        )


def _warning(item: object) -> str:
    text = item.get("warning", "") if isinstance(item, dict) else item
    return one_line(text, 220)


def _status(result: dict[str, Any]) -> str:
    return str(result.get("status", "")).lower()


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
