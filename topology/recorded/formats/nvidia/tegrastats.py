"""Lines of tegrastats: a Jetson, whose GPU is a part of its processor."""

from __future__ import annotations

import re

from ....model.format import text_format
from ....model.machine import Gpu
from ....model.part import PartialNode
from ....model.readings import GpuReading
from ....model.record import gaps_of

TOOL = "tegrastats"
_LINE = re.compile(
    r"(?:\d\d-\d\d-\d{4} [\d:]{8} )?RAM (\d{1,7})/(\d{1,7})MB .{0,400}?\bGR3D_FREQ (\d{1,3})%"
)
OWN = "topo:GPU0"
NAME = "integrated GPU of a Jetson (nvgpu)"


def _parse(lines: list[str]) -> PartialNode:
    load = next((found[3] for line in reversed(lines) if (found := _LINE.match(line))), "0")
    gaps = gaps_of(("uuid", "memory_bytes"), f"{TOOL} prints none")
    return PartialNode(
        gpus=(Gpu(address=OWN, vendor="nvidia", name=NAME, gaps=gaps),),
        gpu_readings=(GpuReading(address=OWN, utilization_percent=float(load)),),
    )


FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=re.compile(rf"(?m)^{_LINE.pattern}"),
    needs=("GR3D_FREQ",),
    goes_on=_LINE,
    together=True,
    repeats=True,
)
