"""Readings: figures that change from one second to the next.

Rates are bytes per second, powers watts, clocks MHz, temperatures degrees Celsius.
"""

from functools import cached_property

import msgspec

from .record import Record, by_address
from .severity import OpenWord
from .versions import LoadedLibrary

MANY_GPUS = 64


def pace_seconds(gpus: int) -> float:
    """Seconds between two readings of so many GPUs, where nobody says otherwise.

    Reading, judging and drawing cost the same for each GPU; beyond 64 they come half as often, so
    that watching stays below 3 % of a core.
    """
    return 1.0 if gpus <= MANY_GPUS else 2.0


class NvLinkReading(Record, frozen=True, kw_only=True):
    """Counters of one NVLink: totals since the driver was loaded; only a difference is a rate."""

    link: int
    replay_errors: int | None = None
    recovery_errors: int | None = None
    crc_errors: int | None = None
    tx_bytes: int | None = None
    """Payload bytes sent since the driver was loaded."""
    rx_bytes: int | None = None


class GpuUse(OpenWord):
    """What a process does on a GPU."""

    COMPUTE = "compute"
    GRAPHICS = "graphics"
    MPS = "mps"


class GpuProcess(Record, frozen=True, kw_only=True):
    """One process on one GPU, as the driver names it."""

    pid: int
    kind: GpuUse
    memory_bytes: int | None = None


class EccCounts(Record, frozen=True, kw_only=True):
    """Errors that ECC detected: volatile = since the driver was loaded, aggregate = in all."""

    identity = ()

    corrected_volatile: int | None = None
    uncorrected_volatile: int | None = None
    corrected_aggregate: int | None = None
    uncorrected_aggregate: int | None = None
    rows_remapped_corrected: int | None = None
    rows_remapped_uncorrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    pages_retired_single: int | None = None
    pages_retired_double: int | None = None
    retirement_pending: bool | None = None
    unrepairable: bool | None = None
    """Whether some memory can be neither repaired nor replaced by spare rows."""


class XgmiReading(Record, frozen=True, kw_only=True, gc=False):
    """Counters of one xGMI link: totals since the driver was loaded."""

    identity = ("remote_address",)

    remote_address: str
    tx_bytes: int | None = None
    rx_bytes: int | None = None
    errors: int | None = None


class EccBlock(Record, frozen=True, kw_only=True):
    """Errors that ECC detected in one block of an AMD GPU: "UMC", "GFX", "XGMI_WAFL", ..."""

    identity = ("block",)

    block: str
    corrected: int | None = None
    uncorrected: int | None = None
    deferred: int | None = None


class GpuReading(Record, frozen=True, kw_only=True):
    """One GPU at one moment."""

    identity = ("address",)

    address: str
    lost: bool = False
    """True when the driver answered before and now says that the GPU is gone."""
    utilization_percent: float | None = None
    memory_utilization_percent: float | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    bar1_used_bytes: int | None = None
    power_watts: float | None = None
    temperature_c: int | None = None
    temperature_memory_c: int | None = None
    clock_graphics_mhz: int | None = None
    clock_sm_mhz: int | None = None
    clock_memory_mhz: int | None = None
    clock_video_mhz: int | None = None
    throttle_reasons: tuple[str, ...] | None = None
    """Names of the reasons that hold clocks down; () when there is none, None when unknown."""
    performance_state: int | None = None
    """0 = P0, the fastest."""
    pcie_gen: int | None = None
    """Generation right now; the link of a sleeping GPU runs at a low one."""
    pcie_width: int | None = None
    pcie_tx_bytes_per_second: float | None = None
    pcie_rx_bytes_per_second: float | None = None
    pcie_replays: int | None = None
    nvlink_tx_bytes_per_second: float | None = None
    nvlink_rx_bytes_per_second: float | None = None
    nvlinks: tuple[NvLinkReading, ...] = ()
    xgmi_tx_bytes_per_second: float | None = None
    xgmi_rx_bytes_per_second: float | None = None
    xgmi: tuple[XgmiReading, ...] = ()
    ecc: EccCounts | None = None
    ecc_blocks: tuple[EccBlock, ...] = ()
    processes: tuple[GpuProcess, ...] | None = None
    """None when the driver does not say; an empty tuple proves nothing inside a container."""
    recovery_action: str | None = None
    """NVIDIA: what the driver asks for to clear a fault: "none", "reset", "reboot", "drain P2P",
    "drain and reset", ..."""

    def __post_init__(self) -> None:
        # One driver answers 95, another tool 95.0: equal figures are to be written alike.
        for name in _FRACTIONS:
            value = getattr(self, name)
            if value.__class__ is int:
                msgspec.structs.force_setattr(self, name, float(value))


_FRACTIONS = (
    "utilization_percent",
    "memory_utilization_percent",
    "power_watts",
    "pcie_tx_bytes_per_second",
    "pcie_rx_bytes_per_second",
    "nvlink_tx_bytes_per_second",
    "nvlink_rx_bytes_per_second",
    "xgmi_tx_bytes_per_second",
    "xgmi_rx_bytes_per_second",
)


class ProcessState(OpenWord):
    """What a process does, by the letter that the kernel gives it."""

    RUNNING = "running"
    SLEEPING = "sleeping"
    DISK_SLEEP = "disk sleep"
    STOPPED = "stopped"
    TRACED = "traced"
    """A debugger holds it."""
    ZOMBIE = "zombie"


class ProcessReading(Record, frozen=True, kw_only=True):
    """One process that uses a GPU, as the operating system describes it."""

    identity = ("pid",)

    pid: int
    user: str | None = None
    command: str | None = None
    """Name of the program; arguments are not stored."""
    arguments: tuple[str, ...] | None = None
    """Stored only with `--with-args`."""
    cpu_affinity: str | None = None
    started_at: float | None = None
    """Seconds since the epoch."""
    memory_bytes: int | None = None
    memory_before: tuple[tuple[float, int], ...] = ()
    """Its resident memory earlier, as seconds ago and bytes: when it was first read, and about a
    minute ago, where that was later; () where it was read once."""
    parent: int | None = None
    """PID of the process that started it."""
    parent_command: str | None = None
    state: ProcessState | None = None
    memory_nodes: str | None = None
    """NUMA nodes that its memory may come from, as a list: "0-1"."""
    job: str | None = None
    """Who started it and under which number: "slurm 1234", "kubernetes <pod>", "torchrun <run>"."""
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    rendezvous: str | None = None
    """MASTER_ADDR:MASTER_PORT, where its ranks meet: ranks with the same address form one job."""
    variables: tuple[tuple[str, str], ...] | None = None
    """Listed variables that it was started with; None where they cannot be read."""
    hostname: str | None = None
    """Host name in its UTS namespace: ours where it shares our namespace, else from its
    /etc/hostname."""
    namespaces: tuple[tuple[str, str], ...] | None = None
    """Kind and number of its namespaces: ("ipc", "4026531839")."""
    shm_device: int | None = None
    """Device number of its /dev/shm; NCCL compares it between ranks."""
    shm_bytes: int | None = None
    memlock_bytes: int | None = None
    """Its soft RLIMIT_MEMLOCK; None with the gap "unlimited" when there is no limit."""
    memory_limit_bytes: int | None = None
    """The smallest memory limit of the cgroups that it is in."""
    memory_group: str | None = None
    """Which cgroup sets that limit: processes with the same letters share it."""
    cpu_quota: float | None = None
    """CPUs' worth of time that its cgroups grant."""
    cpu_group: str | None = None
    """Which cgroup grants it: processes with the same letters share it."""
    anonymous_bytes: int | None = None
    """Its resident memory that no file backs: the kernel cannot drop it."""
    omp_threads: int | None = None
    """OMP_NUM_THREADS that it was started with; None where it is not set or not readable."""
    asleep_seconds: float | None = None
    """How long, at least, a thread of it has been in one and the same uninterruptible sleep: it did
    not run between two looks that are so far apart. None where none is, or none was seen twice."""
    asleep_thread: str | None = None
    """Name and number of that thread: "pt_autograd_0 (4713)"; None where it is the first one."""
    wait_channel: str | None = None
    """The function of the kernel in which it sleeps uninterruptibly, where the kernel says it."""
    library: LoadedLibrary | None = None
    """The NCCL or RCCL that it has loaded; None where its map shows none or may not be read."""


class PciReading(Record, frozen=True, kw_only=True):
    """The rate at which a PCIe link runs at this moment."""

    identity = ("address",)

    address: str
    link_speed_gts: float | None = None


class CounterKind(OpenWord):
    """Which counters they are, and of which kind of link: siblings are of one kind."""

    AER = "aer"
    """Errors of a PCIe link: aer_dev_correctable, aer_dev_fatal, aer_dev_nonfatal."""
    RAS = "ras"
    """Errors that amdgpu counts for each block of a GPU: ras/*_err_count."""
    RDMA = "rdma"
    """Of a port of an RDMA device: counters and hw_counters."""
    NET = "net"
    """Of a network interface: carrier_changes, statistics and what its driver counts."""
    NVLINK = "nvlink"
    """Of a GPU's NVLink, by its driver; never among those of the kernel."""


class DeviceCounters(Record, frozen=True, kw_only=True, gc=False):
    """Counters of one device or port: totals since its driver was loaded."""

    identity = ("kind", "device", "port")

    kind: CounterKind
    device: str
    """PCI address; name of a network device, "mlx5_0", "eth2"."""
    port: int | None = None
    address: str | None = None
    """PCI address of the function behind a network device."""
    counts: tuple[tuple[str, int], ...] = ()
    """What is not 0, by the kernel's names: "correctable BadTLP", "umc ue", "symbol_error"; and
    what a network driver was asked, 0 too: "rx_prio3_pause". Another counter that is not here is 0
    or unknown to the driver."""
    tx_bytes_per_second: float | None = None
    """Sent lately by a port or an interface; None where nobody counted it twice."""
    rx_bytes_per_second: float | None = None

    @property
    def named(self) -> dict[str, int]:
        """The counts by name."""
        return dict(self.counts)


class HostReading(Record, frozen=True, kw_only=True):
    """The host at one moment."""

    identity = ()

    load_1min: float | None = None
    cpu_percent: float | None = None
    memory_available_bytes: int | None = None
    shm_free_bytes: int | None = None


class Readings(Record, frozen=True, kw_only=True, dict=True):
    """All readings of a node at one moment."""

    gpus: tuple[GpuReading, ...] = ()
    pci: tuple[PciReading, ...] = ()
    processes: tuple[ProcessReading, ...] = ()
    host: HostReading | None = None
    counters: tuple[DeviceCounters, ...] | msgspec.UnsetType = msgspec.UNSET
    """Not in the document where nothing was asked for them."""

    def gpu(self, address: str) -> GpuReading | None:
        """Find the reading of one GPU by its PCI address."""
        return self._gpus.get(address)

    def nic(self, name: str) -> tuple[float | None, float | None]:
        """Bytes a second that a NIC sends and receives over all its ports; None: not known.

        By its name or its PCI address. What RDMA moves does not stand in the counters of the
        interface: where there are both, those of RDMA are given.
        """
        return self._nics.get(name, (None, None))

    @cached_property
    def _nics(self) -> dict[str, tuple[float | None, float | None]]:
        found: dict[str, tuple[float | None, float | None]] = {}
        for kind in (CounterKind.NET, CounterKind.RDMA):
            ports: dict[str, list[DeviceCounters]] = {}
            for one in self.counters or ():
                if one.kind is kind and one.tx_bytes_per_second is not None:
                    for name in filter(None, (one.device, one.address)):
                        ports.setdefault(name, []).append(one)
            for name, known in ports.items():
                sent = sum(one.tx_bytes_per_second or 0.0 for one in known)
                found[name] = sent, sum(one.rx_bytes_per_second or 0.0 for one in known)
        return found

    @cached_property
    def _gpus(self) -> dict[str, GpuReading]:
        return by_address(self.gpus)
