"""What one GPU consists of and ends in: links, fabric, instances, caches, memory banks.

Sizes are bytes, rates GB/s one way, clocks MHz.
"""

from __future__ import annotations

from .record import Record


class NvLink(Record, frozen=True, kw_only=True):
    """One NVLink of one GPU, as NVML describes it."""

    link: int
    """Number of the link on its GPU, from 0."""
    active: bool | None = None
    """NVML's link state; an active link is trained, which does not prove that P2P works over it."""
    version: str | None = None
    """NVLink generation, such as "4.0"."""
    raw_gbs: float | None = None
    """Signalling rate one way, GB/s, as `nvidia-smi nvlink -s` prints it; not the payload rate."""
    remote_address: str | None = None
    """PCI address at the other end; None when the driver hides it (a virtual machine)."""
    remote_kind: str | None = None
    """"gpu", "nvswitch", "ibmnpu" or None."""
    remote_link: int | None = None
    """Number of the link at the other end."""
    p2p_capable: bool | None = None
    """NVML capability: whether P2P over this link is supported."""


class Fabric(Record, frozen=True, kw_only=True):
    """Registration of a GPU with the NVSwitch fabric (nvmlDeviceGetGpuFabricInfoV)."""

    state: str | None = None
    """"not supported", "not started", "in progress" or "completed"."""
    status: str | None = None
    """NVML's return code of the registration in words; "Success" when it worked."""
    cluster_uuid: str | None = None
    clique_id: int | None = None
    health_mask: int | None = None
    health: tuple[tuple[str, str], ...] = ()
    """The mask decoded: (what, "true" | "false" | "not supported" | word)."""


class MigInstance(Record, frozen=True, kw_only=True):
    """One MIG device of a GPU."""

    index: int
    uuid: str | None = None
    name: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    memory_bytes: int | None = None


class GpuCache(Record, frozen=True, kw_only=True):
    """One kind of cache of a GPU beyond the compute units' own, AMD."""

    level: int
    """2 for the L2, 3 for the cache at the memory (Infinity Cache)."""
    kind: str
    """"data", "instruction", "data and instruction" or "not told"."""
    size_bytes: int
    """Size of one cache as the driver states it. Where several XCDs have an L2 each, newer kernels
    give the size of one, older ones the sum (kfd_topology.c, fill_in_l2_l3_pcache)."""
    count: int | None = None
    """How many of them the driver lists."""


class MemoryBank(Record, frozen=True, kw_only=True):
    """One bank of a GPU's own memory as KFD lists it, AMD."""

    kind: str
    """"public": the CPU reaches all of it through the BAR; "private": it does not."""
    size_bytes: int
    width_bits: int | None = None
    clock_mhz: int | None = None
    """The highest clock of the memory."""


class XgmiLink(Record, frozen=True, kw_only=True):
    """One xGMI wire (or bundle) from this GPU to another, AMD."""

    identity = ("remote_address",)

    remote_address: str
    active: bool | None = None
    links: int | None = None
    raw_gbs: float | None = None
    """Rate of the bundle one way, GB/s."""
    hops: int | None = None
    """From /sys/class/drm's xgmi_num_hops or KFD; amdsmi's own count says 1 for every pair."""
    weight: int | None = None
    speed_gts: float | None = None
    """Rate of one lane, GT/s."""
    width: int | None = None
    """Lanes of one link."""
    bandwidth_min_gbs: float | None = None
    """Least and most bandwidth of the pair one way, GB/s, as the driver states them; both are 0
    where there is no direct link."""
    bandwidth_max_gbs: float | None = None
