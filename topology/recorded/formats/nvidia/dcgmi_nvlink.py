"""`dcgmi nvlink --link-status`: a letter for each NVLink of GPUs and NVSwitches.

The letters and heads are those of DCGM's dcgmi/Nvlink.cpp (version 3 and later).
"""

from __future__ import annotations

import re

import msgspec

from ....model.format import FormatError, text_format
from ....model.machine import Gpu, NvLink
from ....model.part import PartialNode
from ....model.record import Gap, gaps_of
from ....model.snapshot import Problem
from .smi.document import PrintedGpu, element_of, part_of

TOOL = "dcgmi nvlink"
UP, DOWN, DISABLED = "U", "D", "X"
_HEAD = re.compile(r"\A\s*(gpuId|physicalId) (\d{1,4}):\s*\Z")
_LETTERS = re.compile(r"\A\s*((?:[UDX_] ?){1,128})\s*\Z")
_UNTOLD = ("raw_gbs", "version", "remote_address", "remote_kind", "remote_link", "p2p_capable")


def _parse(lines: list[str]) -> PartialNode:
    shown: dict[tuple[str, int], str] = {}
    now: tuple[str, int] | None = None
    for line in lines:
        if head := _HEAD.match(line):
            now = head[1], int(head[2])
        elif now is not None and (letters := _LETTERS.match(line)):
            shown[now] = shown.get(now, "") + letters[1].replace(" ", "")
    gpus = {number: letters for (kind, number), letters in shown.items() if kind == "gpuId"}
    if not gpus:
        raise FormatError("no line of a GPU in it")
    part = part_of((PrintedGpu(element_of({}), number) for number in gpus), TOOL)
    found = zip(part.gpus, gpus.values(), strict=True)
    switches = (
        f"NVSwitch {number}: {letters.count(DOWN)} of its NVLinks are down"
        for (kind, number), letters in shown.items()
        if kind == "physicalId" and DOWN in letters
    )
    return msgspec.structs.replace(
        part,
        gpus=tuple(_linked(gpu, letters) for gpu, letters in found),
        problems=(*part.problems, *(Problem(source=TOOL, text=text) for text in switches)),
    )


def _linked(gpu: Gpu, letters: str) -> Gpu:
    """The GPU with its links; a place that this model has no link for has none."""
    unsaid = gaps_of(_UNTOLD, f"not in {TOOL}")
    links = []
    for number, letter in enumerate(letters):
        if letter in (UP, DOWN):
            links.append(NvLink(link=number, active=letter == UP, gaps=unsaid))
        elif letter == DISABLED:
            off = Gap("active", "dcgmi calls this link disabled")
            links.append(NvLink(link=number, gaps=(off, *unsaid)))
    return gpu.filled(nvlinks=tuple(links))


FORMAT = text_format(
    id="dcgmi nvlink --link-status",
    parse=_parse,
    starts=re.compile(r"(?m)^[ \t]*gpuId \d{1,4}:[ \t]*\n[ \t]*[UDX_](?: [UDX_]){0,127}[ \t]*$"),
    needs=("gpuId ",),
    goes_on=re.compile(
        r"[ \t]*(?:gpuId \d|physicalId \d|[UDX_](?: [UDX_])*[ \t]*$|NvSwitches:|GPUs:|Key: )"
    ),
)
