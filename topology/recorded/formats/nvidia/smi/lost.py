"""The line that nvidia-smi prints in place of an output: the driver has no handle for a GPU."""

from __future__ import annotations

import re

from .....model.format import FormatError, text_format
from .....model.machine import Gpu
from .....model.no_output import is_no_output
from .....model.part import PartialNode
from .....model.readings import GpuReading
from .....model.record import Gap, gaps_of
from .....model.told import is_told
from .....sources.files.failures import ERROR, Unanswered, problems
from .....sources.pci.address import pci_address
from .document import MAX_GPUS

_LINE = re.compile(
    r"[^\n]{0,80}?Unable to determine the device handle for (?:GPU\d{0,4}:? ?)"
    r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]): ([^\n.]{1,80})"
)
_UNKNOWN = ("uuid", "name", "memory_bytes")


def _parse(lines: list[str]) -> PartialNode:
    said: dict[str, str] = {}
    for line in lines:
        found = _LINE.match(line)
        if is_no_output(line) or is_told(line):
            continue
        if found and (own := pci_address(found[1])):
            said.setdefault(own, found[2].strip())
    if not said or len(said) > MAX_GPUS:
        raise FormatError("no usable PCI address in it")
    failed = [Unanswered(ERROR, why, "handle", own) for own, why in said.items() if not _lost(why)]
    return PartialNode(
        gpus=tuple(
            Gpu(
                address=own,
                vendor="nvidia",
                gaps=gaps_of(_UNKNOWN, f"nvidia-smi prints {why}"),
            )
            for own, why in said.items()
        ),
        gpu_readings=tuple(
            GpuReading(address=own, lost=True, gaps=(Gap("lost", why),))
            for own, why in said.items()
            if _lost(why)
        ),
        problems=problems("nvidia-smi", failed),
    )


def _lost(why: str) -> bool:
    return "lost" in why.lower()


FORMAT = text_format(
    id="an error of nvidia-smi",
    parse=_parse,
    starts=re.compile(rf"(?m)^{_LINE.pattern}"),
    needs=("Unable to determine the device handle",),
    goes_on=_LINE,
    repeats=True,
)
