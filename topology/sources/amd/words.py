"""amdsmi's numbers and names in our words. Numbers of amdsmi.h, the same in ROCm 6.x and 7.x."""

from __future__ import annotations

from ...hardware.vendors import AMD

LINK_TYPES = {0: "internal", 1: "pcie", 2: "xgmi"}
"""What `amdsmi_topo_get_link_type` counts: amdsmi_io_link_type_t in 6.x, amdsmi_link_type_t in
7.x. 6.x has an amdsmi_link_type_t too, with 1 for xGMI, but not in the answer of this function."""
ARCHITECTURES = {
    "gfx900": "GCN 5",
    "gfx906": "GCN 5.1",
    "gfx908": "CDNA",
    "gfx90a": "CDNA 2",
    "gfx940": "CDNA 3",
    "gfx941": "CDNA 3",
    "gfx942": "CDNA 3",
    "gfx950": "CDNA 4",
    "gfx1030": "RDNA 2",
    "gfx1100": "RDNA 3",
    "gfx1101": "RDNA 3",
    "gfx1102": "RDNA 3",
    "gfx1200": "RDNA 4",
    "gfx1201": "RDNA 4",
}
"""LLVM's AMDGPU targets and the generation that AMD's tables of supported GPUs give them."""
VIRTUALIZATION = {
    "BAREMETAL": "none",
    "PASSTHROUGH": "passthrough",
    "GUEST": "vgpu",
    "HOST": "host vgpu",
}
ECC_BLOCKS = (
    "UMC",
    "SDMA",
    "GFX",
    "MMHUB",
    "ATHUB",
    "PCIE_BIF",
    "HDP",
    "XGMI_WAFL",
    "DF",
    "SMN",
    "SEM",
    "MP0",
    "MP1",
    "FUSE",
    "MCA",
    "VCN",
    "JPEG",
    "IH",
    "MPIO",
)
"""Members of AmdSmiGpuBlock that ROCm 6.x and 7.x both have."""
ECC_MEMORY_BIT = 0x1
"""AMDSMI_GPU_BLOCK_UMC, the memory controllers, in the mask of blocks with ECC."""
PAGE_PENDING = 1
"""amdsmi_memory_page_status_t: 0 reserved, 1 pending, 2 cannot be reserved."""
RESIDENCIES = (
    "accumulation_counter",
    "prochot_residency_acc",
    "ppt_residency_acc",
    "socket_thm_residency_acc",
    "vr_thm_residency_acc",
    "hbm_thm_residency_acc",
)
"""Counters of gpu_metrics: samples taken, and those in which something held the clocks down."""
XGMI_COUNTERS = ("xgmi_read_data_acc", "xgmi_write_data_acc")
"""Kilobytes received and sent by each link, of gpu_metrics."""
THROTTLES = (
    # counter of gpu_metrics, flag of amdsmi_get_violation_status, word
    ("prochot_residency_acc", "active_prochot_thrm", "prochot"),
    ("ppt_residency_acc", "active_ppt_pwr", "sw power cap"),
    ("socket_thm_residency_acc", "active_socket_thrm", "socket thermal"),
    ("vr_thm_residency_acc", "active_vr_thrm", "vr thermal"),
    ("hbm_thm_residency_acc", "active_hbm_thrm", "hbm thermal"),
)
"""PPT is AMD's package power tracking: the board's power limit, as NVIDIA's "sw power cap"."""
THROTTLED = "throttled, reason not told"
"""Before MI300 the binding gives the mask of reasons only as a truth value."""
LINK_STATES = {"U": True, "D": False}
"""Of `amdsmi_get_gpu_xgmi_link_status`; "X" is a link that is not used here."""
PCIE_GENERATIONS = {2500: 1, 5000: 2, 8000: 3, 16000: 4, 32000: 5, 64000: 6}
"""MT/s of one lane -> generation."""
LEAST_MICROWATTS = 100_000
"""Power caps are microwatts since ROCm 6.1.2 and were watts before; no cap lies between."""
MIB = 2**20
HELD = {"sw power cap": "power cap (PPT)"}
"""Reasons that readings of both vendors call by NVIDIA's name, in the words of AMD's tools."""


def held(reason: str, vendor: str | None) -> str:
    """A reason that holds clocks down, in the words of the vendor."""
    return HELD.get(reason, reason) if vendor == AMD.id else reason


def gfx_name(name: str) -> str:
    """Write "gfx9010" as "gfx90a": older tools print the stepping as a decimal number."""
    digits = name.removeprefix("gfx")
    if len(digits) == 4 and digits.startswith("90") and digits.isdecimal():
        return f"gfx90{int(digits[2:]):x}"
    return name
