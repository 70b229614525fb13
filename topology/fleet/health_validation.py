"""The verdict of NVIDIA Health Validation on a node: one JSON object for each run.

Documented (docs.nvidia.com/health-validation, "Verdict Schema", "FAQ", "Integrating into a GPU
cluster"): `overall_severity` is PASS, INFO, WARNING (the node may stay in service), CRITICAL (take
it out) or UNKNOWN (its health could not be assessed); each of `affected_components` has
`check_ids`, `entities`, `category` and `max_severity`.

Not documented there is whether and where a verdict names its node: some likely fields are looked
at, else the file's name counts. Another severity, and fields of another type, are quoted as text.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..model.severity import BROKEN, CANNOT_TELL, SLOW
from .record import NodeFinding, one_line

_SEVERITIES = {"CRITICAL": BROKEN, "WARNING": SLOW, "UNKNOWN": CANNOT_TELL}
_WELL = ("PASS", "INFO")
_SIGN, _PARTS = b'"overall_severity"', "affected_components"
_HOSTS = ("node_name", "hostname", "host", "node")
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
    said = document.get("overall_severity")
    severity = str(said).upper()
    if severity in _WELL:
        return _host(document), []
    parts = document.get(_PARTS)
    if severity not in _SEVERITIES and parts is None:
        # Other programs have a field of that name too.
        return None
    found = [_part(part) for part in (parts if isinstance(parts, list) else [])[:_MOST]]
    named = [item for item in found if item is not None]
    whole = NodeFinding(
        id="health-validation",
        severity=_SEVERITIES.get(severity, CANNOT_TELL),
        title=one_line(f"verdict {said}", 120),
    )
    worst = any(item.severity == whole.severity for item in named)
    return _host(document), named if worst else [whole, *named]


def _part(part: object) -> NodeFinding | None:
    """What is wrong with one category; None where nothing is."""
    if not isinstance(part, dict):
        return None
    level = str(part.get("max_severity")).upper()
    if level in _WELL:
        return None
    return NodeFinding(
        id="health-validation",
        severity=_SEVERITIES.get(level, CANNOT_TELL),
        title=_title(part, level),
    )


def _title(part: dict[str, Any], level: str) -> str:
    checks, entities = _words(part.get("check_ids")), _words(part.get("entities"))
    where = f" at {entities}" if entities else ""
    return one_line(f"{level} in {part.get('category', 'a part')}: {checks}{where}", 300)


def _words(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value[:6])
    return "" if value is None else str(value)


def _host(document: dict[str, Any]) -> str | None:
    name = next((document[key] for key in _HOSTS if isinstance(document.get(key), str)), "")
    return name.split(".")[0] or None
