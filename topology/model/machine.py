"""What stays: the devices of one node and the wires between them.

Sizes are bytes, powers watts, clocks MHz, temperatures degrees Celsius. A PCI address is
written like the kernel writes it, `0000:00:06.0`, lower case.
"""

from functools import cached_property

from .element import Element
from .record import Record, by_address
from .severity import OpenWord
from .surroundings import DirectStorage, Drive, Host, Interface, RdmaDevice, Software

_NO_FABRIC, _JOINED = "not supported", "completed"
_REDIRECTS = ("ReqRedir", "CmpltRedir")
_VGPU, _PASSTHROUGH, _NVSWITCH, _GPU = "vgpu", "passthrough", "nvswitch", "gpu"


# What one GPU consists of and ends in: links, fabric, instances, caches, memory banks.
#
# Sizes are bytes, rates GB/s one way, clocks MHz.
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

    @property
    def to_switch(self) -> bool:
        """Whether it leads to an NVSwitch, seen or hidden."""
        return self.remote_kind == _NVSWITCH

    @property
    def to_gpu(self) -> bool:
        """Whether it leads to another GPU."""
        return self.remote_kind == _GPU


class Fabric(Record, frozen=True, kw_only=True):
    """Registration of a GPU with the NVSwitch fabric (nvmlDeviceGetGpuFabricInfoV)."""

    state: str | None = None
    """NVML's word: "not supported", "not started", "in progress" or "completed"."""
    status: str | None = None
    """NVML's return code of the registration in words; "Success" when it worked."""
    cluster_uuid: str | None = None
    clique_id: int | None = None
    health_mask: int | None = None
    health: tuple[tuple[str, str], ...] = ()
    """The mask decoded: (what, "true" | "false" | "not supported" | word)."""

    @property
    def unsupported(self) -> bool:
        """Whether this GPU has no such fabric."""
        return self.state == _NO_FABRIC

    @property
    def joined(self) -> bool:
        """Whether the registration is over."""
        return self.state == _JOINED

    @property
    def partition(self) -> tuple[str | None, int] | None:
        """Cluster and clique, which all GPUs of a board share; None where they were not told."""
        return None if self.clique_id is None else (self.cluster_uuid, self.clique_id)


class MigInstance(Record, frozen=True, kw_only=True):
    """One MIG device of a GPU."""

    index: int
    uuid: str | None = None
    name: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    memory_bytes: int | None = None


class CacheKind(OpenWord):
    """What a cache holds."""

    DATA = "data"
    INSTRUCTION = "instruction"
    BOTH = "data and instruction"
    NOT_TOLD = "not told"


class GpuCache(Record, frozen=True, kw_only=True):
    """One kind of cache of a GPU beyond the compute units' own, AMD."""

    level: int
    """2 for the L2, 3 for the cache at the memory (Infinity Cache)."""
    kind: CacheKind
    size_bytes: int
    """Size of one cache as the driver states it. Where several XCDs have an L2 each, newer kernels
    give the size of one, older ones the sum (kfd_topology.c, fill_in_l2_l3_pcache)."""
    count: int | None = None
    """How many of them the driver lists."""


class MemoryBank(Record, frozen=True, kw_only=True):
    """One bank of a GPU's own memory as KFD lists it, AMD."""

    kind: str
    """As the kernel names the heap, "public": the CPU reaches all of it through the BAR; "private":
    it does not."""
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


class Gpu(Record, frozen=True, kw_only=True):
    """One GPU. Its identity is `address` (and `partition`), never an index."""

    identity = ("address",)

    address: str
    vendor: str
    """Id of the vendor's record, such as "nvidia"; docs/adding.md says how one is added."""
    partition: str | None = None
    """Name of the part when one package shows up as several GPUs; None for a whole GPU."""
    parent: str | None = None
    """Address of the package that this GPU is a part of."""
    index: int | None = None
    """Index in the management library (NVML, amdsmi); for display."""
    index_shared: bool = False
    """True where GPUs of another vendor count from 0 on this node too: a label then names the
    vendor."""
    place: int | None = None
    """Place by PCI address among the GPUs of its vendor, where no library numbers them; for
    display."""
    minor: int | None = None
    """Number of the device node, /dev/nvidiaN."""
    uuid: str | None = None
    name: str | None = None
    serial: str | None = None
    vbios: str | None = None
    board_id: int | None = None
    board_part_number: str | None = None
    module_id: int | None = None
    architecture: str | None = None
    compute_capability: str | None = None
    """"9.0" on NVIDIA, "gfx942" on AMD."""
    core_count: int | None = None
    pci_id: str | None = None
    """"10de:2335"."""
    memory_bytes: int | None = None
    memory_bus_bits: int | None = None
    bar1_bytes: int | None = None
    pcie_gen_max: int | None = None
    """The highest generation that this GPU in this slot can reach."""
    pcie_gen_max_device: int | None = None
    """The highest generation of the GPU alone."""
    pcie_width_max: int | None = None
    power_limit_watts: float | None = None
    """The limit that is enforced."""
    power_limit_default_watts: float | None = None
    power_limit_min_watts: float | None = None
    power_limit_max_watts: float | None = None
    temperature_slowdown_c: int | None = None
    temperature_shutdown_c: int | None = None
    temperature_gpu_max_c: int | None = None
    temperature_memory_max_c: int | None = None
    clock_graphics_max_mhz: int | None = None
    clock_sm_max_mhz: int | None = None
    clock_memory_max_mhz: int | None = None
    clock_video_max_mhz: int | None = None
    ecc_enabled: bool | None = None
    ecc_pending: bool | None = None
    mig_enabled: bool | None = None
    mig_pending: bool | None = None
    mig_instances: tuple[MigInstance, ...] = ()
    persistence: bool | None = None
    compute_mode: str | None = None
    """"default", "exclusive process", "prohibited"."""
    virtualization: str | None = None
    """NVML's word: "none", "passthrough", "vgpu", "host vgpu", "host vsga"."""
    gsp_firmware: str | None = None
    numa_node: int | None = None
    """NUMA node next to the GPU: sysfs, else the only node that the driver calls near."""
    memory_affinity: tuple[int, ...] | None = None
    """NUMA nodes that the driver calls near."""
    cpu_affinity: str | None = None
    """CPUs that the driver calls near, as a list: "0-31,64-95"."""
    gpu_numa_id: int | None = None
    """NUMA node made of the GPU's own memory (coherent C2C systems)."""
    c2c_enabled: bool | None = None
    c2c_gbs: float | None = None
    """Bandwidth to the CPU over all C2C links, one way, by the driver or a topology XML."""
    compute_partition: str | None = None
    """AMD, the driver's word: "SPX" (whole), "DPX", ...: how many GPUs the package shows as."""
    memory_partition: str | None = None
    """AMD, the driver's word: "NPS1", "NPS2", "NPS4" or "NPS8"."""
    package_parts: int | None = None
    """AMD: as how many GPUs the kernel shows the package of this part; None for a whole GPU, and
    where KFD hides nodes from a container."""
    xcd_count: int | None = None
    """AMD: compute dies that make up this GPU or part."""
    caches: tuple[GpuCache, ...] = ()
    """AMD: the last caches before the memory, L2 first."""
    memory_banks: tuple[MemoryBank, ...] = ()
    xgmi_hive: str | None = None
    """Number of the hive as the kernel writes it; GPUs of one hive are joined by xGMI."""
    kfd_node: int | None = None
    """Number of the node in /sys/class/kfd/kfd/topology/nodes."""
    render_minor: int | None = None
    """Number of the device node, /dev/dri/renderDN."""
    firmware: tuple[tuple[str, str], ...] = ()
    """AMD: block of firmware and its version: ("PM", "08.85.121.00")."""
    nvlinks: tuple[NvLink, ...] = ()
    fabric: Fabric | None = None
    xgmi: tuple[XgmiLink, ...] = ()

    @property
    def nvlinks_up(self) -> tuple[NvLink, ...]:
        """Its active NVLinks."""
        return tuple(link for link in self.nvlinks if link.active)

    @property
    def number(self) -> int | None:
        """The number that is displayed: the library's index, else the place by address."""
        return self.place if self.index is None else self.index

    @property
    def is_vgpu(self) -> bool:
        """Whether it is a share of a GPU, made by NVIDIA's vGPU software."""
        return self.virtualization == _VGPU

    @property
    def passed_through(self) -> bool:
        """Whether a virtual machine has all of it."""
        return self.virtualization == _PASSTHROUGH


class GpuPair(Record, frozen=True, kw_only=True):
    """What the driver says about one ordered pair of GPUs."""

    identity = ("src", "dst")

    src: str
    dst: str
    ancestor: str | None = None
    """NVML's common ancestor: "internal", "single", "multiple", "hostbridge", "node", "system"."""
    p2p_read: str | None = None
    """Whether it is granted: "ok", "chipset not supported", "gpu not supported", ..."""
    p2p_write: str | None = None
    p2p_nvlink: str | None = None
    p2p_atomics: str | None = None
    p2p_pci: str | None = None
    p2p_dma: str | None = None
    """AMD: whether the DMA engines may copy; "ok" where they may."""
    link_type: str | None = None
    """AMD: "xgmi" or "pcie", as the driver says."""
    hops: int | None = None
    weight: int | None = None
    """AMD: the driver's weight, 15 for each xGMI hop."""
    nvlinks_reported: int | None = None
    """NVLinks between the two as another tool printed them (NV18); None when no tool was read."""

    @property
    def over_xgmi(self) -> bool:
        """Whether AMD's driver says that xGMI joins the two."""
        return self.link_type == "xgmi"


class ReportedRelation(Record, frozen=True, kw_only=True, rename={"code": "letters"}):
    """A cell of a `nvidia-smi topo -m` that somebody recorded."""

    identity = ("a", "b")

    a: str
    """PCI address, or "topo:GPU0" where the text names no address; a NIC by its RDMA name."""
    b: str
    code: str
    """"NV18", "PIX", "PXB", "PHB", "NODE", "SYS"."""


class PciKind(OpenWord):
    """What a PCI device is."""

    GPU = "gpu"
    NIC = "nic"
    NVSWITCH = "nvswitch"
    ROOT_PORT = "root port"
    SWITCH = "switch"
    """A PCIe switch in one piece, as NCCL draws it."""
    UPSTREAM = "switch upstream"
    DOWNSTREAM = "switch downstream"
    BRIDGE = "bridge"
    NVME = "nvme"
    OTHER = "other"


class PciDevice(Record, frozen=True, kw_only=True):
    """One PCI function of the machine, bridges and root ports included."""

    identity = ("address",)

    address: str
    parent: str
    """Address of the bridge above, or the name of the root complex, "pci0000:00"; "cpu 0" where
    only the NUMA node at the end of the path is known; "" where nothing is."""
    class_code: int | None = None
    """24 bits, 0x030200 for a 3D controller."""
    kind: PciKind = PciKind.OTHER
    vendor_id: int | None = None
    device_id: int | None = None
    subsystem_vendor_id: int | None = None
    subsystem_device_id: int | None = None
    vendor_name: str | None = None
    device_name: str | None = None
    driver: str | None = None
    numa_node: int | None = None
    local_cpus: str | None = None
    link_speed_max_gts: float | None = None
    """Highest rate per lane of the upstream link of this device, GT/s."""
    link_width_max: int | None = None
    link_width_now: int | None = None
    """Lanes that are trained. Unlike the speed, the width is valid while the device sleeps."""
    sriov_total: int | None = None
    sriov_enabled: int | None = None
    physical_function: str | None = None
    """Address of the physical function; None for all but virtual functions."""
    iommu_group: str | None = None
    iommu_type: str | None = None
    """"identity", "DMA", "DMA-FQ", ... (/sys/kernel/iommu_groups/N/type)."""
    acs: tuple[str, ...] | None = None
    """Names of the ACS controls that are switched on; None when config space is not readable."""
    bars: tuple[int, ...] | None = None
    """Sizes of the memory regions that are in use, in bytes."""

    @property
    def redirects(self) -> tuple[str, ...]:
        """The ACS controls that send what one device below asks of another up to the CPU."""
        return redirecting(self.acs or ())


def redirecting(controls: tuple[str, ...]) -> tuple[str, ...]:
    """Those of some ACS controls that redirect.

    UpstreamFwd alone lets through what comes up to a port and would go down again: it turns nothing
    away (PCI Express base specification, ACS P2P Upstream Forwarding).
    """
    return tuple(control for control in controls if control in _REDIRECTS)


class UnnamedAcs(Record, frozen=True, kw_only=True, rename={"position": "place"}):
    """The ACS of a PCI function that a text does not name."""

    identity = ("position",)

    position: int
    """Among those that the text lists, from 1."""
    acs: tuple[str, ...]
    """Names of the ACS controls that are switched on."""


class Machine(Record, frozen=True, kw_only=True, dict=True):
    """Everything about a node that does not change while it runs.

    Indexes of it are kept beside its fields (`dict`): they are no part of it.

    The graph is a function of this and is rebuilt only when it changes.
    """

    host: Host | None = None
    gpus: tuple[Gpu, ...] = ()
    """Ordered by PCI address."""
    pairs: tuple[GpuPair, ...] = ()
    pci: tuple[PciDevice, ...] = ()
    unnamed_acs: tuple[UnnamedAcs, ...] = ()
    relations: tuple[ReportedRelation, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    rdma: tuple[RdmaDevice, ...] = ()
    drives: tuple[Drive, ...] = ()
    direct_storage: DirectStorage | None = None
    software: Software | None = None
    nccl_topology: Element | None = None
    """The topology XML that this was read from, unchanged; None when none was read."""

    def gpu(self, address: str) -> Gpu | None:
        """Find a GPU by its PCI address."""
        return self._gpus.get(address)

    def pci_device(self, address: str) -> PciDevice | None:
        """Find a PCI function by its address."""
        return self._pci.get(address)

    def pair(self, src: str, dst: str) -> GpuPair | None:
        """Find what the driver says about one ordered pair of GPUs."""
        return self._pairs.get((src, dst))

    @property
    def in_vm(self) -> bool | None:
        """Whether this is a virtual machine; None where that is not known."""
        if self.host is None:
            return None
        if self.host.hypervisor is not None:
            return True
        return None if self.host.why("hypervisor") is not None else False

    @cached_property
    def _gpus(self) -> dict[str, Gpu]:
        return by_address(self.gpus)

    @cached_property
    def _pci(self) -> dict[str, PciDevice]:
        return by_address(self.pci)

    @cached_property
    def _pairs(self) -> dict[tuple[str, str], GpuPair]:
        return {(pair.src, pair.dst): pair for pair in reversed(self.pairs)}
