"""The NIC of each GPU: the one that NCCL or RCCL takes, else the nearest one, and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from ..model.machine import Gpu
from ..model.surroundings import RdmaDevice, RdmaKind
from ..model.units import figure
from ..nccl.prediction import DomainView, NetDecision
from ..node import Node
from ..wiring.paths import path_between
from .places import FAR, NEAR, SAME_CPU

_BY_PATH = {
    "PIX": NEAR, "PXB": NEAR, "C2C": NEAR, "P2C": NEAR, "PHB": SAME_CPU, "PXN": NEAR, "SYS": FAR,
}  # fmt: skip
"""NCCL's path type from a GPU to a NIC -> how far that is."""
_BY_RELATION = {"PIX": NEAR, "PXB": NEAR, "PHB": SAME_CPU, "NODE": SAME_CPU, "SYS": FAR}
"""The same for the letters of `nvidia-smi topo -m`, nearest first."""
_VERBS = (RdmaKind.INFINIBAND, RdmaKind.ROCE)


class GpuNic(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU's NIC."""

    name: str
    """"mlx5_3"."""
    place: str
    """NEAR (below the same PCIe switch), SAME_CPU or FAR; "" where that is not known."""
    taken: bool
    """Whether the library takes it, by its prediction; else it is the nearest by the wiring."""
    text: str
    """"NCCL takes mlx5_3: PIX, GPUDirect RDMA; carries 31.5 GB/s, NCCL counts 48.0"."""
    because: str = ""
    """Why this one."""


def gpu_nics(node: Node) -> dict[str, GpuNic]:
    """PCI address of a GPU -> its NIC; GPUs without one are left out."""
    taken = _taken(node)
    return {**_nearest(node, taken), **taken}


def _taken(node: Node) -> dict[str, GpuNic]:
    prediction = node.prediction
    if prediction is None:
        return {}
    gpus = {pair.src: pair.src_bus_id for pair in prediction.pairs}
    if not gpus and len(node.snapshot.machine.gpus) == 1:
        gpus = {0: node.snapshot.machine.gpus[0].address}
    library = prediction.library.name.upper()
    machine = node.snapshot.machine
    # Where a text names NICs without their place, the prediction goes on with a made-up one.
    made_up = bool(machine.rdma) and all(nic.address is None for nic in machine.rdma)
    read = {nic.name for nic in machine.rdma} | {port.name for port in machine.interfaces}
    found = {}
    for view in node.nic_views:
        for rank in view.ranks:
            net = first_nic(view, rank)
            if net is not None and rank in gpus and not (made_up and net.name not in read):
                found[gpus[rank]] = _nic(view, net, library, carried_gbs(node, gpus[rank], net))
    return found


def first_nic(view: DomainView, rank: int) -> NetDecision | None:
    """The NIC of a rank's first channel."""
    nets = view.local_nets.get(str(rank), ())
    return next((net for net in view.nets if net.rank == rank and net.net in nets[:1]), None)


def carried_gbs(node: Node, gpu: str, net: NetDecision) -> float | None:
    """What the narrowest link from a GPU to a NIC carries one way, its port included.

    The library's own figure comes from its table and from what the links could be.
    """
    nic = next((one for one in node.machine.rdma if one.name == net.name), None)
    path = (
        None if nic is None or nic.address is None else path_between(node.graph, gpu, nic.address)
    )
    if nic is None or path is None or not path.complete or path.payload_gbs is None:
        return None
    ports = [port.rate_gbit / 8 for port in nic.ports if port.rate_gbit]
    return min(path.payload_gbs, *ports) if ports else path.payload_gbs


def _nic(view: DomainView, net: NetDecision, library: str, carried: float | None) -> GpuNic:
    _, gbs, path = net.to
    name = net.name or f"NIC {net.net}"
    gdr = "no GPUDirect RDMA" if not net.sends_direct else "GPUDirect RDMA"
    steps = view.steps.get("local_nets", ())
    why = next((step for step in steps if step.question.endswith(f"rank {net.rank}?")), None)
    return GpuNic(
        name=name,
        place=_BY_PATH.get(path, ""),
        taken=True,
        text=f"{library} takes {name}: {path}, {gdr}; {counted(library, gbs, carried)}",
        because="" if why is None else why.because,
    )


def counted(library: str, gbs: float, carried: float | None) -> str:
    """What the library counts for a way, with what its narrowest link really carries first."""
    its_own = f"{library} counts {figure(gbs)}"
    return f"{its_own} GB/s" if carried is None else f"carries {figure(carried)} GB/s, {its_own}"


def _nearest(node: Node, taken: Collection[str]) -> dict[str, GpuNic]:
    """By the letters of the relation matrix: of the GPUs whose NIC no prediction names."""
    machine, matrix = node.snapshot.machine, node.matrix
    order = list(_BY_RELATION)
    found = {}
    nics = dict.fromkeys(device.address or device.name for device in machine.rdma)
    reason = "the prediction was made without this NIC"
    if node.prediction is None:
        reason = node.why_no_prediction or "not predicted yet"
    for gpu in machine.gpus:
        if gpu.address in taken:
            continue
        near = [
            (order.index(cell.code), node.devices.name(address), cell.code)
            for address in nics
            if (cell := matrix.cell(gpu.address, address)) is not None and cell.code in order
        ]
        if near:
            _, name, letters = min(near)
            found[gpu.address] = GpuNic(
                name=name,
                place=_BY_RELATION[letters],
                taken=False,
                text=f"nearest {name}: {letters}; the library's choice is not known: {reason}",
            )
    return found


def active_ports(node: Node, gpus: Sequence[Gpu]) -> tuple[dict[str, str], list[str]]:
    """The active port of each GPU's NIC, as "mlx5_0:1"; and why there is none.

    The node is decided.
    """
    known: Mapping[str, RdmaDevice] = {device.name: device for device in node.machine.rdma}
    found, why = {}, []
    nics = gpu_nics(node)
    for gpu in gpus:
        nic, label = nics.get(gpu.address), node.devices.name(gpu.address)
        device = None if nic is None else known.get(nic.name)
        if nic is None or device is None:
            why.append(f"{label}: no RDMA device is known to be near it")
            continue
        port = next((port.port for port in device.ports if port.active), None)
        if device.kind not in _VERBS:
            why.append(f"{label}: {device.name} is not InfiniBand or RoCE")
        elif port is None:
            why.append(f"{label}: no port of {device.name} is known to be active")
        else:
            found[gpu.address] = f"{device.name}:{port}"
            why.append(f"{label}: {nic.text}")
    return found, why
