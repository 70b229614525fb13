"""AMD."""

from ..vendor import Vendor

VENDOR = Vendor(
    id="amd",
    name="AMD",
    pci_ids=(0x1002,),
    label="AMD",
    library="RCCL",
    link="xGMI",
    links="xGMI links",
    tool="amd-smi",
    management="amdsmi",
    runtime="HIP",
    module="amdgpu",
    memory_clients=("amdkfd",),
    sources=("amdsmi", "amdsmi_readings", "kfd", "amdgpu_readings"),
    clock="GFX",
    parts_are_devices=True,
    stream_share=0.815,
)
