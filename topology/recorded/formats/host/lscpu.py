"""Text of `lscpu`: model, sockets, NUMA nodes with their CPUs, and whether this is a guest."""

from __future__ import annotations

import re

from ....model.cpulist import members
from ....model.format import FormatError, text_format
from ....model.part import PartialNode
from ....model.record import Gap
from ....model.surroundings import NumaNode, Socket
from ....sources.files.answers import whole
from .said import host_of

TOOL = "lscpu"
_VALUE = re.compile(r"\s*([A-Z][A-Za-z0-9 ()/-]{1,40}?):\s{0,60}(.{0,4000}?)\s*\Z")
_NODE = re.compile(r"NUMA node(\d{1,4}) CPU\(s\)\Z")
_CPUS = re.compile(r"\A\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*\Z")
_TEXTS = {"cpu_vendor": "Vendor ID", "cpu_model_name": "Model name"}
_NUMBERS = {"cpu_family": "CPU family", "cpu_model": "Model"}
_MOST_SOCKETS = 64
_LONGEST = 16_384
_MOST_NODES = 1024


def _parse(lines: list[str]) -> PartialNode:
    said = _values(lines)
    cpus = whole(said.get("CPU(s)"))
    if cpus is None or cpus <= 0:
        raise FormatError("no number of CPUs in it")
    known: dict[str, object] = {"architecture": said.get("Architecture")}
    known |= {field: said[name] for field, name in _TEXTS.items() if said.get(name)}
    numbers = {field: whole(said.get(name)) for field, name in _NUMBERS.items()}
    known |= {field: number for field, number in numbers.items() if number is not None}
    if guest := _hypervisor(said):
        known["hypervisor"] = guest
    elif "Flags" in said or "Virtualization" in said:
        known["hypervisor"] = None  # a guest of x86 shows its hypervisor here, or in its flags
    return PartialNode(host=host_of(TOOL, sockets=_sockets(said), numa=_nodes(said), **known))


def _values(lines: list[str]) -> dict[str, str]:
    said: dict[str, str] = {}
    name, column = "", 0
    for line in lines:
        if value := _VALUE.match(line):
            name, column = value[1] if value[1] not in said else "", value.start(2)
            said.setdefault(value[1], value[2])
        elif name and column and line[:column].isspace() and len(said[name]) < _LONGEST:
            said[name] += line[column:].rstrip()  # it breaks words where the terminal ends
    return said


def _hypervisor(said: dict[str, str]) -> str | None:
    vendor = said.get("Hypervisor vendor")
    if vendor:
        return vendor[:60]
    if "hypervisor" in said.get("Flags", "").split():
        return "unknown hypervisor"
    return said.get("Virtualization type") or None


def _sockets(said: dict[str, str]) -> tuple[Socket, ...]:
    count, cores = whole(said.get("Socket(s)")), whole(said.get("Core(s) per socket"))
    threads = whole(said.get("Thread(s) per core"))
    if count is None or not 0 < count <= _MOST_SOCKETS:
        return ()
    each = cores * threads if cores and threads else None
    return tuple(Socket(socket=number, cores=cores, threads=each) for number in range(count))


def _nodes(said: dict[str, str]) -> tuple[NumaNode, ...]:
    found: list[NumaNode] = []
    for name, text in said.items():
        node = _NODE.match(name)
        if node is None or len(found) >= _MOST_NODES or (text and not _CPUS.match(text)):
            continue
        cpus = text.replace(" ", "")
        gaps = [Gap("memory_bytes", f"not in {TOOL}"), Gap("distances", f"not in {TOOL}")]
        own = False if cpus and members(cpus) else None
        if own is None:
            gaps.append(Gap("gpu_memory", "memory without CPUs may also be an expander's"))
        found.append(NumaNode(node=int(node[1]), cpus=cpus, gpu_memory=own, gaps=tuple(gaps)))
    return tuple(sorted(found, key=lambda node: node.node))


_STARTS = re.compile(
    r"(?m)^[ \t]*Architecture:[ \t]+\S+[ \t]*\n(?:[^\n]{0,200}\n){0,4}[ \t]*CPU\(s\):"
)
FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=_STARTS,
    needs=("CPU(s):",),
    goes_on=re.compile(
        r"[ \t]*[A-Z][A-Za-z0-9 ()/-]{1,40}:[ \t]{1,60}\S|[ \t]*NUMA node\d{1,4} |"
        r"(?:Virtualization features|Caches[^\n]{0,30}|NUMA|Vulnerabilities):[ \t]*\Z|"
        r"[ \t]{20,40}\S"
    ),
)
