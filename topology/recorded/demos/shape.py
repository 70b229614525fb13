"""A demo's TOML file, checked, and the PCI addresses that follow from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ...model.errors import GputopError
from ...toml import tomllib

FOLDER = Path(__file__).parent.parent / "shapes"


class DemoError(GputopError, ValueError):
    """There is no demo of that name."""


class DemoGpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The common properties of all GPUs of a demo, in the units of the management library."""

    vendor: str
    name: str
    pci_id: str
    subsystem_id: str
    architecture: int
    compute_capability: str
    cores: int
    memory_bytes: int
    memory_bus_bits: int
    bar1_bytes: int
    pcie_gen: int
    power_watts: int
    power_min_watts: int
    power_idle_watts: int
    clock_graphics_mhz: int
    clock_idle_mhz: int
    clock_memory_mhz: int
    clock_video_mhz: int
    temperature_slowdown_c: int
    temperature_shutdown_c: int
    temperature_memory_max_c: int
    board_part_number: str
    vbios: str
    brand: int = 14
    modules: tuple[int, ...] = ()
    class_code: int | None = None
    """PCI class, where it is not that of its vendor's other GPUs."""
    family: str = ""
    """Name of the architecture as AMD gives it; NVIDIA's names follow from a number."""
    dies: int = 1
    """Devices that one package shows up as; only the first of them gives the package's power."""
    compute_partition: str | None = None
    memory_partition: str | None = None


class NvLinks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the NVLinks run: to switches, or from GPU to GPU."""

    version: int
    """NVML's number of the generation: 2 = 2.0, 4 = 3.0, 6 = 4.0."""
    raw_mbps: int
    """Raw rate of one link one way, MB/s, as the driver gives it."""
    per_switch: tuple[int, ...] = ()
    """Links from each GPU to each switch; of a rack, no host sees the switches."""
    mesh: tuple[tuple[int, ...], ...] = ()
    """Row i, column j: links between GPU i and GPU j."""


class ChipToChip(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """NVLink-C2C from each GPU to its CPU, as the driver says it."""

    links: int
    mbps: int
    """Of one link, one way."""


class NvlinkDomain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rack whose NVLinks the GPUs share with those of other hosts."""

    cluster: int
    """Number in place of the cluster's UUID, which is invented."""
    clique: int


class XgmiMesh(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How xGMI joins the GPUs, each directly to others."""

    raw_gbs: float
    """Rate of one link one way."""
    speed_gts: float
    """Rate of one lane."""
    width: int = 16
    weight: int = 15
    """The driver's weight of one hop."""
    matrix: tuple[tuple[int, ...], ...] = ()
    """Row i, column j: links between GPU i and GPU j; () for one link between any two."""

    def links(self, a: int, b: int) -> int:
        """Count the links between two GPUs."""
        return self.matrix[a][b] if self.matrix else int(a != b)

    def hops(self, a: int, b: int) -> int:
        """Links of the shortest path: 1 where the two are joined, 2 over a third GPU."""
        return 1 if self.links(a, b) else 2


class Adapter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The common properties of all network adapters of a kind."""

    vendor_name: str
    device_name: str
    pci_id: str
    driver: str
    gbit: int
    gts: float
    link_layer: str = "Ethernet"
    rate: str = ""
    board_id: str = ""
    firmware: str = ""
    interface: str = ""
    """Pattern of the kernel's name, with {index}."""
    lanes: int | None = None
    """Of its slot; None: sixteen for a fast NIC, four for the host's own."""
    pcie_bridge: str = ""
    """PCI id of the switch that the adapter itself has above it; "" where it has none."""
    verbs: bool = True
    """Whether the kernel has an RDMA device for the NIC; it has none for a Slingshot NIC."""

    @property
    def infiniband(self) -> bool:
        """Whether its link layer is InfiniBand's."""
        return self.link_layer == "InfiniBand"


class RootPort(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One root port and what hangs below it: a device, a switch, or a switch of switches."""

    root: str
    """Domain and bus of the root complex, "0000:15"."""
    numa: int
    gts: float
    device: str | None = None
    switch: tuple[str, ...] = ()
    switches: tuple[tuple[str, ...], ...] = ()
    port: str = ""
    """Device and function of the root port, "07.1"; by default the next one that is free."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The defects of one GPU of a sick demo."""

    gpu: int
    links_down: tuple[int, ...] = ()
    xgmi_down: tuple[int, ...] = ()
    """GPUs to which its xGMI link is down; the other end says the same of it."""
    width: int | None = None
    """Lanes that trained, of sixteen."""


class DemoJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is wrong with the job of a demo."""

    late: int
    """Number of the GPU of the rank that all others wait for."""
    hangs: bool = False
    """Whether they wait for ever, else in each step."""


class DemoHost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The host of a demo."""

    product: str
    cpu_vendor: str
    cpu_name: str
    cpu_family: int
    cpu_model: int
    cores_per_socket: int
    numa_cpus: tuple[str, ...]
    numa_socket: tuple[int, ...]
    numa_memory_gib: int
    kernel: str = "6.8.0-60-generic"
    threads_per_core: int = 2
    architecture: str = "x86_64"
    numa_far: int = 21
    """NUMA distance of two sockets with one node each."""
    modules: tuple[str, ...] = ()


class DemoShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One demo, as its file says."""

    title: str
    like: str
    """Name of the reference node in nodes.toml."""
    sku: str
    """Name of the GPU in specs.toml."""
    node: DemoHost
    gpu: DemoGpu
    slot: tuple[RootPort, ...]
    nic: Adapter
    ethernet: Adapter
    nvlink: NvLinks | None = None
    xgmi: XgmiMesh | None = None
    c2c: ChipToChip | None = None
    domain: NvlinkDomain | None = None
    fault: tuple[Fault, ...] = ()
    job: DemoJob | None = None
    """None for a job that runs well."""
    idle: tuple[int, ...] = ()
    """Numbers of the GPUs that are idle."""
    driver: str = ""
    cuda: int = 0
    nccl: str | None = None
    rccl: str | None = None
    rocm: str | None = None

    def fault_of(self, gpu: int) -> Fault | None:
        """The defects of one GPU."""
        return next((fault for fault in self.fault if fault.gpu == gpu), None)

    def xgmi_up(self, a: int, b: int) -> bool:
        """Whether the xGMI links between two GPUs are up."""
        for fault in self.fault:
            if any({a, b} == {fault.gpu, other} for other in fault.xgmi_down):
                return False
        return True


def names() -> tuple[str, ...]:
    """List the demos there are, by name."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


_SHAPES: dict[str, DemoShape] = {}


def load(name: str) -> DemoShape:
    """Read one demo's file; raises DemoError for a name that is not in `names()`."""
    if name not in _SHAPES:
        if name not in names():
            raise DemoError(f"no demo {name!r}; there are: {', '.join(names())}")
        _SHAPES[name] = msgspec.convert(_table(name), DemoShape)
    return _SHAPES[name]


def _table(name: str) -> dict[str, Any]:
    """Read a file; `base` names another file that it only adds to."""
    table = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    base = table.pop("base", None)
    return table if base is None else _table(base) | table
