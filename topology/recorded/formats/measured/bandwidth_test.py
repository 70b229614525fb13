"""Output of bandwidthTest of the CUDA samples: GB/s between the host and one GPU, and inside it."""

from __future__ import annotations

import re

from ....model import quantities
from ....model.format import ProvesNothingError, text_format
from ....model.part import PartialNode
from ....model.snapshot import Measurement
from .figures import ListedGpu, figure, gpus_of, names_of

TOOL = "bandwidthTest"
_DEVICE = re.compile(r"\s*Device (\d{1,3}): (\S.{0,100}?)\s*\Z")
_TITLE = re.compile(r"\s*(Host to Device|Device to Host|Device to Device) Bandwidth, \d+ Device")
_MEMORY = re.compile(r"\s*(PINNED|PAGEABLE) Memory Transfers")
_UNIT = re.compile(r"\s*Transfer Size \(Bytes\)\s+Bandwidth\(([GM])B/s\)")
_ROW = re.compile(r"\s*(\d{3,12})\s+(\d{1,7}(?:\.\d{1,3})?)\s*\Z")
_QUANTITIES = {
    "Host to Device": quantities.HOST_TO_DEVICE,
    "Device to Host": quantities.DEVICE_TO_HOST,
    "Device to Device": quantities.MEMORY_COPY,
}


def _figure(title: str, gpu: str, memory: str, value: float, size: int) -> Measurement:
    inside = title == "Device to Device"
    return figure(
        TOOL,
        "memory" if inside else "host",
        _QUANTITIES[title],
        value,
        src=gpu,
        variant="copy" if inside else memory,
        bytes_per_copy=size,
        counted="bytes read + bytes written" if inside else "bytes copied, once",
        engine="copy engine",
    )


def _parse(lines: list[str]) -> PartialNode:
    shown: dict[int, ListedGpu] = {}
    figures: list[Measurement] = []
    title, memory, scale = "", "pinned", 1.0
    for line in lines:
        if device := _DEVICE.match(line):
            shown = {int(device[1]): ListedGpu(int(device[1]), device[2])}
        elif found := _TITLE.match(line):
            title = found[1]
        elif found := _MEMORY.match(line):
            memory = found[1].lower()
        elif found := _UNIT.match(line):
            scale = 1.0 if found[1] == "G" else 1e-3
        elif title and shown and (row := _ROW.match(line)):
            gpu = next(iter(names_of(shown).values()))
            figures.append(_figure(title, gpu, memory, float(row[2]) * scale, int(row[1])))
    if not figures:
        raise ProvesNothingError("no row below the name of a device; paste its whole output")
    return PartialNode(gpus=gpus_of(shown, TOOL), measurements=tuple(figures))


FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=re.compile(
        r"(?m)^[ \t]*(?:\[CUDA Bandwidth Test\]|Device \d{1,3}: [^\n]{3,100}\n[ \t]*Quick Mode)"
    ),
    needs=("CUDA Bandwidth Test", "Quick Mode"),
    goes_on=re.compile(
        r"\s*(?:Running on|Device \d|Quick Mode|Range Mode|Shmoo Mode|(?:Host|Device) to |PINNED|"
        r"PAGEABLE|Transfer Size|Result = |NOTE: |\d{3,12}\s+\d)"
    ),
    repeats=True,
)
