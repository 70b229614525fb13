"""The constants of NCCL's system: bandwidths by generation, classes, CPU models (graph/topo.h)."""

from functools import lru_cache

from ...model.element import Element
from ..nodes import CPU, GPU, LOCAL_GBS, NIC, NVS, PCI, CpuVendor, SystemKind, SystemNode
from ..settings import strtoll
from ..versions import Version

PCI_SPEEDS = (
    ("2.5 GT/s", 15),
    ("5 GT/s", 30),
    ("8 GT/s", 60),
    ("16 GT/s", 120),
    ("32 GT/s", 240),
    ("5.0 GT/s PCIe", 30),
    ("8.0 GT/s PCIe", 60),
    ("16.0 GT/s PCIe", 120),
    ("32.0 GT/s PCIe", 240),
    ("64.0 GT/s PCIe", 480),
)
"""Beginning of the speed string -> units of 100 Mbit/s a lane (graph/topo.cc:kvDictPciGen)."""

UNKNOWN_SPEED = 60

KEPT = 1024
"""Answers about texts of a topology that are kept: a mesh repeats them for every pair."""

CLASSES: tuple[tuple[str, SystemKind], ...] = (
    ("0x060400", PCI),
    ("0x080100", PCI),
    ("0x068000", NVS),
    ("0x068001", CPU),
    ("0x03", GPU),
    ("0x02", NIC),
)

VENDORS = (
    ("GenuineIntel", CpuVendor.INTEL),
    ("AuthenticAMD", CpuVendor.AMD),
    ("CentaurHauls", CpuVendor.ZHAOXIN),
    ("  Shanghai  ", CpuVendor.ZHAOXIN),
)


@lru_cache(KEPT)
def bus_number(bus: str) -> int:
    """A bus id as the library's integer: its hexadecimal digits without separators."""
    digits = ""
    for letter in bus.lower():
        if letter in ".:":
            continue
        if letter not in "0123456789abcdef" or len(digits) == 16:
            break
        digits += letter
    return int(digits, 16) if digits else 0


def kind_of_class(klass: str, version: Version) -> SystemKind:
    """The kind of node behind a PCI class; anything unknown counts as a switch."""
    return _kind_of_class(klass, version.library)


@lru_cache(KEPT)
def _kind_of_class(klass: str, library: str) -> SystemKind:
    if library == "rccl" and klass.startswith("0x120000"):
        return GPU
    return next((kind for start, kind in CLASSES if klass.startswith(start)), PCI)


def pci_link_gbs(speed: str, width: int) -> float:
    """Bandwidth of a PCI link: width 0 counts as 16, an unknown speed as gen 3."""
    units = next((u for start, u in PCI_SPEEDS if speed.startswith(start)), UNKNOWN_SPEED)
    return (width or 16) * units / 80.0


def nvlink_gbs(version: Version, gpu: SystemNode) -> float:
    """Bandwidth of one NVLink or xGMI link of a GPU."""
    if version.is_rccl:
        return next(gbs for start, gbs in version.xgmi_gbs if gpu.arch.startswith(start))
    exact = version.nvlink_exact_gbs.get(str(gpu.sm))
    if exact is not None:
        return exact
    return next((gbs for least, gbs in version.nvlink_gbs if gpu.sm >= least), 20.0)


def vendor_of(text: str) -> str:
    """The CPU vendor behind a CPUID string; "" when it is another one."""
    return next((vendor for start, vendor in VENDORS if text.startswith(start)), "")


def cpu_model(version: Version, vendor: str, family: int, model: int) -> int:
    """NCCL's model class: Intel 1 to 4 (rising), Yongfeng 1; RCCL: AMD Rome and later 1."""
    if vendor == CpuVendor.INTEL:
        classes = [least for least, _ in reversed(version.intel_gbs)]
        if family != 6:
            return 1
        if str(model) in version.intel_exact_gbs:
            return len(classes)
        return max((i for i, least in enumerate(classes, start=1) if model >= least), default=1)
    if vendor == CpuVendor.ZHAOXIN:
        return int(family == 7 and model == 0x5B)
    if vendor == CpuVendor.AMD and version.is_rccl:
        return int((family == 143 and model >= 49) or family == 175)
    return 0


def inter_cpu_gbs(version: Version, vendor: str, family: int, model: int) -> float:
    """Bandwidth between two NUMA nodes of an x86 host (graph/topo.cc:ncclTopoGetInterCpuBw)."""
    if vendor == CpuVendor.INTEL:
        if family != 6:
            return version.intel_gbs[-1][1]
        exact = version.intel_exact_gbs.get(str(model))
        if exact is not None:
            return exact
        return next(gbs for least, gbs in version.intel_gbs if model >= least)
    if vendor == CpuVendor.AMD:
        return version.amd_family_gbs.get(str(family), version.amd_gbs)
    if vendor == CpuVendor.ZHAOXIN:
        return 9.0 if family == 7 and model == 0x5B else 6.0
    return LOCAL_GBS


def pci_switch_device(element: Element) -> int:
    """The four PCI ids of a switch in one number; a missing id counts as zero."""
    total = 0
    for name, shift in (
        ("vendor", 48),
        ("device", 32),
        ("subsystem_vendor", 16),
        ("subsystem_device", 0),
    ):
        total += strtoll(element.get(name) or "0")[0] << shift
    return total & (1 << 64) - 1


def hexadecimal(text: str) -> int:
    """The number that a text begins with in hexadecimal; 0 without one."""
    digits = text.strip().lower().removeprefix("0x")
    end = 0
    while end < len(digits) and digits[end] in "0123456789abcdef":
        end += 1
    return int(digits[:end], 16) if end else 0


def decimal(text: str | None) -> float:
    """A number of a topology file; 0 without one, or with one that makes no sense."""
    try:
        value = float(text) if text is not None else 0.0
    except ValueError:
        return 0.0
    return value if value == value and abs(value) < 1e9 else 0.0
