"""The lines that RCCL prints before anything else: its version, ROCm's, and the host's name."""

from __future__ import annotations

import re

from ....model.format import text_format
from ....model.part import PartialNode
from ....model.record import gaps_of
from ....model.surroundings import Software
from .said import host_of

TOOL = "the head of RCCL"
_LINE = re.compile(
    r"[ \t]*(RCCL version|HIP version|ROCm version|Hostname|Librccl path)[ \t]*:[ \t]*(\S{1,200})"
)


def _parse(lines: list[str]) -> PartialNode:
    said = {found[1]: found[2] for line in lines if (found := _LINE.match(line)) is not None}
    gaps = gaps_of(("amd_driver", "torch"), f"not in {TOOL}")
    version = said.get("RCCL version", "").partition("-")[0].partition("+")[0]
    return PartialNode(
        software=Software(rccl=version or None, rocm=said.get("ROCm version"), gaps=gaps),
        host=host_of(TOOL, hostname=said.get("Hostname")),
    )


FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=re.compile(r"(?m)^[ \t]*RCCL version[ \t]*:[ \t]*\d"),
    needs=("RCCL version",),
    goes_on=_LINE,
)
