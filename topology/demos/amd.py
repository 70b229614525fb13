"""A demo's answers for AMD GPUs, and their parser, as long as no source asks AMD's library.

The raw answer of "demo_amd": {"gpus": [{field of Gpu: value, "xgmi": [field of XgmiLink]}]}; that
of "demo_amd_readings": {"gpus": [{field of GpuReading: value}]}.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..machine import Gpu, Software
from ..readings import GpuReading
from ..sources.source import Part
from .figures import Load
from .pci_tree import Function
from .shape import Shape


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
    }


def _common(shape: Shape) -> dict[str, Any]:
    model = shape.gpu
    return {
        "vendor": "amd",
        "name": model.name,
        "vbios": model.vbios,
        "board_part_number": model.board_part_number,
        "architecture": "CDNA 3",
        "compute_capability": model.compute_capability,
        "core_count": model.cores,
        "pci_id": model.pci_id,
        "memory_bytes": model.memory_bytes,
        "memory_bus_bits": model.memory_bus_bits,
        "bar1_bytes": model.bar1_bytes,
        "pcie_gen_max": model.pcie_gen,
        "pcie_gen_max_device": model.pcie_gen,
        "pcie_width_max": 16,
        "power_limit_watts": model.power_watts,
        "power_limit_default_watts": model.power_watts,
        "power_limit_max_watts": model.power_watts,
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
        "cpu_affinity": shape.node.numa_cpus[gpu.numa],
        "xgmi": []
        if mesh is None
        else [
            {"remote_address": peer.address, "active": True, "links": mesh.links_per_pair,
             "raw_gbs": mesh.raw_gbs * mesh.links_per_pair, "hops": 1, "weight": mesh.weight}
            for peer in gpus
            if peer is not gpu
        ],
    }  # fmt: skip


def readings(shape: Shape, gpus: tuple[Function, ...], tick: int) -> dict[str, Any]:
    """Give the moving figures of a demo's AMD GPUs at a tick."""
    return {"demo": True, "gpus": [_reading(Load(shape, gpu, tick)) for gpu in gpus]}


def _reading(load: Load) -> dict[str, Any]:
    found = load.answers()
    memory = found["nvmlDeviceGetMemoryInfo"]
    rates = found["nvmlDeviceGetUtilizationRates"]
    return {
        "address": load.gpu.address,
        "utilization_percent": rates["gpu"],
        "memory_utilization_percent": rates["memory"],
        "memory_used_bytes": memory["used"],
        "memory_free_bytes": memory["free"],
        "power_watts": load.power_watts(),
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
    return Part(gpus=tuple(msgspec.convert(raw["gpus"], list[Gpu])), software=software)


def parse_readings(raw: dict[str, Any]) -> Part:
    """Understand "demo_amd_readings"."""
    return Part(gpu_readings=tuple(msgspec.convert(raw["gpus"], list[GpuReading])))
