"""Sources that ask this machine: a module each, with `SOURCE`; the first value of a field wins."""

from importlib import import_module
from typing import TYPE_CHECKING

from ..hardware.vendors import VENDORS

if TYPE_CHECKING:
    from ..model.source import Source

MODULES = (
    "nvidia.nvml",
    "nvidia.nvml_readings",
    "amd.amdsmi",
    "amd.amdsmi_readings",
    "kfd.kfd",
    "kfd.amdgpu_readings",
    "pci.pci",
    "linux.host",
    "pci.network",
    "pci.storage",
    "linux.processes",
    "linux.software",
    "linux.environment",
    "linux.kernel_log",
    "linux.counters",
    "nvidia.nvml_events",
)
NAMES = tuple(module.rpartition(".")[2] for module in MODULES)
"""The ids of the sources, in the same order: the last word of a module's name."""
_DOING = (
    "nvml_readings",
    "amdsmi_readings",
    "amdgpu_readings",
    "processes",
    "software",
    "kernel_log",
    "counters",
    "nvml_events",
)
WIRING = tuple(name for name in NAMES if name not in _DOING)
"""Those that know how devices are connected; the others say what happens on them."""
MAKERS = {source: vendor.id for vendor in VENDORS for source in vendor.sources}
"""The vendor whose GPUs a source asks about; sources without one ask about the whole machine."""


def load(name: str) -> "Source":
    """Import the source of that id; KeyError for an id that is not in `NAMES`."""
    module = dict(zip(NAMES, MODULES, strict=True))[name]
    found: Source = import_module(f"{__name__}.{module}").SOURCE
    return found
