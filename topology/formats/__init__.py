"""What `--from` reads. One module a format, each with `FORMAT`; the first that recognises wins."""

NAMES = (
    "nvml_json",
    "amdsmi_json",
    "smi_xml",
    "smi_topo",
    "amd_smi",
    "amd_smi_text",
    "rocm_smi",
    "rocm_smi_text",
    "sysfs_tar",
    "nccl_xml",
)
