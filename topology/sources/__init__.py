"""Sources that ask this machine: a module each, with `SOURCE`; earlier ones win a field."""

from importlib import import_module
from typing import TYPE_CHECKING

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
    "linux.processes",
    "linux.software",
    "linux.environment",
)
NAMES = tuple(module.rpartition(".")[2] for module in MODULES)
"""The ids of the sources, in the same order: the last word of a module's name."""
MAKERS = {
    "nvml": "nvidia",
    "nvml_readings": "nvidia",
    "amdsmi": "amd",
    "amdsmi_readings": "amd",
    "kfd": "amd",
    "amdgpu_readings": "amd",
}
"""Whose GPUs a source asks about; the others ask about all of the machine."""


def load(name: str) -> "Source":
    """Import the source of that id; KeyError for an id that is not in `NAMES`."""
    module = dict(zip(NAMES, MODULES, strict=True))[name]
    found: Source = import_module(f"{__name__}.{module}").SOURCE
    return found
