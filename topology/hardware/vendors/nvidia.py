"""NVIDIA."""

from ..vendor import Vendor

VENDOR = Vendor(
    id="nvidia",
    name="NVIDIA",
    pci_ids=(0x10DE,),
    library="NCCL",
    link="NVLink",
    links="NVLinks",
    tool="nvidia-smi",
    management="NVML",
    runtime="CUDA",
    module="nvidia",
    memory_clients=("nv_mem", "nv_mem_nc"),
    sources=("nvml", "nvml_readings"),
    distances="letters of nvidia-smi topo -m",
    letters="letters of nvidia-smi",
    link_source="NVML",
    window="BAR1",
    clock="SM",
    clock_field="sm",
    capability=", capability",
    stream_share=0.885,
)
