"""amdsmi.json: the answers of amdsmi as the sources `amdsmi` and `amdsmi_readings` keep them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec

from ..amd import machine, moving
from ..sources.source import Part
from .format import Format, FormatError

_SIGN = re.compile(rb'\A(\xef\xbb\xbf)?\s*\{.*?"amdsmi_(get|topo|is)_', re.DOTALL)


def _recognises(head: bytes, path: Path) -> bool:
    return _SIGN.match(head) is not None


def _parse(data: bytes, path: Path) -> Part:
    try:
        raw = json.loads(data)
    except json.JSONDecodeError as error:
        raise FormatError(f"not JSON: {error.msg}", line=error.lineno) from error
    except RecursionError as error:
        raise FormatError("JSON that is nested too deep") from error
    except ValueError as error:  # bytes that are no text, a number with thousands of digits
        raise FormatError(f"not JSON: {error}"[:200]) from error
    if not isinstance(raw, dict) or not isinstance(raw.get("devices"), list):
        raise FormatError('no list "devices" in it, which a recording of amdsmi has')
    stays, moves = machine.parse(raw), moving.parse(raw)
    return msgspec.structs.replace(
        stays,
        gpu_readings=moves.gpu_readings,
        problems=stays.problems + moves.problems,
        assumptions=stays.assumptions + moves.assumptions,
    )


FORMAT = Format(id="amdsmi.json", recognises=_recognises, parse=_parse)
