"""The lines that start a job on some GPUs: which ones, next to which CPUs, over which NICs."""

from __future__ import annotations

from collections.abc import Sequence

from ..hardware.vendors import AMD
from ..model.copied import copied
from ..model.gathered import gathered
from ..model.machine import Gpu
from ..nccl.decide.left_out import unserved_gpus
from ..nccl.order import hip_order
from ..node import Node
from ..wiring.graph import gpu_numa
from .nics import active_ports


def start_lines(node: Node, gpus: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Lines that start a job on these GPUs (addresses by rank), and notes; the node is decided."""
    lines: list[str] = []
    notes: list[str] = []
    chosen = [node.devices.gpus[address] for address in gpus]
    visible = _visible(node, chosen)
    if visible:
        lines.append(visible)
    else:
        notes.append("how the runtime numbers these GPUs is not known")
    if chosen[0].vendor == AMD.id:
        notes.append("ROCR_VISIBLE_DEVICES takes the same numbers: set one of the two")
    for part in (_binding(node, chosen), _nics(node, chosen)):
        lines += part[0]
        notes += part[1]
    return tuple(lines), tuple(notes)


def _visible(node: Node, chosen: Sequence[Gpu]) -> str:
    """The variable that shows these GPUs alone, in the order of their ranks."""
    amd = chosen[0].vendor == AMD.id
    hidden, _ = unserved_gpus(node.machine)
    alike = [
        gpu
        for gpu in node.machine.gpus
        if gpu.vendor == chosen[0].vendor and gpu.address not in hidden
    ]
    if any(gpu.mig_enabled for gpu in alike):
        uuids = [gpu.uuid for gpu in chosen]
        return "" if None in uuids else copied("export CUDA_VISIBLE_DEVICES={:device,}", uuids)
    ordered = hip_order(alike) if amd else alike
    places = [gpu.address for gpu in ordered]
    numbers = [places.index(gpu.address) for gpu in chosen]
    if amd:
        return copied("export HIP_VISIBLE_DEVICES={:number,}", numbers)
    return copied("export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={:number,}", numbers)


def _binding(node: Node, chosen: Sequence[Gpu]) -> tuple[list[str], list[str]]:
    """A line of numactl for each NUMA node, with the ranks that it is for."""
    host = node.machine.host
    if host is not None and len(host.numa) == 1:
        return [], ["the host has one NUMA node: nothing to bind"]
    ranks = gathered((gpu_numa(gpu), rank) for rank, gpu in enumerate(chosen))
    lines, notes = [], []
    for number, several in ranks.items():
        if number is None:
            names = node.devices.names([chosen[rank].address for rank in several])
            notes.append(f"the NUMA node of {names} is not known: no line of numactl")
            continue
        line = copied("numactl --cpunodebind={0:number} --membind={0:number} PROGRAM", number)
        only = "" if len(ranks) == 1 else f"  # {_ranks(several)}"
        lines.append(line + only)
    return lines, notes


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _nics(node: Node, chosen: Sequence[Gpu]) -> tuple[list[str], list[str]]:
    """NCCL_IB_HCA with the active port beside each GPU, for a job over several nodes."""
    ports, why = active_ports(node, chosen)
    found = list(dict.fromkeys(ports[gpu.address] for gpu in chosen if gpu.address in ports))
    if not found:
        return [], [f"no line for NICs: {'; '.join(why[:2])}"] if why else []
    line = copied('export NCCL_IB_HCA="={:port,}"', found)
    lacking = [gpu.address for gpu in chosen if gpu.address not in ports]
    notes = ["NCCL_IB_HCA counts in a job over several nodes alone"]
    if lacking:
        notes.append(f"no active port is known beside {node.devices.names(lacking)}")
    return ([line] if line else []), notes
