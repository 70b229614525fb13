"""The verdict of NVIDIA Health Validation on a node: one JSON object.

docs.nvidia.com/health-validation, "Verdict Schema" and FAQ: `overall_severity` is PASS, INFO,
WARNING, CRITICAL (take the node out) or UNKNOWN; `affected_components` list the checks that did not
pass, with `check_ids`, `entities`, `category` and `max_severity`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..diagnosis.finding import BROKEN, CANNOT_TELL, SLOW
from .record import NodeFinding, one_line

_SEVERITIES = {"CRITICAL": BROKEN, "WARNING": SLOW, "UNKNOWN": CANNOT_TELL}
_WELL = ("PASS", "INFO")
_SIGN = b'"overall_severity"'
_HOSTS = ("node_name", "hostname", "host")
_MOST = 20


def read_verdict(data: bytes) -> tuple[str | None, list[NodeFinding]] | None:
    """The host, where it is named, and what is wrong; None for another text."""
    if _SIGN not in data:
        return None
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    severity = str(document.get("overall_severity")).upper()
    if severity in _WELL:
        return _host(document), []
    if severity not in _SEVERITIES:
        return None
    parts = document.get("affected_components")
    found = [
        NodeFinding(
            id="health-validation",
            severity=_SEVERITIES[level],
            title=_title(part, level),
        )
        for part in (parts if isinstance(parts, list) else [])[:_MOST]
        if isinstance(part, dict)
        and (level := str(part.get("max_severity")).upper()) in _SEVERITIES
    ]
    whole = NodeFinding(
        id="health-validation", severity=_SEVERITIES[severity], title=f"verdict {severity}"
    )
    worst = any(item.severity == whole.severity for item in found)
    return _host(document), found if worst else [whole, *found]


def _title(part: dict[str, Any], level: str) -> str:
    checks, entities = _words(part.get("check_ids")), _words(part.get("entities"))
    where = f" at {entities}" if entities else ""
    return one_line(f"{level} in {part.get('category', 'a part')}: {checks}{where}", 300)


def _words(value: object) -> str:
    return ", ".join(str(item) for item in value[:6]) if isinstance(value, list) else ""


def _host(document: dict[str, Any]) -> str | None:
    name = next((document[key] for key in _HOSTS if isinstance(document.get(key), str)), "")
    return name.split(".")[0] or None
