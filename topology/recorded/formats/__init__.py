"""Formats that `--from` reads: a module each, with `FORMAT`; the first to recognise a file wins."""

NAMES = (
    "nvidia.nvml_json",
    "amd.amdsmi_json",
    "nvidia.smi.full_xml",
    "nvidia.smi.full_text",
    "nvidia.smi.query_csv",
    "nvidia.smi.topo",
    "nvidia.smi.p2p",
    "nvidia.smi.nvlink",
    "nvidia.smi.gpu_list",
    "nvidia.smi.table",
    "nvidia.smi.lost",
    "amd.amd_smi",
    "amd.amd_smi_text",
    "amd.rocm_smi",
    "amd.rocm_smi_text",
    "sysfs_tar",
    "nccl_xml",
)
