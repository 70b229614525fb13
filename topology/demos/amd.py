"""A demo's answers for AMD GPUs, and their parser, as long as no source asks AMD's library.

The raw answer of "demo_amd": {"gpus": [{field of Gpu: value, "xgmi": [field of XgmiLink]}]}; that
of "demo_amd_readings": {"gpus": [{field of GpuReading: value}]}.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..machine import Gpu, GpuPair, Software
from ..readings import GpuReading
from ..sources.source import Part
from .figures import Load
from .pci_tree import Function
from .shape import Shape

SECOND_DIE = "the first GCD of the package tells it"
"""Of two dies in a package, the power and its limit are the package's and read from one."""


def answer(shape: Shape, functions: tuple[Function, ...]) -> dict[str, Any]:
    """Give the lasting facts of a demo's AMD GPUs; {} where the GPUs are NVIDIA's."""
    if shape.gpu.vendor != "amd":
        return {}
    gpus = [function for function in functions if function.kind == "gpu"]
    return {
        "demo": True,
        "rocm": shape.rocm,
        "rccl": shape.rccl,
        "gpus": [_common(shape) | _device(shape, gpu, gpus) for gpu in gpus],
        "pairs": [_pair(shape, a, b) for a in gpus for b in gpus if a is not b],
    }


def _common(shape: Shape) -> dict[str, Any]:
    model = shape.gpu
    return {
        "vendor": "amd",
        "name": model.name,
        "vbios": model.vbios,
        "compute_partition": model.compute_partition,
        "memory_partition": model.memory_partition,
        "board_part_number": model.board_part_number,
        "architecture": model.family,
        "compute_capability": model.compute_capability,
        "core_count": model.cores,
        "pci_id": model.pci_id,
        "memory_bytes": model.memory_bytes,
        "memory_bus_bits": model.memory_bus_bits,
        "bar1_bytes": model.bar1_bytes,
        "pcie_gen_max": model.pcie_gen,
        "pcie_gen_max_device": model.pcie_gen,
        "pcie_width_max": 16,
        "clock_graphics_max_mhz": model.clock_graphics_mhz,
        "clock_memory_max_mhz": model.clock_memory_mhz,
        "temperature_slowdown_c": model.temperature_slowdown_c,
        "temperature_shutdown_c": model.temperature_shutdown_c,
    }


def _device(shape: Shape, gpu: Function, gpus: list[Function]) -> dict[str, Any]:
    mesh = shape.xgmi
    return {
        "address": gpu.address,
        "index": gpu.number,
        "uuid": f"de300000-0000-4000-8000-{gpu.number:012d}",
        "serial": f"DEMO{gpu.number:09d}",
        "numa_node": gpu.numa,
        **_power(shape, gpu),
        "cpu_affinity": shape.node.numa_cpus[gpu.numa],
        "xgmi": []
        if mesh is None
        else [
            {"remote_address": peer.address, "active": shape.xgmi_up(gpu.number, peer.number),
             "links": links, "raw_gbs": mesh.raw_gbs * links, "hops": 1, "weight": mesh.weight,
             "speed_gts": mesh.speed_gts, "width": mesh.width}
            for peer in gpus
            if (links := mesh.links(gpu.number, peer.number))
        ],
    }  # fmt: skip


def _power(shape: Shape, gpu: Function) -> dict[str, Any]:
    names = ("power_limit_watts", "power_limit_default_watts", "power_limit_max_watts")
    if gpu.number % shape.gpu.dies:
        return {"gaps": [{"field": name, "why": SECOND_DIE} for name in names]}
    return dict.fromkeys(names, shape.gpu.power_watts)


def _pair(shape: Shape, a: Function, b: Function) -> dict[str, Any]:
    """Give what the driver says of two GPUs: one hive, so all are xGMI, near or over a third."""
    mesh = shape.xgmi
    near = mesh is not None and shape.xgmi_up(a.number, b.number)
    access = {"p2p_read": "ok", "p2p_write": "ok", "p2p_atomics": "ok", "p2p_dma": "ok"}
    found: dict[str, Any] = {"src": a.address, "dst": b.address} | access
    if mesh is not None and near:
        hops = mesh.hops(a.number, b.number)
        found |= {"link_type": "xgmi", "hops": hops, "weight": mesh.weight * hops}
    else:
        found |= {"link_type": "pcie", "hops": 2, "weight": 40 if a.numa == b.numa else 72}
    return found


def readings(shape: Shape, gpus: tuple[Function, ...], tick: int) -> dict[str, Any]:
    """Give the moving figures of a demo's AMD GPUs at a tick."""
    return {"demo": True, "gpus": [_reading(Load(shape, gpu, tick)) for gpu in gpus]}


def _reading(load: Load) -> dict[str, Any]:
    found = load.answers()
    memory = found["nvmlDeviceGetMemoryInfo"]
    rates = found["nvmlDeviceGetUtilizationRates"]
    power: dict[str, Any] = {"power_watts": load.power_watts()}
    if load.gpu.number % load.model.dies:
        power = {"gaps": [{"field": "power_watts", "why": SECOND_DIE}]}
    return {
        "address": load.gpu.address,
        "utilization_percent": rates["gpu"],
        "memory_utilization_percent": rates["memory"],
        "memory_used_bytes": memory["used"],
        "memory_free_bytes": memory["free"],
        **power,
        "temperature_c": found["temp"],
        "temperature_memory_c": found["fields"]["NVML_FI_DEV_MEMORY_TEMP"]["value"],
        "clock_graphics_mhz": found["clock0"],
        "clock_memory_mhz": found["clock2"],
        "pcie_gen": found["nvmlDeviceGetCurrPcieLinkGeneration"],
        "pcie_width": found["nvmlDeviceGetCurrPcieLinkWidth"],
        "processes": [
            {"pid": process["pid"], "kind": "compute", "memory_bytes": process["usedGpuMemory"]}
            for process in found["nvmlDeviceGetComputeRunningProcesses"]
        ],
    }


def parse(raw: dict[str, Any]) -> Part:
    """Understand "demo_amd": GPUs with their xGMI links, and versions."""
    software = Software(rocm=raw.get("rocm"), rccl=raw.get("rccl"))
    return Part(
        gpus=tuple(msgspec.convert(raw["gpus"], list[Gpu])),
        pairs=tuple(msgspec.convert(raw["pairs"], list[GpuPair])),
        software=software,
    )


def parse_readings(raw: dict[str, Any]) -> Part:
    """Understand "demo_amd_readings"."""
    return Part(gpu_readings=tuple(msgspec.convert(raw["gpus"], list[GpuReading])))
