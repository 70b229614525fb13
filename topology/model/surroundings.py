"""The surroundings of the GPUs: the host, its network, its software. Units are as in `machine`."""

from .record import Record
from .severity import OpenWord
from .versions import RunningLibrary

_ON, _ROUTED, _UP = "on", "v2", "ACTIVE"


class NumaNode(Record, frozen=True, kw_only=True):
    """One NUMA node of the host."""

    identity = ("node",)

    node: int
    cpus: str | None = None
    memory_bytes: int | None = None
    distances: tuple[int, ...] | None = None
    """Distance to every node in order, 10 = itself."""
    socket: int | None = None
    gpu_memory: bool | None = None
    """True when the node holds memory but no CPU (memory of a coherent GPU)."""

    @property
    def without_cpus(self) -> bool:
        """Whether the node is known to have no CPU: memory of a GPU, of an expander, or none."""
        return self.gpu_memory is True or self.cpus == ""


class Socket(Record, frozen=True, kw_only=True):
    """One CPU package."""

    identity = ("socket",)

    socket: int
    cores: int | None = None
    threads: int | None = None


class ContainerKind(OpenWord):
    """Who made a container."""

    DOCKER = "docker"
    PODMAN = "podman"
    KUBERNETES = "kubernetes"
    LXC = "lxc"
    NSPAWN = "systemd-nspawn"
    UNNAMED = "container"


class Container(Record, frozen=True, kw_only=True):
    """Signs of a container, and the limits that it sets for this process."""

    kind: ContainerKind | None = None
    """None where no sign of one is seen."""
    evidence: str | None = None
    memory_limit_bytes: int | None = None
    cpu_quota: float | None = None
    """CPUs' worth of time that the cgroup grants."""
    cpuset: str | None = None
    job: str | None = None
    """"slurm 1234.0": the batch job that made this process's cgroup, which may hide devices."""


class Module(Record, frozen=True, kw_only=True):
    """One loaded kernel module that matters here."""

    name: str
    version: str | None = None


class DriverGpu(Record, frozen=True, kw_only=True):
    """One GPU of the NVIDIA kernel module, from /proc/driver/nvidia/gpus."""

    address: str
    minor: int | None = None
    """The N of its device node, /dev/nvidiaN."""
    excluded: bool | None = None
    """Whether the module is set to ignore it (NVreg_ExcludedGpus)."""


class CacheFolder(Record, frozen=True, kw_only=True):
    """A cache of compiled kernels."""

    name: str
    """Who keeps the cache: "CUDA", "Triton", "Inductor"."""
    path: str
    variable: str | None = None
    """Variable that names the folder; None where it is the default one."""
    filesystem: str | None = None
    """Type of the file system of the folder or of the nearest one above: "ext4", "overlay",
    "tmpfs", "nfs4"."""


IMEX_READY = "READY"


class ImexNode(Record, frozen=True, kw_only=True):
    """One host of an IMEX domain, by its daemon."""

    identity = ("number",)

    number: int
    ip: str | None = None
    state: str | None = None
    """The tool's word: "READY", "UNAVAILABLE", "INITIALIZING", ..."""
    version: str | None = None
    hostname: str | None = None
    asked: bool = False
    """Whether it is the host that was asked."""

    @property
    def label(self) -> str:
        """Its name, else its address."""
        return self.hostname or self.ip or f"node {self.number}"


class ImexDomain(Record, frozen=True, kw_only=True):
    """The IMEX domain of this host, which joins the NVLink of several."""

    identity = ()

    state: str | None = None
    """The tool's word: "UP", "DEGRADED", "DOWN"."""
    nodes: tuple[ImexNode, ...] = ()
    unconnected: tuple[tuple[int, int, str], ...] = ()
    """From, to, and the tool's sign for why, of every two nodes that are not connected."""

    @property
    def unready(self) -> tuple[ImexNode, ...]:
        """Hosts whose daemon is not ready or does not answer."""
        return tuple(node for node in self.nodes if node.state not in (None, IMEX_READY))

    @property
    def apart(self) -> tuple[tuple[ImexNode, ImexNode, str], ...]:
        """Hosts that are ready and not connected, each two once, with the sign for why."""
        ready = {node.number: node for node in self.nodes if node.state == IMEX_READY}
        found: dict[tuple[int, int], str] = {}
        for one, other, sign in self.unconnected:
            pair = min(one, other), max(one, other)
            if one in ready and other in ready and (pair not in found or sign.startswith("!")):
                found[pair] = sign  # that of a mismatch says why
        return tuple((ready[one], ready[other], sign) for (one, other), sign in found.items())


class Host(Record, frozen=True, kw_only=True):
    """The machine around the GPUs."""

    identity = ()

    hostname: str | None = None
    kernel: str | None = None
    os_name: str | None = None
    cpu_vendor: str | None = None
    cpu_model_name: str | None = None
    cpu_family: int | None = None
    cpu_model: int | None = None
    architecture: str | None = None
    hypervisor: str | None = None
    """Vendor of the hypervisor, "unknown hypervisor", or None on bare metal."""
    dmi_vendor: str | None = None
    dmi_product: str | None = None
    container: Container | None = None
    sockets: tuple[Socket, ...] = ()
    numa: tuple[NumaNode, ...] = ()
    memory_bytes: int | None = None
    shm_bytes: int | None = None
    memlock_bytes: int | None = None
    """Soft RLIMIT_MEMLOCK of this process; None with the gap "unlimited" when there is no limit."""
    cmdline_flags: tuple[str, ...] | None = None
    """Kernel command line arguments that bear on DMA and PCI (iommu=, pci=, ...)."""
    numa_balancing: bool | None = None
    modules: tuple[Module, ...] = ()
    nvidia_module: str | None = None
    """"open", "closed" or None; from /proc/driver/nvidia/version."""
    nvidia_registry: tuple[str, ...] = ()
    """Registry keys given to the NVIDIA module that change P2P."""
    device_nodes: tuple[str, ...] | None = None
    """/dev/nvidia*, /dev/kfd, /dev/dri/renderD*; those that may not be opened end in
    " (no permission)" or, where the device cgroup of this process forbids it,
    " (kept back by a cgroup)"."""
    nvidia_gpus: tuple[DriverGpu, ...] | None = None
    """The GPUs that the NVIDIA module drives, including those that a cgroup hides from NVML."""
    asked_as_root: bool | None = None
    """Whether gputop ran as root, from whom the kernel hides no process of another user."""
    nvidia_module_version: str | None = None
    """Version of the loaded module, "580.159.04"; from /proc/driver/nvidia/version."""
    open_files_limit: int | None = None
    """Soft RLIMIT_NOFILE of this process; None with the gap "unlimited" when there is no limit."""
    cpu_governors: tuple[tuple[str, int], ...] | None = None
    """cpufreq's governors and how many CPUs each has; () where the kernel has none (a guest)."""
    cpu_frequency_driver: str | None = None
    """cpufreq's driver, "intel_pstate"; a governor's name means something only with it."""
    memory_peers: tuple[str, ...] | None = None
    """Clients registered in /sys/kernel/mm/memory_peers: "nv_mem", "amdkfd"."""
    topology_files: tuple[str, ...] | None = None
    """Paths of the topology XML files that a cloud vendor installed."""
    imex_channels: bool | None = None
    """Whether a channel in /dev/nvidia-caps-imex-channels may be opened."""
    imex_domain: ImexDomain | None = None
    """What nvidia-imex-ctl told of it; nothing here asks that itself."""
    mps_daemon: bool | None = None
    """Whether a control daemon of CUDA MPS runs; None where its absence proves nothing."""
    compile_caches: tuple[CacheFolder, ...] = ()
    fabric_manager: str | None = None
    """"running", "installed", "absent"; says nothing inside a container or tenant VM."""
    boot_id: str | None = None


class Interface(Record, frozen=True, kw_only=True):
    """One network interface of the kernel."""

    identity = ("name",)

    name: str
    address: str | None = None
    """PCI address of the device behind it; None for a virtual one."""
    index: int | None = None
    """The kernel's number; getifaddrs(3) lists interfaces in the order of these."""
    kind: str | None = None
    """The kernel's word for its type, DEVTYPE where it has one: "ethernet", "infiniband",
    "loopback", "bridge", "bond", "veth", ...; "virtual" where no device is behind it."""
    driver: str | None = None
    up: bool | None = None
    speed_mbps: int | None = None
    mtu: int | None = None
    mac: str | None = None
    ips: tuple[str, ...] = ()
    numa_node: int | None = None
    default_route: bool | None = None
    """Whether the default route of the kernel (IPv4) uses it."""


class PortGid(Record, frozen=True, kw_only=True):
    """One GID of a RoCE port."""

    identity = ("index",)

    index: int
    """As NCCL_IB_GID_INDEX means it."""
    gid: str
    version: str
    """"v1", which no router carries on, or "v2"."""

    @property
    def useful(self) -> bool:
        """Whether routers carry it on, to more than neighbours."""
        return self.version == _ROUTED and not self.gid.lower().startswith("fe80")


class RdmaPort(Record, frozen=True, kw_only=True):
    """One port of an RDMA device."""

    identity = ("port",)

    port: int
    state: str | None = None
    """The kernel's word: "ACTIVE", "DOWN", "INIT", ..."""
    physical_state: str | None = None
    rate_gbit: float | None = None
    rate: str | None = None
    """As the kernel words it: "400 Gb/sec (4X NDR)"."""
    link_layer: str | None = None
    """The kernel's word: "InfiniBand" or "Ethernet"."""
    lid: str | None = None
    gids: tuple[PortGid, ...] = ()

    @property
    def active(self) -> bool:
        """Whether its link is up."""
        return self.state == _UP


class RdmaKind(OpenWord):
    """What an RDMA device talks."""

    INFINIBAND = "infiniband"
    ROCE = "roce"
    EFA = "efa"
    OTHER = "rdma"


class RdmaDevice(Record, frozen=True, kw_only=True):
    """One HCA as the kernel's RDMA layer names it: mlx5_0, rdmap0s6, ..."""

    identity = ("name",)

    name: str
    address: str | None = None
    kind: RdmaKind | None = None
    driver: str | None = None
    guid: str | None = None
    firmware: str | None = None
    board_id: str | None = None
    model: str | None = None
    """The chip as its maker numbers it, "MT4129"; ibstat and ibdev2netdev print it."""
    numa_node: int | None = None
    interfaces: tuple[str, ...] = ()
    ports: tuple[RdmaPort, ...] = ()


class Drive(Record, frozen=True, kw_only=True):
    """One NVMe controller of the kernel."""

    identity = ("name",)

    name: str
    """"nvme0"."""
    address: str | None = None
    """PCI address; None for a drive behind a network."""
    transport: str | None = None
    """The kernel's word: "pcie", "rdma", "tcp", "fc", "loop"."""
    model: str | None = None
    size_bytes: int | None = None
    """All its namespaces together."""
    numa_node: int | None = None
    filesystems: tuple[str, ...] | None = None
    """Types of the file systems on it that this process sees, with the journal's mode of ext4
    where it is named: "xfs", "ext4", "ext4 data=journal"."""
    arrays: tuple[str, ...] | None = None
    """Software arrays and volumes that it is a part of: "md0", "dm-1"."""


class DirectStorage(Record, frozen=True, kw_only=True):
    """What GPUDirect Storage (cuFile) needs beside the kernel module nvidia_fs."""

    identity = ()

    library: str | None = None
    """File name of the library that was found, "libcufile.so.0"."""
    compat_allowed: bool | None = None
    """Whether /etc/cufile.json lets reads go through host memory (allow_compat_mode)."""
    compat_forced: bool | None = None
    """Whether it sends all of them there (force_compat_mode)."""
    p2pdma: bool | None = None
    """Whether it asks for the kernel's own P2PDMA (use_pci_p2pdma)."""
    multipath: bool | None = None
    """Whether the kernel's NVMe driver does multipathing, which excludes P2PDMA."""


class Software(Record, frozen=True, kw_only=True):
    """Versions of the software that runs the GPUs."""

    identity = ()

    nvidia_driver: str | None = None
    nvml: str | None = None
    cuda_driver: str | None = None
    """CUDA version the driver supports, "13.0"."""
    amd_driver: str | None = None
    rocm: str | None = None
    cuda_toolkit: str | None = None
    nccl: str | None = None
    nccl_path: str | None = None
    nccl_packages: tuple[str, ...] = ()
    """Packages of NVIDIA that put their library at `nccl_path`: "cu12 2.28.9", "cu13 2.30.7"."""
    rccl: str | None = None
    torch: str | None = None
    torch_path: str | None = None
    running: tuple[RunningLibrary, ...] = ()
    """What processes on the GPUs have loaded; first the library that most of them have."""
    nccl_plugins: tuple[str, ...] | None = None
    """Network plugins that the loader would find (libnccl-net*.so), by path."""
    confidential_computing: str | None = None
    """"off", "on" or a word of NVML's."""

    @property
    def confidential(self) -> bool:
        """Whether confidential computing is on, which rules P2P out."""
        return self.confidential_computing == _ON
