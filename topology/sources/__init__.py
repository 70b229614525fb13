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
