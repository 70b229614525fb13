"""The text of `nvidia-smi -q`: headings by indent, a name and a value in each line."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree.ElementTree import SubElement

from .....model.format import Format, FormatError
from .....model.part import Part
from .document import MAX_GPUS, PrintedGpu, element_of, part_of, put, text_lines
from .query_names import PATHS

TOOL = "nvidia-smi -q"
_GPU = re.compile(r"\A\s*GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{1,2}:[0-9A-Fa-f]{1,2}\.[0-7])\s*\Z")
_LINE = re.compile(r"\A([ \t]*)([A-Za-z][^:\n]{0,80}?)[ \t]*(?::(?:[ \t]+(.{0,512}?))?)?[ \t]*\Z")
_HEADS = {
    "driver version": "driver_version",
    "cuda version": "cuda_version",
    "kmd version": "driver_version",
    "cuda umd version": "cuda_version",
    "attached gpus": "attached_gpus",
}
_MIG_DEVICE, _PROCESS = "mig device", "process id"
_OF_MIG = {
    "index": "index",
    "gpu instance id": "gpu_instance_id",
    "compute instance id": "compute_instance_id",
    "mig uuid": "uuid",
    "fb memory usage/total": "fb_memory_usage/total",
    "shared fb memory usage/total": "fb_memory_usage/total",
}
_OF_PROCESS = {"type": "type", "used gpu memory": "used_memory"}
_MAX_DEPTH = 16


class _Log:
    """What the lines have said so far."""

    def __init__(self) -> None:
        self.heads: dict[str, str] = {}
        self.gpus: list[PrintedGpu] = []
        self._headings: list[tuple[int, str]] = []
        """Indent and name of the headings above the line."""

    def line(self, line: str) -> bool:
        """Read one line; False where the output of another moment begins."""
        if "NVSMI LOG" in line or line.lstrip().startswith("Timestamp"):
            return not self.gpus
        if gpu := _GPU.match(line):
            if len(self.gpus) == MAX_GPUS:
                raise FormatError(f"more than {MAX_GPUS} GPUs")
            self.gpus.append(PrintedGpu(element_of({"pci/pci_bus_id": gpu[1]}), None))
            self._headings = []
            return True
        found = _LINE.match(line.expandtabs())
        if found is None:
            return True
        indent, name, value = len(found[1]), found[2].lower(), found[3]
        while self._headings and self._headings[-1][0] >= indent:
            self._headings.pop()
        if not self.gpus:
            if value and name in _HEADS:
                self.heads.setdefault(_HEADS[name], value)
        elif value is None:
            if len(self._headings) == _MAX_DEPTH:
                raise FormatError(f"headings nested deeper than {_MAX_DEPTH}")
            self._headings.append((indent, name))
            if name == _MIG_DEVICE:
                SubElement(put(self.gpus[-1].element, "mig_devices", ""), "mig_device")
            elif name == "processes":
                put(self.gpus[-1].element, "processes", "")
        else:
            self._value(name, value)
        return True

    def _value(self, name: str, value: str) -> None:
        root = self.gpus[-1].element
        path = "/".join((*(heading for _, heading in self._headings), name))
        if self._headings and self._headings[0][1] == _MIG_DEVICE:
            known = _OF_MIG.get(path.removeprefix(f"{_MIG_DEVICE}/"))
            if known is not None:
                put(root.findall("mig_devices/mig_device")[-1], known, value)
        elif self._headings and self._headings[0][1] == "processes":
            listed = put(root, "processes", "")
            if name == _PROCESS:
                put(SubElement(listed, "process_info"), "pid", value)
            elif name in _OF_PROCESS and len(listed):
                put(listed[-1], _OF_PROCESS[name], value)
        elif name == "processes":
            put(root, "processes", "" if value == "None" else value)
        elif len(self._headings) == 2 and path.startswith("fabric/health/"):
            put(root, f"fabric/health/{re.sub(r'[^a-z]', '_', name)}", value)
        elif known := PATHS.get(path):
            put(root, known, value)


def _recognises(head: bytes, path: Path) -> bool:
    return _STARTS.search(head.decode("utf-8", "replace")) is not None


def _parse(data: bytes, path: Path) -> Part:
    log = _Log()
    for line in text_lines(data):
        if not log.line(line):
            break
    # Only a list of all GPUs is numbered as NVML numbers them; `-i` leaves some out.
    if log.heads.get("attached_gpus") == str(len(log.gpus)):
        log.gpus = [PrintedGpu(item.element, place) for place, item in enumerate(log.gpus)]
    return part_of(log.gpus, TOOL, log.heads)


_STARTS = re.compile(
    r"(?m)^=+NVSMI LOG=+|"
    r"^GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7][ \t]*\n[ \t]+[A-Z]"
)
FORMAT = Format(
    id=TOOL,
    recognises=_recognises,
    parse=_parse,
    starts=_STARTS,
    needs=("NVSMI LOG", "GPU 00"),
    goes_on=re.compile(
        r"[ \t]{2,}[A-Za-z]|GPU [0-9A-Fa-f]{4,8}:|"
        r"(?:Timestamp|(?:Driver|CUDA|KMD|CUDA UMD|NVML) Version|Attached GPUs)[ \t]*:"
    ),
)
