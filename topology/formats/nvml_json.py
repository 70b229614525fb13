"""nvml.json: the answers of NVML as the sources `nvml` and `nvml_readings` keep them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec

from ..nvml import machine as nvml_machine
from ..nvml import moving as nvml_moving
from ..sources.source import Part
from .format import Format, FormatError

_SIGN = re.compile(rb'\A(\xef\xbb\xbf)?\s*\{.*?"nvml(System|Device)Get', re.DOTALL)


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
        raise FormatError('no list "devices" in it, which a recording of NVML has')
    stays, moves = nvml_machine.parse(raw), nvml_moving.parse(raw)
    return msgspec.structs.replace(
        stays, gpu_readings=moves.gpu_readings, problems=stays.problems + moves.problems
    )


FORMAT = Format(id="nvml.json", recognises=_recognises, parse=_parse)
