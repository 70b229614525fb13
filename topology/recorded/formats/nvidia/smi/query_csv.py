"""`nvidia-smi --query-gpu=... --format=csv`: named columns, a row for each GPU."""

from __future__ import annotations

import csv
import re

import msgspec

from .....model.format import FormatError, text_format
from .....model.part import PartialNode
from .document import MAX_GPUS, PrintedGpu, element_of, part_of

TOOL = "nvidia-smi --query-gpu"
_PATHS = {
    "name": "product_name",
    "gpu_name": "product_name",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "serial": "serial",
    "gpu_serial": "serial",
    "pci.bus_id": "pci/pci_bus_id",
    "gpu_bus_id": "pci/pci_bus_id",
    "pci.device_id": "pci/pci_device_id",
    "vbios_version": "vbios_version",
    "pstate": "performance_state",
    "persistence_mode": "persistence_mode",
    "compute_mode": "compute_mode",
    "gpu_recovery_action": "gpu_recovery_action",
    "memory.total": "fb_memory_usage/total",
    "memory.used": "fb_memory_usage/used",
    "memory.free": "fb_memory_usage/free",
    "utilization.gpu": "utilization/gpu_util",
    "utilization.memory": "utilization/memory_util",
    "temperature.gpu": "temperature/gpu_temp",
    "temperature.memory": "temperature/memory_temp",
    "power.draw.instant": "gpu_power_readings/instant_power_draw",
    "power.draw": "gpu_power_readings/power_draw",
    "enforced.power.limit": "gpu_power_readings/enforced_power_limit",
    "power.limit": "gpu_power_readings/current_power_limit",
    "power.default_limit": "gpu_power_readings/default_power_limit",
    "power.min_limit": "gpu_power_readings/min_power_limit",
    "power.max_limit": "gpu_power_readings/max_power_limit",
    "pcie.link.gen.max": "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
    "pcie.link.gen.gpumax": "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen",
    "pcie.link.gen.current": "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
    "pcie.link.width.max": "pci/pci_gpu_link_info/link_widths/max_link_width",
    "pcie.link.width.current": "pci/pci_gpu_link_info/link_widths/current_link_width",
    "ecc.mode.current": "ecc_mode/current_ecc",
    "ecc.mode.pending": "ecc_mode/pending_ecc",
    "ecc.errors.corrected.volatile.total": "ecc_errors/volatile/single_bit/total",
    "ecc.errors.corrected.aggregate.total": "ecc_errors/aggregate/single_bit/total",
    "ecc.errors.uncorrected.volatile.total": "ecc_errors/volatile/double_bit/total",
    "ecc.errors.uncorrected.aggregate.total": "ecc_errors/aggregate/double_bit/total",
    **{
        f"ecc.errors.{kind}ed.{time}.{place}": f"ecc_errors/{time}/{ours}_{kind}able"
        for kind in ("correct", "uncorrect")
        for time in ("volatile", "aggregate")
        for place, ours in (("sram", "sram"), ("dram", "dram"), ("device_memory", "dram"))
    },
    "retired_pages.single_bit_ecc.count": (
        "retired_pages/multiple_single_bit_retirement/retired_count"
    ),
    "retired_pages.double_bit.count": "retired_pages/double_bit_retirement/retired_count",
    "retired_pages.pending": "retired_pages/pending_retirement",
    "remapped_rows.correctable": "remapped_rows/remapped_row_corr",
    "remapped_rows.uncorrectable": "remapped_rows/remapped_row_unc",
    "remapped_rows.pending": "remapped_rows/remapped_row_pending",
    "remapped_rows.failure": "remapped_rows/remapped_row_failure",
    "clocks.max.graphics": "max_clocks/graphics_clock",
    "clocks.max.sm": "max_clocks/sm_clock",
    "clocks.max.memory": "max_clocks/mem_clock",
    "mig.mode.current": "mig_mode/current_mig",
    "mig.mode.pending": "mig_mode/pending_mig",
    "fabric.state": "fabric/state",
    "fabric.status": "fabric/status",
    "fabric.cliqueId": "fabric/cliqueId",
    "fabric.clusterUuid": "fabric/clusterUuid",
} | {
    f"clocks.{way}{ours}": f"clocks/{theirs}_clock"
    for way in ("current.", "")
    for ours, theirs in (
        ("graphics", "graphics"),
        ("gr", "graphics"),
        ("sm", "sm"),
        ("memory", "mem"),
        ("mem", "mem"),
        ("video", "video"),
    )
}
_UNITS = (
    ("memory.", "MiB"),
    ("utilization.", "%"),
    ("temperature.", "C"),
    ("power.", "W"),
    ("enforced.power", "W"),
    ("clocks.", "MHz"),
    ("pcie.link.width", "x"),
)
"""What `nounits` leaves out, and what nvidia-smi never prints in CSV."""
_ROW_NUMBERS = "a CSV of nvidia-smi names GPUs by no number: its rows are taken for GPU 0, 1, ..."
_OTHERS = ("index", "count", "driver_version", "compute_cap", "timestamp")
_NAMES = sorted({*_PATHS, *_OTHERS}, key=len, reverse=True)
_KNOWN = "|".join(map(re.escape, _NAMES))
_COMMAND = re.compile(r"--query-gpu[= ][\"']?([\w.,-]{1,8000})")
_UNIT = r"(?: \[[A-Za-z%]{1,5}\])?"
_HEAD = rf"[ \t]*(?:{_KNOWN}){_UNIT}(?:, [a-z][\w.]{{1,80}}{_UNIT})"
_NUMBER = re.compile(r"\A-?\d{1,18}(\.\d{1,9})?\Z")


def _parse(lines: list[str]) -> PartialNode:
    names: list[str] = []
    rows: dict[str, dict[str, str]] = {}
    for line in lines:
        if command := _COMMAND.search(line):
            names = names or command[1].strip(",").split(",")
            continue
        if len(line) > 100_000:
            raise FormatError("a line of more than 100000 characters")
        cells = [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]
        if re.match(_HEAD + r"*[ \t]*\Z", line):
            names = [cell.split(" ")[0] for cell in cells]
        elif names and len(cells) == len(names):
            row = dict(zip(names, cells, strict=True))
            # The last row of a GPU is what `-l` printed last.
            rows[_key(row, len(rows))] = row
    if not rows:
        raise FormatError("no row of a GPU in it")
    if len(rows) > MAX_GPUS:
        raise FormatError(f"more than {MAX_GPUS} GPUs")
    return _part(rows, names)


def _part(rows: dict[str, dict[str, str]], names: list[str]) -> PartialNode:
    shown = [*map(_printed, rows.values())]
    assumed: tuple[str, ...] = ()
    unnumbered = all(item.number is None for item in shown)
    whole = all(row.get("count") == str(len(rows)) for row in rows.values())
    if unnumbered and (whole or not {"pci.bus_id", "gpu_bus_id"} & set(names)):
        shown = [PrintedGpu(item.element, place) for place, item in enumerate(shown)]
        assumed = () if whole else (_ROW_NUMBERS,)
    first = next(iter(rows.values()))
    software = {"driver_version": first["driver_version"]} if "driver_version" in first else None
    part = part_of(shown, TOOL, software, assumed)
    return _with_capability(part, {row.get("compute_cap", "") for row in rows.values()})


def _with_capability(part: PartialNode, said: set[str]) -> PartialNode:
    value = said.pop() if len(said) == 1 else ""
    if not re.fullmatch(r"\d{1,2}\.\d", value):
        return part
    gpus = tuple(msgspec.structs.replace(gpu, compute_capability=value) for gpu in part.gpus)
    return msgspec.structs.replace(part, gpus=gpus)


def _key(row: dict[str, str], place: int) -> str:
    for name in ("pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid", "index"):
        if row.get(name):
            return row[name]
    return f"row {place}"


def _printed(row: dict[str, str]) -> PrintedGpu:
    values: dict[str, str] = {}
    for name, text in row.items():
        path = _PATHS.get(name)
        if name == "compute_cap":
            values[name] = text
        if path is None:
            continue
        unit = next((unit for start, unit in _UNITS if name.startswith(start)), "")
        values[path] = f"{text} {unit}" if unit and _NUMBER.match(text) else text
    index = row.get("index", "")
    return PrintedGpu(element_of(values), int(index) if re.fullmatch(r"\d{1,4}", index) else None)


_STARTS = re.compile(
    r"(?m)^(?:[^\n]{0,400}--query-gpu[= ][^\n]{0,8000}\n(?:[ \t=#`~-]*\n){0,4}[^\n]{0,400}, |"
    rf"{_HEAD}+[ \t]*$|[ \t]*memory\.\w{{1,20}} \[MiB\][ \t]*$)"
)
FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=_STARTS,
    needs=("--query-gpu", "[MiB]", *(f", {name}" for name in _NAMES)),
    goes_on=re.compile(r"[^,\n]{1,200},|[ \t]*[\d.]{1,18}(?: [A-Za-z%]{1,5})?[ \t]*\Z"),
    repeats=True,
)
