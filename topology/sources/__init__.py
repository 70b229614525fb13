"""Where facts come from. One module a source, each with `SOURCE`; earlier ones win a field."""

NAMES = (
    "nvml",
    "nvml_readings",
    "amdsmi",
    "amdsmi_readings",
    "kfd",
    "amdgpu_readings",
    "pci",
    "host",
    "network",
    "processes",
    "software",
    "environment",
)
MAKERS = {
    "nvml": "nvidia",
    "nvml_readings": "nvidia",
    "amdsmi": "amd",
    "amdsmi_readings": "amd",
    "kfd": "amd",
    "amdgpu_readings": "amd",
}
"""Whose GPUs a source asks about; the others ask about all of the machine."""
