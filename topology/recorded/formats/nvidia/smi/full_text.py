"""The text of `nvidia-smi -q`: headings by indent, a name and a value in each line."""

from __future__ import annotations

import re
from xml.etree.ElementTree import SubElement

from .....model.format import FormatError, ProvesNothingError, text_format
from .....model.part import PartialNode
from .document import MAX_GPUS, PrintedGpu, element_of, part_of, put

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

# What `nvidia-smi -q` calls a value in its text, and what it is called in its XML.
NAMES = {
    "MIG Mode/Current": "mig_mode/current_mig",
    "MIG Mode/Pending": "mig_mode/pending_mig",
    "ECC Mode/Current": "ecc_mode/current_ecc",
    "ECC Mode/Pending": "ecc_mode/pending_ecc",
    "Serial Number": "serial",
    "GPU UUID": "uuid",
    "Minor Number": "minor_number",
    "VBIOS Version": "vbios_version",
    "Board ID": "board_id",
    "Board Part Number": "board_part_number",
    "Module ID": "gpu_module_id",
    "Platform Info/Module Id": "platformInfo/module_id",
    "GPU Virtualization Mode/Virtualization Mode": "gpu_virtualization_mode/virtualization_mode",
    "GPU C2C Mode": "c2c_mode",
    "PCI/Bus Id": "pci/pci_bus_id",
    "PCI/Device Id": "pci/pci_device_id",
    "PCI/GPU Link Info/PCIe Generation/Max": "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
    "PCI/GPU Link Info/PCIe Generation/Current": "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
    "PCI/GPU Link Info/PCIe Generation/Device Max": (
        "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen"
    ),
    "PCI/GPU Link Info/Link Width/Max": "pci/pci_gpu_link_info/link_widths/max_link_width",
    "PCI/GPU Link Info/Link Width/Current": "pci/pci_gpu_link_info/link_widths/current_link_width",
    "PCI/Replays Since Reset": "pci/replay_counter",
    "PCI/Tx Throughput": "pci/tx_util",
    "PCI/Rx Throughput": "pci/rx_util",
    "Utilization/GPU": "utilization/gpu_util",
    "Utilization/Memory": "utilization/memory_util",
    "Retired Pages/Single Bit ECC": "retired_pages/multiple_single_bit_retirement/retired_count",
    "ECC Errors/Unrepairable Memory": "ecc_errors/unrepairable_memory",
    "Retired Pages/Double Bit ECC": "retired_pages/double_bit_retirement/retired_count",
    "Retired Pages/Pending Page Blacklist": "retired_pages/pending_retirement",
    "Retired Pages/Pending": "retired_pages/pending_retirement",
    "Remapped Rows/Correctable Error": "remapped_rows/remapped_row_corr",
    "Remapped Rows/Uncorrectable Error": "remapped_rows/remapped_row_unc",
    "Remapped Rows/Pending": "remapped_rows/remapped_row_pending",
    "Remapped Rows/Remapping Failure Occurred": "remapped_rows/remapped_row_failure",
    "Temperature/GPU Current Temp": "temperature/gpu_temp",
    "Temperature/Memory Current Temp": "temperature/memory_temp",
    "Temperature/GPU Shutdown Temp": "temperature/gpu_temp_max_threshold",
    "Temperature/GPU Slowdown Temp": "temperature/gpu_temp_slow_threshold",
    "Temperature/GPU Max Operating Temp": "temperature/gpu_temp_max_gpu_threshold",
    "Temperature/Memory Max Operating Temp": "temperature/gpu_temp_max_mem_threshold",
    "Temperature/GPU Shutdown T.Limit Temp": "temperature/gpu_temp_max_tlimit_threshold",
    "Temperature/GPU Slowdown T.Limit Temp": "temperature/gpu_temp_slow_tlimit_threshold",
    "Temperature/GPU Max Operating T.Limit Temp": "temperature/gpu_temp_max_gpu_tlimit_threshold",
    "Temperature/Memory Max Operating T.Limit Temp": (
        "temperature/gpu_temp_max_mem_tlimit_threshold"
    ),
    "GPU Power Readings/Average Power Draw": "gpu_power_readings/average_power_draw",
    "GPU Power Readings/Instantaneous Power Draw": "gpu_power_readings/instant_power_draw",
    "Fabric/CliqueId": "fabric/cliqueId",
    "Fabric/ClusterUUID": "fabric/clusterUuid",
}
NAMES |= {
    f"{group}/{said}": f"{tag}/{name}_clock"
    for group, tag in (("Clocks", "clocks"), ("Max Clocks", "max_clocks"))
    for said, name in (
        ("Graphics", "graphics"),
        ("SM", "sm"),
        ("Memory", "mem"),
        ("Video", "video"),
    )
}
NAMES |= {
    f"Clocks {word} Reasons/{said}": f"clocks_{tag}_reasons/clocks_{tag}_reason_{name}"
    for word, tag in (("Throttle", "throttle"), ("Event", "event"))
    for said, name in (
        ("Idle", "gpu_idle"),
        ("Applications Clocks Setting", "applications_clocks_setting"),
        ("SW Power Cap", "sw_power_cap"),
        ("HW Slowdown", "hw_slowdown"),
        ("HW Thermal Slowdown", "hw_thermal_slowdown"),
        ("HW Power Brake Slowdown", "hw_power_brake_slowdown"),
        ("Sync Boost", "sync_boost"),
        ("SW Thermal Slowdown", "sw_thermal_slowdown"),
        ("Display Clock Setting", "display_clocks_setting"),
    )
}
NAMES |= {
    f"ECC Errors/{time}/{said}": f"ecc_errors/{time.lower()}/{name}"
    for time in ("Volatile", "Aggregate")
    for said, name in (
        ("SRAM Correctable", "sram_correctable"),
        ("SRAM Uncorrectable", "sram_uncorrectable"),
        ("SRAM Uncorrectable Parity", "sram_uncorrectable_parity"),
        ("SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded"),
        ("DRAM Correctable", "dram_correctable"),
        ("DRAM Uncorrectable", "dram_uncorrectable"),
        ("Single Bit/Total", "single_bit/total"),
        ("Double Bit/Total", "double_bit/total"),
    )
}
ALIKE = (
    "Product Name",
    "Product Architecture",
    "Persistence Mode",
    "GSP Firmware Version",
    "GPU Recovery Action",
    "Performance State",
    "Compute Mode",
    "Processes",
    "FB Memory Usage/Total",
    "FB Memory Usage/Used",
    "FB Memory Usage/Free",
    "BAR1 Memory Usage/Total",
    "BAR1 Memory Usage/Used",
    "Fabric/State",
    "Fabric/Status",
    *(
        f"{group}Power Readings/{said}"
        for group in ("", "GPU ")
        for said in (
            "Power Draw",
            "Power Limit",
            "Current Power Limit",
            "Enforced Power Limit",
            "Default Power Limit",
            "Min Power Limit",
            "Max Power Limit",
        )
    ),
)
"""Names that the XML writes in lower case, with underlines."""
NAMES |= {name: name.lower().replace(" ", "_") for name in ALIKE}
PATHS = {name.lower(): path for name, path in NAMES.items()}
"""Paths in the XML by the headings and the name in the text, in lower case: drivers differ."""


class _Log:
    """What the lines have said so far.

    `cut`: of an extract (`nvidia-smi -q | grep -A5 Fabric`), where headings are missing: a name
    counts if it ends one path alone, and a GPU begins where a value is told again.
    """

    def __init__(self, *, cut: bool = False) -> None:
        self._cut = cut
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
        if self._cut and not self.gpus and name not in _HEADS:
            self._next()
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

    def _next(self) -> None:
        if len(self.gpus) == MAX_GPUS:
            raise FormatError(f"more than {MAX_GPUS} GPUs")
        self.gpus.append(PrintedGpu(element_of({}), len(self.gpus)))

    def _whole(self, path: str, value: str) -> str:
        """The path that ends as this one does; of another GPU where this one has a value there.

        Lanes are known by their sign alone: "Current : 4x".
        """
        if _LANES.match(value) and "link width" not in path:
            path = f"link width/{path}"
        known = [whole for whole in PATHS if f"/{whole}".endswith(f"/{path}")]
        if path.startswith("health/"):
            known = [f"fabric/{path}"]
        if len(known) != 1:
            return path
        there = PATHS.get(known[0], "fabric/health/" + re.sub(r"[^a-z]", "_", known[0][14:]))
        if self.gpus[-1].element.find(there) is not None:
            self._next()
        return known[0]

    def _value(self, name: str, value: str) -> None:
        path = "/".join((*(heading for _, heading in self._headings), name))
        path = self._whole(path, value) if self._cut else path
        root = self.gpus[-1].element
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
        elif path.startswith("fabric/health/"):
            put(root, f"fabric/health/{re.sub(r'[^a-z]', '_', name)}", value)
        elif known := PATHS.get(path):
            put(root, known, value)


def _parse_extract(lines: list[str]) -> PartialNode:
    log = _Log(cut=True)
    for line in lines:
        log.line(line)
    log.gpus = [item for item in log.gpus if len(item.element)]
    if not log.gpus:
        raise ProvesNothingError("no value in it whose heading is known; paste nvidia-smi -q whole")
    return part_of(log.gpus, f"this extract of {TOOL}", log.heads)


def _parse(lines: list[str]) -> PartialNode:
    log = _Log()
    for line in lines:
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
FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=_STARTS,
    needs=("NVSMI LOG", "GPU 00"),
    goes_on=re.compile(
        r"[ \t]{2,}[A-Za-z]|GPU [0-9A-Fa-f]{4,8}:|"
        r"(?:Timestamp|(?:Driver|CUDA|KMD|CUDA UMD|NVML) Version|Attached GPUs)[ \t]*:"
    ),
)
_LANES = re.compile(r"\d{1,2}x\Z")
_HEADINGS = (
    "Fabric|Health|BAR1 Memory Usage|FB Memory Usage|ECC Errors|ECC Mode|Remapped Rows|"
    "Retired Pages|GPU Link Info|PCIe Generation|Link Width|Clocks(?: Event| Throttle)? Reasons|"
    "Max Clocks|GPU Power Readings|Power Readings|Temperature|Utilization|Volatile|Aggregate"
)
_NEEDS = (
    "CliqueId", "Summary    ", "BAR1 Memory", "FB Memory", "RAM Uncorrectable", "Remapp",
    "Retired Pages", "Current    ", "HW Slowdown", "Power Draw", "Product Name", "GPU UUID",
    "Bus Id", "Recovery Action",
)  # fmt: skip
EXTRACT = text_format(
    id="an extract of nvidia-smi -q",
    parse=_parse_extract,
    starts=re.compile(
        rf"(?m)^[ \t]*(?:{_HEADINGS})[ \t]*\n[ \t]+[A-Z][\w /().-]{{1,40}}?[ \t]*(?:$|:[ \t])|"
        r"^[ \t]+Max[ \t]+: \d{1,2}x[ \t]*\n[ \t]+Current[ \t]+: \d{1,2}x|"
        r"^[ \t]+(?:Product Name|GPU UUID|Bus Id|Remapping Failure Occurred|GPU Recovery Action)"
        r"[ \t]{2,}: "
    ),
    needs=_NEEDS,
    goes_on=re.compile(r"[ \t]{2,}[A-Za-z]|--[ \t]*\Z|GPU [0-9A-Fa-f]{4,8}:"),
    together=True,
    repeats=True,
    yields=True,
)
