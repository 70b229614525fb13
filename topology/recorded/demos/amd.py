"""A demo's answers for the sources `amdsmi` and `amdsmi_readings`, in the words of ROCm 7.x."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ...model.part import Raw
from .pci_tree import GTS, Function
from .readings import Load
from .shape import DemoGpu, DemoShape

NA = "N/A"
HIVE = 0xDE30000000000001
_BLOCKS = ("UMC", "SDMA", "GFX", "MMHUB", "PCIE_BIF", "XGMI_WAFL")
_SAMPLES = 1000
"""Samples that the driver takes between two readings."""
_MOST_LINKS = 64
"""That the library has room for (amdsmi.h, AMDSMI_MAX_NUM_XGMI_PHYSICAL_LINK)."""
_WEIGHT_PCIE, _WEIGHT_SOCKETS = 40, 72
_HOPS_PCIE, _HOPS_SOCKETS = 2, 3
"""Weights as rocm_smi.cc counts them: to the CPU and back, and more between two CPUs."""
_XGMI, _PCIE = 2, 1
_CACHES_KIB = {"gfx90a": (8192,), "gfx942": (4096, 262_144), "gfx950": (4096, 262_144)}
"""Caches: L2 of one XCD, as the kernel gives it, and the cache at the memory (data sheets)."""

REFUSED = {"error": "AmdSmiLibraryException: AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported"}
BASE_KB = 10**9
"""Values of the counters before the demo starts."""
_SHARE = 0.4
"""Share of the links' rate that the load uses, on average."""
_MOST_COUNTED = 8
"""Links whose bytes gpu_metrics has room for (amdsmi.h, AMDSMI_MAX_NUM_XGMI_LINKS)."""
Counts = dict[str, tuple[int, int]]
""""read" and "write": before and now."""


def answer(shape: DemoShape, gpus: tuple[Function, ...]) -> dict[str, Any]:
    """What the reader of `amdsmi` would find."""
    return {
        "demo": True,
        "system": {
            "amdsmi_get_lib_version": {"major": 26, "minor": 0, "release": 2, "build": "demo"},
            "amdsmi_get_rocm_version": [shape.rocm is not None, shape.rocm or "not found"],
        },
        "devices": [_device(shape, gpu, gpus) for gpu in gpus],
    }


def _device(shape: DemoShape, gpu: Function, gpus: tuple[Function, ...]) -> dict[str, Any]:
    model = shape.gpu
    modes = (model.compute_partition or REFUSED, model.memory_partition or REFUSED)
    links = _links(shape, gpu, gpus)
    return {
        "index": gpu.number,
        "amdsmi_get_gpu_device_bdf": gpu.address,
        "amdsmi_get_gpu_asic_info": _asic(model, gpu),
        "amdsmi_get_gpu_device_uuid": f"de300000-0000-4000-8000-{gpu.number:012d}",
        "amdsmi_get_gpu_vram_info": {
            "vram_size": model.memory_bytes // 2**20,
            "vram_bit_width": model.memory_bus_bits,
        },
        "amdsmi_get_power_cap_info": _cap(shape, gpu),
        "amdsmi_get_gpu_compute_partition": modes[0],
        "amdsmi_get_gpu_memory_partition": modes[1],
        "amdsmi_get_gpu_kfd_info": {
            "kfd_id": 40000 + gpu.number,
            "node_id": len(shape.node.numa_cpus) + gpu.number,
            "current_partition_id": 0,
        },
        "amdsmi_get_gpu_board_info": {
            "model_number": model.board_part_number,
            "product_serial": f"DEMO{gpu.number // model.dies:09d}",
        },
        "amdsmi_get_gpu_vbios_info": {"version": model.vbios},
        "amdsmi_get_fw_info": {"fw_list": [{"fw_name": "PM", "fw_version": "00.85.00.00"}]},
        "amdsmi_get_gpu_driver_info": {"driver_name": "amdgpu", "driver_version": shape.driver}
        if shape.driver
        else REFUSED,
        "amdsmi_get_gpu_enumeration_info": {"drm_render": 128 + 8 * gpu.number},
        "amdsmi_get_gpu_cache_info": _caches(model.compute_capability),
        "amdsmi_get_gpu_virtualization_mode": {"mode": "BAREMETAL"},
        "amdsmi_get_gpu_topo_numa_affinity": gpu.numa,
        "amdsmi_get_xgmi_info": {"xgmi_hive_id": HIVE if shape.xgmi else 0},
        **_most(model),
        "amdsmi_get_gpu_ecc_enabled": 0xAF,
        "amdsmi_get_pcie_info": {"pcie_static": _pcie(16, model.pcie_gen, "max_pcie_")},
        "amdsmi_get_gpu_xgmi_link_status": {
            "status": ["U" if up else "D" for _, up in links[:_MOST_LINKS]],
            "total_links": min(len(links), _MOST_LINKS),
        },
        "amdsmi_get_link_metrics": {"links": [{"bdf": end} for end, _ in links]},
        "amdsmi_get_gpu_metrics_info": _lanes(shape),
        "pairs": [_pair(shape, gpu, peer) for peer in gpus if peer is not gpu],
    }


def _asic(model: DemoGpu, gpu: Function) -> dict[str, Any]:
    vendor, device = model.pci_id.split(":")
    return {
        "market_name": model.name,
        "vendor_id": f"0x{vendor}",
        "device_id": f"0x{device}",
        "oam_id": gpu.number // model.dies,
        "num_compute_units": model.cores,
        "target_graphics_version": model.compute_capability,
    }


def _most(model: DemoGpu) -> dict[str, Any]:
    """What the memory, the clocks and the temperatures of a model reach at most."""
    return {
        "amdsmi_get_gpu_memory_total(VRAM)": model.memory_bytes,
        "amdsmi_get_gpu_memory_total(VIS_VRAM)": model.bar1_bytes,
        "amdsmi_get_clock_info(GFX)": {"max_clk": model.clock_graphics_mhz},
        "amdsmi_get_clock_info(MEM)": {"max_clk": model.clock_memory_mhz},
        "amdsmi_get_clock_info(VCLK0)": {"max_clk": NA},
        "amdsmi_get_temp_metric(HOTSPOT,CRITICAL)": model.temperature_slowdown_c,
        "amdsmi_get_temp_metric(HOTSPOT,EMERGENCY)": model.temperature_shutdown_c,
        "amdsmi_get_temp_metric(VRAM,CRITICAL)": model.temperature_memory_max_c,
    }


def _caches(target: str) -> Raw:
    found: list[dict[str, Any]] = [
        {
            "cache_properties": ["DATA_CACHE", "SIMD_CACHE"],
            "cache_size": kib,
            "cache_level": level,
            "num_cache_instance": 1,
        }
        for level, kib in enumerate(_CACHES_KIB.get(target, ()), start=2)
    ]
    return {"cache": found} if found else REFUSED


def _cap(shape: DemoShape, gpu: Function) -> Raw:
    """Microwatts; only the first of two dies in a package gives the package's limit."""
    if gpu.number % shape.gpu.dies:
        return REFUSED
    watts = shape.gpu.power_watts * 1_000_000
    return {
        "power_cap": watts,
        "default_power_cap": watts,
        "min_power_cap": shape.gpu.power_min_watts * 1_000_000,
        "max_power_cap": watts,
    }


def _pcie(width: int, generation: int, prefix: str) -> dict[str, int]:
    rates = {1: 2500, 2: 5000} | {number: round(gts * 1000) for number, gts in GTS.items()}
    return {f"{prefix}width": width, f"{prefix}speed": rates[generation]}


def _links(shape: DemoShape, gpu: Function, gpus: tuple[Function, ...]) -> list[tuple[str, bool]]:
    """The far end of each xGMI link of a GPU, and whether it is up."""
    mesh = shape.xgmi
    return [
        (peer.address, shape.xgmi_up(gpu.number, peer.number))
        for peer in gpus
        for _ in range(mesh.links(gpu.number, peer.number) if mesh is not None else 0)
    ]


def _lanes(shape: DemoShape) -> Raw:
    """The rate of a lane, in whole GT/s as the driver gives it; None where it is not whole."""
    mesh = shape.xgmi
    if mesh is None:
        return REFUSED
    whole = mesh.speed_gts == int(mesh.speed_gts)
    return {
        "xgmi_link_width": mesh.width if whole else NA,
        "xgmi_link_speed": int(mesh.speed_gts) if whole else NA,
    }


def _pair(shape: DemoShape, a: Function, b: Function) -> dict[str, Any]:
    """What the driver says about two GPUs of one hive: xGMI joins them, directly or not."""
    mesh, low, high = shape.xgmi, 0, 0
    near = a.numa == b.numa
    kind, weight = _PCIE, _WEIGHT_PCIE if near else _WEIGHT_SOCKETS
    hops = _HOPS_PCIE if near else _HOPS_SOCKETS
    if mesh is not None and shape.xgmi_up(a.number, b.number):
        kind, weight, hops = _XGMI, mesh.weight * mesh.hops(a.number, b.number), 1
        links = mesh.links(a.number, b.number)
        low = round(mesh.raw_gbs * 1000) if links else 0
        high = low * links
    flags = ("coherent", "atomics_32bit", "atomics_64bit", "dma", "bi_directional")
    return {
        "peer": b.number,
        "amdsmi_topo_get_link_type": {"hops": hops, "type": kind},
        "amdsmi_topo_get_link_weight": weight,
        "amdsmi_get_minmax_bandwidth_between_processors": {
            "min_bandwidth": low,
            "max_bandwidth": high,
        },
        "amdsmi_is_P2P_accessible": True,
        "amdsmi_topo_get_p2p_status": {
            "type": kind,
            "cap": {f"is_iolink_{flag}": 1 for flag in flags},
        },
    }


def readings(shape: DemoShape, gpus: tuple[Function, ...], tick: int) -> dict[str, Any]:
    """What the reader of `amdsmi_readings` would find at a tick."""
    links = _all_links(shape, gpus)
    devices = [_moving(Load(shape, gpu, tick), links[gpu.number]) for gpu in gpus]
    return {"demo": True, "devices": devices}


@lru_cache(4)
def _all_links(shape: DemoShape, gpus: tuple[Function, ...]) -> dict[int, list[tuple[str, bool]]]:
    # The same at every tick; nobody changes them.
    return {gpu.number: _links(shape, gpu, gpus) for gpu in gpus}


def _moving(load: Load, links: list[tuple[str, bool]]) -> dict[str, Any]:
    found, model = load.answers(), load.model
    used = found["nvmlDeviceGetMemoryInfo"]["used"]
    rates = found["nvmlDeviceGetUtilizationRates"]
    fields = found["fields"]
    stated = not load.gpu.number % model.dies
    watts = round(load.power_watts())
    counts = counts_of(load)
    zero = {"correctable_count": 0, "uncorrectable_count": 0, "deferred_count": 0}
    return {
        "index": load.gpu.number,
        "amdsmi_get_gpu_device_bdf": load.gpu.address,
        "amdsmi_get_gpu_metrics_info": {"current_socket_power": watts if stated else NA},
        "amdsmi_get_gpu_activity": {"gfx_activity": rates["gpu"], "umc_activity": rates["memory"]},
        "amdsmi_get_power_info": {"current_socket_power": watts if stated else NA},
        "amdsmi_get_gpu_memory_usage(VRAM)": used,
        "amdsmi_get_gpu_memory_total(VRAM)": model.memory_bytes,
        "amdsmi_get_temp_metric(HOTSPOT,CURRENT)": found["temp"],
        "amdsmi_get_temp_metric(VRAM,CURRENT)": fields["NVML_FI_DEV_MEMORY_TEMP"]["value"],
        "amdsmi_get_clock_info(GFX)": {"clk": found["clock0"]},
        "amdsmi_get_clock_info(MEM)": {"clk": found["clock2"]},
        "amdsmi_get_clock_info(VCLK0)": {"clk": found["clock3"]},
        "amdsmi_get_gpu_process_list": [
            {
                "name": "python3",
                "pid": process["pid"],
                "mem": process["usedGpuMemory"],
                "memory_usage": {"vram_mem": process["usedGpuMemory"]},
            }
            for process in found["nvmlDeviceGetComputeRunningProcesses"]
        ],
        "amdsmi_get_pcie_info": {
            "pcie_metric": _pcie(
                found["nvmlDeviceGetCurrPcieLinkWidth"],
                found["nvmlDeviceGetCurrPcieLinkGeneration"],
                "pcie_",
            )
            | {"pcie_replay_count": 0}
        },
        "amdsmi_get_gpu_total_ecc_count": zero,
        "amdsmi_get_gpu_bad_page_info": [],
        "residencies": _residencies(load, watts),
        "xgmi_kb": by_number(counts, links),
        "amdsmi_get_link_metrics": by_link(counts, links[:_MOST_LINKS]),
        "ecc": dict.fromkeys(_BLOCKS, zero),
    }


def _residencies(load: Load, watts: int) -> dict[str, Any]:
    """Counters of what held the clocks down: the power limit, now and then."""
    names = ("prochot", "socket_thm", "vr_thm", "hbm_thm")
    capped = load.busy and watts > 0.99 * load.model.power_watts
    return {
        "seconds": 1.0,
        "accumulation_counter": [_SAMPLES * load.tick, _SAMPLES * (load.tick + 1)],
        "ppt_residency_acc": [0, _SAMPLES // 4 if capped else 0],
    } | {f"{name}_residency_acc": [0, 0] for name in names}


# A demo's counters of xGMI links, in the words of ROCm 7.x.
def counts_of(load: Load) -> Counts | None:
    """Kilobytes over each link that is up until the tick and one second later, both ways."""
    if (mesh := load.shape.xgmi) is None:
        return None
    level = mesh.raw_gbs * _SHARE * load.work.links * 1e9 / 1024
    found = {}
    for name, period in (("read", 21), ("write", 19)):
        wave, tick = load.wave(level, 0.3, period), load.tick
        found[name] = BASE_KB + round(wave.until(tick)), BASE_KB + round(wave.until(tick + 1))
    return found


def by_number(counts: Counts | None, links: list[tuple[str, bool]]) -> Raw:
    """The counters of gpu_metrics, which have no room for more links."""
    if counts is None:
        return REFUSED
    return {"seconds": 1.0} | {
        f"xgmi_{name}_data_acc": [
            [kb if up else BASE_KB for _, up in links[:_MOST_COUNTED]] for kb in moments
        ]
        for name, moments in counts.items()
    }


def by_link(counts: Counts | None, links: list[tuple[str, bool]]) -> Raw:
    """The counters of each link, with the GPU at its far end."""
    if counts is None:
        return REFUSED
    now = {name: moments[1] for name, moments in counts.items()}
    down = dict.fromkeys(now, BASE_KB)
    return {"links": [{"bdf": end, **(now if up else down)} for end, up in links]}
