"""amdsmi.json: the answers of amdsmi as the sources `amdsmi` and `amdsmi_readings` keep them."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from ....model.format import Format, recording
from ....model.part import PartialNode
from ....sources.amd import parse_machine, parse_readings

_SIGN = re.compile(rb'\A(\xef\xbb\xbf)?\s*\{.*?"amdsmi_(get|topo|is)_', re.DOTALL)


def _recognises(head: bytes, path: Path) -> bool:
    return _SIGN.match(head) is not None


def _parse(data: bytes, path: Path) -> PartialNode:
    raw = recording(data, "amdsmi")
    stays, moves = parse_machine.parse(raw), parse_readings.parse(raw)
    return msgspec.structs.replace(
        stays,
        gpu_readings=moves.gpu_readings,
        problems=stays.problems + moves.problems,
        assumptions=stays.assumptions + moves.assumptions,
    )


FORMAT = Format(id="amdsmi.json", recognises=_recognises, parse=_parse)
