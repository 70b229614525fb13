"""AMD."""

from ..vendor import DRIVER, ERRORS, LINKS, MEMORY, ON_BUS, Needed, Vendor

_STATIC = "amd-smi static --json"
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
        Needed(
            id=DRIVER,
            what="an answer of the driver",
            fields=("gpu.uuid", "gpu.kfd_node"),
            printed_by=_STATIC,
        ),
        Needed(id=MEMORY, what="its memory", fields=("gpu.memory_bytes",), printed_by=_STATIC),
        Needed(
            id=ERRORS,
            what="its memory errors",
            fields=("ecc.uncorrected_volatile", "reading.ecc_blocks"),
            printed_by="amd-smi metric --json",
        ),
        Needed(
            id=LINKS,
            what="its xGMI links",
            fields=("gpu.xgmi",),
            printed_by="amd-smi topology --json",
        ),
        ON_BUS,
    ),
    stream_share=0.815,
)
