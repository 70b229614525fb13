"""Formats that `--from` reads: a module each, with `FORMAT`; the first to recognise a file wins."""

NAMES = (
    "nvidia.nvml_json",
    "amd.amdsmi_json",
    "nvidia.smi_xml",
    "nvidia.smi_query",
    "nvidia.smi_csv",
    "nvidia.smi_topo",
    "nvidia.smi_p2p",
    "nvidia.smi_nvlink",
    "nvidia.smi_list",
    "nvidia.smi_table",
    "nvidia.smi_lost",
    "amd.amd_smi",
    "amd.amd_smi_text",
    "amd.rocm_smi",
    "amd.rocm_smi_text",
    "sysfs_tar",
    "nccl_xml",
)
