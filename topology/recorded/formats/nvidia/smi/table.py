"""The table that `nvidia-smi` prints without arguments, in the layouts of drivers since 300."""

from __future__ import annotations

import re
from xml.etree.ElementTree import SubElement

from .....model.format import FormatError, text_format
from .....model.part import PartialNode
from .document import PrintedGpu, element_of, part_of, put

TOOL = "the table of nvidia-smi"
_HEAD = re.compile(
    r"NVIDIA-SMI\s+([\w.!/]{1,40})\s+(?:Driver|KMD) Version:\s*([\w.!/]{1,40})"
    r"(?:\s+CUDA(?: UMD)? Version:\s*([\w.!/]{1,40}))?"
)
_BUS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
_NAME = re.compile(r"\A\s*(\d{1,4})\s+(\S.{0,120}?)\s+(On|Off|N/A|WDDM|TCC|MCDM|ERR!)\s*\Z")
_PLACE = re.compile(rf"\A\s*({_BUS}|N/A)\s+(?:On|Off|N/A|ERR!)\s*\Z")
"""The GPU of a Jetson is on no PCI bus."""
_STATE = re.compile(r"\A\s*(\S{1,12})\s+(\S{1,12})\s+(\S{1,12})\s+(\S{1,12})\s*/\s*(\S{1,12})\s*\Z")
_MEMORY = re.compile(r"\A\s*(\d{1,9}\s?Mi?B)\s*/\s*(\d{1,9}\s?Mi?B)\s*\Z")
_LOAD = re.compile(r"\A\s*(\S{1,12})\s+(\S.{0,30}?)\s*\Z")
_SLICE = re.compile(r"\A\s*(\d{1,4})\s+(\d{1,4})\s+(\d{1,4})\s+(\d{1,4})\s*\Z")
_PROCESS = re.compile(
    r"\A\s*(\d{1,4})\s+(?:(?:N/A|\d{1,4})\s+(?:N/A|\d{1,4})\s+)?(\d{1,10})\s+"
    r"((?:M\+)?C(?:\+G)?|G|M)\s+(?:\S.{0,200}?\s+)?(\d{1,9}\s?Mi?B|N/A)\s*\Z"
)
_UNSAID = re.compile(r"\A\s*(\d{1,4})\s+(Not Supported|ERR!|Insufficient Permissions)\s*\Z")
_MODES = {"e. process": "Exclusive_Process", "e. thread": "Exclusive_Thread"}
_FAILED = "ERR!"


class _Table:
    """What the lines have said so far."""

    def __init__(self) -> None:
        self.gpus: dict[int, PrintedGpu] = {}
        self.versions: dict[str, str] | None = None
        self._rows = 0
        """Rows of the last GPU that were read."""
        self._current: PrintedGpu | None = None

    def line(self, line: str) -> bool:
        """Read one line; False where another table begins."""
        if head := _HEAD.search(line):
            if self.versions is not None:
                return False
            self.versions = {"driver_version": head[2]}
            if head[3]:
                self.versions["cuda_version"] = head[3]
            return True
        cells = line.strip().strip("|").split("|")
        if line.strip().startswith("+") or not line.strip():
            self._current = None
        elif len(cells) == 3:
            self._of_gpu(cells)
        elif len(cells) == 4 and (found := _SLICE.match(cells[0])):
            self._slice(found, cells[1])
        elif len(cells) == 1:
            self._process(cells[0])
        return True

    def _of_gpu(self, cells: list[str]) -> None:
        name, place = _NAME.match(cells[0]), _PLACE.match(cells[1])
        if name and place:
            number, ecc = int(name[1]), cells[2].strip()
            values = {"product_name": name[2]}
            if place[1] != "N/A":
                values["pci/pci_bus_id"] = place[1]
            if name[3] in ("On", "Off"):
                values["persistence_mode"] = "Enabled" if name[3] == "On" else "Disabled"
            counted = ecc.isdigit()
            words = {"On": "Enabled", "Off": "Disabled"}
            values["ecc_mode/current_ecc"] = "Enabled" if counted else words.get(ecc, ecc)
            if counted or ecc == _FAILED:
                values["ecc_errors/volatile/double_bit/total"] = ecc
            self._current = PrintedGpu(element_of(values), number)
            self._rows = 1
            self.gpus.setdefault(number, self._current)
            return
        if self._current is None:
            return
        self._rows += 1
        root = self._current.element
        state = _STATE.match(cells[0])
        if self._rows == 2 and state:
            put(root, "fan_speed", state[1])
            put(root, "temperature/gpu_temp", state[2])
            put(root, "performance_state", state[3])
            put(root, "gpu_power_readings/power_draw", state[4])
            put(root, "gpu_power_readings/current_power_limit", state[5])
            if memory := _MEMORY.match(cells[1]):
                put(root, "fb_memory_usage/used", memory[1].replace("MB", "MiB"))
                put(root, "fb_memory_usage/total", memory[2].replace("MB", "MiB"))
            elif cells[1].strip():
                put(root, "fb_memory_usage/used", cells[1].strip())
                put(root, "fb_memory_usage/total", cells[1].strip())
            if load := _LOAD.match(cells[2]):
                put(root, "utilization/gpu_util", load[1])
                put(root, "compute_mode", _MODES.get(load[2].lower(), load[2]))
        elif self._rows == 3 and not cells[0].strip() and cells[2].strip():
            mode = cells[2].strip()
            # A star: the mode changes with the next reset.
            put(root, "mig_mode/current_mig", mode.rstrip("*"))
            if mode.rstrip("*") in ("Enabled", "Disabled"):
                enabled = (mode.rstrip("*") == "Enabled") != mode.endswith("*")
                put(root, "mig_mode/pending_mig", "Enabled" if enabled else "Disabled")

    def _slice(self, found: re.Match[str], memory: str) -> None:
        gpu = self.gpus.get(int(found[1]))
        if gpu is None:
            return
        devices = put(gpu.element, "mig_devices", "")
        device = SubElement(devices, "mig_device")
        put(device, "gpu_instance_id", found[2])
        put(device, "compute_instance_id", found[3])
        put(device, "index", found[4])
        if sizes := _MEMORY.match(memory):
            put(device, "fb_memory_usage/total", sizes[2])

    def _process(self, cell: str) -> None:
        said = cell.strip()
        if said.startswith("Processes:") or said.startswith("Compute processes:"):
            for gpu in self.gpus.values():
                put(gpu.element, "processes", "")
            return
        found, unsaid = _PROCESS.match(cell), _UNSAID.match(cell)
        row = found or unsaid
        of_gpu = self.gpus.get(int(row[1])) if row else None
        listed = None if of_gpu is None else of_gpu.element.find("processes")
        if listed is None:
            return
        if found:
            item = SubElement(listed, "process_info")
            put(item, "pid", found[2])
            put(item, "type", found[3])
            put(item, "used_memory", found[4])
        elif unsaid:
            listed.text = unsaid[2]


def _parse(lines: list[str]) -> PartialNode:
    table = _Table()
    for line in lines:
        if not table.line(line):
            break
    if not table.gpus:
        raise FormatError("no row of a GPU in it")
    return part_of(table.gpus.values(), TOOL, table.versions)


FORMAT = text_format(
    id="nvidia-smi",
    parse=_parse,
    starts=re.compile(
        r"(?m)^[ \t|]*NVIDIA-SMI [^\n]{0,80}(?:Driver|KMD) Version:|"
        rf"^[ \t]*\|[ \t]*\d{{1,4}}[ \t]+[^|\n]{{3,130}}\|[ \t]*{_BUS}[ \t]+(?:On|Off|N/A)[ \t]*\|"
    ),
    needs=("NVIDIA-SMI ", "Off |", "On |", "N/A |"),
    goes_on=re.compile(r"\s*(?:\||\+[-=]{3})"),
)
