"""NVIDIA."""

from ..vendor import DRIVER, ERRORS, LINKS, MEMORY, ON_BUS, Needed, Vendor

_ALL = "nvidia-smi -q"
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
    distances="codes of nvidia-smi topo -m",
    letters="codes of nvidia-smi",
    link_source="NVML",
    window="BAR1",
    clock="SM",
    clock_field="sm",
    capability=", capability",
    evidence=(
        Needed(id=DRIVER, what="an answer of the driver", fields=("gpu.uuid",), printed_by=_ALL),
        Needed(id=MEMORY, what="its memory", fields=("gpu.memory_bytes",), printed_by=_ALL),
        Needed(
            id=ERRORS,
            what="its memory errors",
            fields=("ecc.uncorrected_volatile", "ecc.remap_failed"),
            printed_by=_ALL,
        ),
        Needed(
            id=LINKS,
            what="its NVLinks",
            fields=("gpu.nvlinks", "gpu.fabric"),
            printed_by="nvidia-smi nvlink -s",
        ),
        ON_BUS,
    ),
    stream_share=0.885,
)
