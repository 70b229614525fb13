"""What `--from` reads. One module a format, each with `FORMAT`; the first that recognises wins."""

NAMES = (
    "nvml_json",
    "smi_xml",
    "smi_topo",
    "sysfs_tar",
    "nccl_xml",
)
