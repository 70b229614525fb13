"""AMD."""

from ..vendor import DRIVER, ERRORS, LINKS, MEMORY, Needed, Vendor

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
    evidence=(
        Needed(id=DRIVER, what="an answer of the driver", fields=("gpu.uuid", "gpu.kfd_node")),
        Needed(id=MEMORY, what="its memory", fields=("gpu.memory_bytes",)),
        Needed(
            id=ERRORS,
            what="its memory errors",
            fields=("ecc.uncorrected_volatile", "reading.ecc_blocks"),
        ),
        Needed(id=LINKS, what="its xGMI links", fields=("gpu.xgmi",)),
    ),
    stream_share=0.815,
)
