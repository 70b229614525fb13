"""nvml.json: the answers of NVML as the sources `nvml` and `nvml_readings` keep them."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from ....model.format import Format, recording
from ....model.part import PartialNode
from ....sources.nvidia import parse_machine as nvml_machine
from ....sources.nvidia import parse_readings as nvml_moving

_SIGN = re.compile(rb'\A(\xef\xbb\xbf)?\s*\{.*?"nvml(System|Device)Get', re.DOTALL)


def _recognises(head: bytes, path: Path) -> bool:
    return _SIGN.match(head) is not None


def _parse(data: bytes, path: Path) -> PartialNode:
    raw = recording(data, "NVML")
    stays, moves = nvml_machine.parse(raw), nvml_moving.parse(raw)
    return msgspec.structs.replace(
        stays, gpu_readings=moves.gpu_readings, problems=stays.problems + moves.problems
    )


FORMAT = Format(id="nvml.json", recognises=_recognises, parse=_parse)
