"""The facts of a node that equal nodes share, by category and place.

A device is named by its place (GPU0 is the first by PCI address), never by serial, UUID or address,
which differ between equal nodes. A value that could not be read has no entry.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from ..model.machine import Gpu, Machine, PciKind
from ..model.snapshot import EnvironmentVariable, NodeSnapshot
from ..model.surroundings import Host, RdmaDevice
from ..node import Node
from ..wiring.codes import has_a_row
from .section import CATEGORIES

__all__ = ["digest", "digests_of", "facts_of", "machine_digest", "product_of"]

Facts = dict[str, str]
MOST_LETTERS = 600
"""Longest value of a fact: a row of relations of 128 GPUs and their NICs."""
MOST_MATRIX = 40
"""Most rows of relations that are kept one by one; a larger matrix is kept as its digest."""
OWN_VARIABLES = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
        "HIP_VISIBLE_DEVICES",
        "NCCL_COMM_ID",
        "NCCL_DEBUG_FILE",
        "NCCL_GRAPH_DUMP_FILE",
        "NCCL_HOSTID",
        "NCCL_TOPO_DUMP_FILE",
        "NVIDIA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
    }
)
"""Variables that engines set for each node or process; a difference means nothing."""
_GIB = 2**30


def facts_of(node: Node) -> dict[str, Facts]:
    """The facts of each category, in the order of CATEGORIES."""
    snapshot = node.snapshot
    machine = snapshot.machine
    gpus = _gpus(machine)
    found = {
        "hardware": _hardware(machine, gpus),
        "wiring": _wiring(node, gpus),
        "driver": _driver(machine),
        "firmware": _firmware(machine, gpus),
        "settings": _settings(machine, gpus),
        "environment": _environment(snapshot.environment),
    }
    return {
        name: {what: value[:MOST_LETTERS] for what, value in found[name].items()}
        for name in CATEGORIES
    }


def digests_of(facts: dict[str, Facts]) -> dict[str, str]:
    """The digest of each category."""
    return {name: digest(facts[name]) for name in facts}


def digest(value: object) -> str:
    """The first 64 bits of a SHA-256 in hex; enough to tell a million nodes apart."""
    data = msgspec.json.encode(value, order="sorted")
    return hashlib.sha256(data).hexdigest()[:16]


def product_of(machine: Machine) -> str:
    """The GPUs in words: "8 × NVIDIA H100 80GB HBM3"; "" without any."""
    counts = Counter(gpu.name or f"unnamed {gpu.vendor} GPU" for gpu in _gpus(machine))
    return ", ".join(f"{count} × {name}" for name, count in sorted(counts.items()))


def machine_digest(snapshot: NodeSnapshot) -> str | None:
    """One value for one machine, whatever its name; None where no GPU tells a UUID or serial."""
    known = sorted(
        gpu.uuid or gpu.serial or "" for gpu in snapshot.machine.gpus if gpu.uuid or gpu.serial
    )
    return digest(known) if known else None


def _gpus(machine: Machine) -> list[Gpu]:
    return [gpu for gpu in machine.gpus if has_a_row(gpu)]


def _hardware(machine: Machine, gpus: Sequence[Gpu]) -> Facts:
    found: Facts = {"GPUs": product_of(machine) or "none"}
    _each(found, "GPU memory", gpus, lambda gpu: _gib(gpu.memory_bytes))
    _each(found, "BAR1", gpus, lambda gpu: _gib(gpu.bar1_bytes))
    _each(found, "PCIe of the GPUs", gpus, _slot)
    _each(found, "board", gpus, lambda gpu: gpu.board_part_number)
    nics = [device for device in machine.rdma if device.kind is not None]
    if nics:
        kinds = Counter(filter(None, map(_nic, nics)))
        found["NICs"] = ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items()))
    if machine.host is not None:
        _put_host(found, machine.host)
    return found


def _put_host(found: Facts, host: Host) -> None:
    _put(found, "CPU", host.cpu_model_name)
    if host.sockets:
        found["sockets"] = str(len(host.sockets))
        for what in ("cores", "threads"):
            known = [getattr(socket, what) for socket in host.sockets]
            counts = [count for count in known if count is not None]
            _put(found, what, sum(counts) if counts else None)
    _put(found, "system", " ".join(filter(None, (host.dmi_vendor, host.dmi_product))) or None)
    _put(found, "hypervisor", host.hypervisor)


def _relations(node: Node) -> Facts:
    """What lies between devices, row by row; of a large node its digest."""
    found: Facts = {}
    rows = node.matrix.rows
    cells = {row.label: tuple(cell.code for cell in row.cells) for row in rows}
    if len(node.matrix.labels) > MOST_MATRIX:
        return {"relations": f"digest {digest(cells)}"}
    cut = sum(row.kind is PciKind.GPU for row in rows)
    for row in rows[:cut]:
        letters = cells[row.label]
        if set(letters[:cut]) - {"X"}:
            found[f"{row.label} to the GPUs"] = " ".join(letters[:cut])
        if letters[cut:]:
            found[f"{row.label} to the NICs"] = " ".join(letters[cut:])
    return found


def _wiring(node: Node, gpus: Sequence[Gpu]) -> Facts:
    found = _relations(node)
    machine = node.snapshot.machine
    _row(found, "NUMA nodes of the GPUs", [gpu.numa_node for gpu in gpus])
    nics = sorted(machine.rdma, key=lambda device: device.address or device.name)
    _row(found, "NUMA nodes of the NICs", [nic.numa_node for nic in nics])
    links = [sum(link.active is True for link in gpu.nvlinks) for gpu in gpus if gpu.nvlinks]
    _row(found, "NVLinks up", links if len(links) == len(gpus) else [])
    slots = [node.devices.pci(gpu.address) for gpu in gpus]
    _row(found, "PCIe lanes of the GPUs", [slot and slot.link_width_now for slot in slots])
    ports = [port for nic in nics for port in nic.ports if port.state is not None]
    if ports:
        states = [", ".join(filter(None, (port.state, port.rate))) for port in ports]
        found["NIC ports"] = _placed(states, "port ")
    if machine.host is not None and machine.host.numa:
        found["NUMA nodes"] = str(len(machine.host.numa))
    return found


_SOFTWARE = {
    "driver": "nvidia_driver",
    "CUDA": "cuda_driver",
    "amdgpu": "amd_driver",
    "ROCm": "rocm",
    "NCCL": "nccl",
    "RCCL": "rccl",
}
_SYSTEM = {
    "kernel": "kernel",
    "system software": "os_name",
    "kernel module": "nvidia_module",
    "fabric manager": "fabric_manager",
}


def _driver(machine: Machine) -> Facts:
    found: Facts = {}
    for record, fields in ((machine.software, _SOFTWARE), (machine.host, _SYSTEM)):
        for what, field in fields.items():
            _put(found, what, getattr(record, field, None))
    if machine.host is not None and machine.host.modules:
        found["modules"] = " ".join(sorted({module.name for module in machine.host.modules}))
    return found


def _firmware(machine: Machine, gpus: Sequence[Gpu]) -> Facts:
    found: Facts = {}
    _each(found, "VBIOS", gpus, lambda gpu: gpu.vbios)
    _each(found, "GSP firmware", gpus, lambda gpu: gpu.gsp_firmware)
    for block in sorted({name for gpu in gpus for name, _ in gpu.firmware}):
        _each(found, f"firmware {block}", gpus, lambda gpu, b=block: dict(gpu.firmware).get(b))  # type: ignore[misc]
    boards: dict[str, list[str]] = {}
    for nic in sorted(machine.rdma, key=lambda device: device.address or device.name):
        if nic.firmware is not None:
            boards.setdefault(nic.board_id or nic.model or "NIC", []).append(nic.firmware)
    for board, versions in boards.items():
        counts = Counter(versions)
        found[f"firmware of {board}"] = ", ".join(
            version if len(counts) == 1 else f"{version} ({count} of {len(versions)})"
            for version, count in sorted(counts.items())
        )
    return found


_SETTINGS: dict[str, Callable[[Gpu], str | None]] = {
    "ECC": lambda gpu: _switch(gpu.ecc_enabled),
    "MIG": lambda gpu: _switch(gpu.mig_enabled),
    "persistence": lambda gpu: _switch(gpu.persistence),
    "compute mode": lambda gpu: gpu.compute_mode,
    "power limit": lambda gpu: _unit(gpu.power_limit_watts, "W"),
    "highest SM clock": lambda gpu: _unit(gpu.clock_sm_max_mhz, "MHz"),
    "highest memory clock": lambda gpu: _unit(gpu.clock_memory_max_mhz, "MHz"),
    "compute partition": lambda gpu: gpu.compute_partition,
    "memory partition": lambda gpu: gpu.memory_partition,
    "virtualization": lambda gpu: gpu.virtualization,
}


def _settings(machine: Machine, gpus: Sequence[Gpu]) -> Facts:
    found: Facts = {}
    for what, setting in _SETTINGS.items():
        _each(found, what, gpus, setting)
    bridges = [device for device in machine.pci if device.acs is not None]
    if bridges:
        found["PCIe functions with ACS on"] = str(sum(bool(device.acs) for device in bridges))
    kinds = {device.iommu_type for device in machine.pci if device.iommu_type is not None}
    if kinds:
        found["IOMMU"] = ", ".join(sorted(kinds))
    if machine.host is not None:
        _host_settings(found, machine.host)
    return found


def _host_settings(found: Facts, host: Host) -> None:
    if host.cmdline_flags is not None:
        found["kernel command line"] = " ".join(host.cmdline_flags) or "nothing on DMA or PCI"
    _put(found, "NUMA balancing", _switch(host.numa_balancing))
    if host.cpu_governors:
        found["CPU governor"] = ", ".join(sorted({name for name, _ in host.cpu_governors}))
    _put(found, "locked memory", _limit(host, "memlock_bytes", 1024, " KiB"))
    _put(found, "open files", _limit(host, "open_files_limit", 1, ""))
    if host.memory_peers is not None:
        found["memory peers"] = " ".join(sorted(host.memory_peers)) or "none"
    if host.nvidia_registry:
        found["registry keys of the driver"] = " ".join(host.nvidia_registry)


def _limit(host: Host, field: str, unit: int, name: str) -> str | None:
    value = getattr(host, field)
    if value is None:  # any other reason says that it was not read
        return "unlimited" if host.why(field) == "unlimited" else None
    return f"{value // unit}{name}"


def _environment(variables: Iterable[EnvironmentVariable]) -> Facts:
    found: Facts = {}
    for variable in variables:
        if variable.name not in OWN_VARIABLES:
            # The first one listed wins, as in the library.
            found.setdefault(variable.name, variable.value)
    return dict(sorted(found.items()))


def _each(found: Facts, what: str, gpus: Sequence[Gpu], value: Callable[[Gpu], str | None]) -> None:
    """One value of every GPU, or who differs from the most: "on; off at GPU3"."""
    values = [value(gpu) for gpu in gpus]
    if any(text is not None for text in values):
        found[what] = _placed(values, "GPU")


def _placed(values: Sequence[str | None], what: str) -> str:
    counts = Counter(text for text in values if text is not None)
    usual = counts.most_common(1)[0][0]
    odd: dict[str, list[str]] = {}
    for place, text in enumerate(values):
        if text != usual:
            odd.setdefault("not told" if text is None else text, []).append(f"{what}{place}")
    parts = [f"{text} at {', '.join(places)}" for text, places in sorted(odd.items())]
    return "; ".join([usual, *parts])


def _row(found: Facts, what: str, values: Sequence[object]) -> None:
    """Values by place; nothing where none was read."""
    if any(value is not None for value in values):
        found[what] = " ".join("?" if value is None else str(value) for value in values)


def _put(found: Facts, what: str, value: object) -> None:
    if value is not None:
        found[what] = str(value)


def _nic(device: RdmaDevice) -> str | None:
    rates = sorted({port.rate_gbit for port in device.ports if port.rate_gbit is not None})
    rate = f" {rates[-1]:g} Gb/s" if rates else ""
    name = device.board_id or device.model or device.driver or device.kind
    return None if name is None else f"{name}{rate}"


def _slot(gpu: Gpu) -> str | None:
    if gpu.pcie_gen_max is None and gpu.pcie_width_max is None:
        return None
    return f"Gen{gpu.pcie_gen_max or '?'} x{gpu.pcie_width_max or '?'}"


def _switch(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"


def _unit(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{value:g} {unit}"


def _gib(value: int | None) -> str | None:
    return None if value is None else f"{round(value / _GIB)} GiB"
