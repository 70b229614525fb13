"""Rows of `nvidia-smi dmon` and `pmon`: columns by their names, the last row of each GPU."""

from __future__ import annotations

import re
from xml.etree.ElementTree import SubElement

from .....model.format import FormatError, text_format
from .....model.part import PartialNode
from .document import MAX_GPUS, PrintedGpu, element_of, part_of, put

TOOL = "nvidia-smi dmon"
_HEAD = re.compile(r"\s*#\s*(?:Date\s+Time\s+)?gpu\s+(\w.{3,200}?)\s*\Z")
_ROW = re.compile(r"\s*(?:\d{8}\s+[\d:]{8}\s+)?(\d{1,3})\s+(\S.{0,300}?)\s*\Z")
_COLUMNS = {
    "pwr": ("gpu_power_readings/power_draw", " W"),
    "gtemp": ("temperature/gpu_temp", " C"),
    "mtemp": ("temperature/memory_temp", " C"),
    "sm": ("utilization/gpu_util", " %"),
    "mem": ("utilization/memory_util", " %"),
    "mclk": ("clocks/mem_clock", " MHz"),
    "pclk": ("clocks/sm_clock", " MHz"),
    "fb": ("fb_memory_usage/used", " MiB"),
    "bar1": ("bar1_memory_usage/used", " MiB"),
    "dbecc": ("ecc_errors/volatile/double_bit/total", ""),
    "pci": ("pci/replay_counter", ""),
}
_PID = "pid"


def _parse(lines: list[str]) -> PartialNode:
    names: list[str] = []
    rows: dict[int, list[dict[str, str]]] = {}
    for line in lines:
        if head := _HEAD.match(line):
            names = head[1].split()
        elif names and (row := _ROW.match(line)):
            cells = row[2].split(maxsplit=len(names) - 1)
            if len(cells) == len(names):
                rows.setdefault(int(row[1]), []).append(dict(zip(names, cells, strict=True)))
    if not rows or len(rows) > MAX_GPUS:
        raise FormatError("no row of a GPU in it" if not rows else f"more than {MAX_GPUS} GPUs")
    return part_of((_printed(gpu, told) for gpu, told in sorted(rows.items())), TOOL)


def _printed(number: int, rows: list[dict[str, str]]) -> PrintedGpu:
    monitored = next((row for row in reversed(rows) if _PID not in row), {})
    root = element_of(
        {
            path: f"{monitored[name]}{unit}"
            for name, (path, unit) in _COLUMNS.items()
            if monitored.get(name, "-") != "-"
        }
    )
    listed = {row[_PID]: row for row in rows if row.get(_PID, "-").isdecimal()}
    if listed or any(_PID in row for row in rows):
        processes = put(root, "processes", "")
        for pid, row in listed.items():
            item = SubElement(processes, "process_info")
            put(item, "pid", pid)
            put(item, "type", row.get("type", "C"))
    return PrintedGpu(root, number)


FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=re.compile(
        r"(?m)^[ \t]*#[ \t]*(?:Date[ \t]+Time[ \t]+)?gpu[ \t]+(?:pwr|pid|sm|fb|mclk)\b"
    ),
    needs=("# gpu", "#Date", "# Date"),
    goes_on=re.compile(rf"\s*#\s*(?:gpu|Idx|YYYY|Date)|{_ROW.pattern}"),
    together=True,
    repeats=True,
)
