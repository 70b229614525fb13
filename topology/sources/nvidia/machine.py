"""NVML's raw answers as records of the machine. The layout is described in nvml.py."""

from __future__ import annotations

from typing import Any

from ...model.machine import Gpu, GpuPair, MigInstance
from ...model.part import Part, Raw
from ...model.snapshot import Problem
from ...model.surroundings import Software
from ..files.library_answers import Answers, dicts, is_whole, odd
from ..pci.address import pci_address
from .answers import FIELDS, NVML, reason, refusal
from .failures import failed, of_links
from .links import fabric, nvlinks
from .possible import believed
from .refusals import with_refusals
from .words import (
    ANCESTORS,
    ARCHITECTURES,
    COMPUTE_MODES,
    CONFIDENTIAL,
    P2P_STATUS,
    P2P_STATUS_UNKNOWN,
    VIRTUALIZATION,
    bits,
    ranges,
    word,
)

MAX_DEVICES = 256
"""More GPUs than any node has; a recording is cut after this many."""
_MAX_C2C_LINKS, _MAX_C2C_MBS = 64, 10**7
_P2P = ("p2p_read", "p2p_write", "p2p_nvlink", "p2p_atomics", "p2p_pci")
"""Fields of GpuPair in the order of NVML_P2P_CAPS_INDEX_*."""


def parse(raw: Raw) -> Part:
    """Parse what the reader of `nvml` (or nvml.json) holds: GPUs, pairs, versions."""
    top = raw if isinstance(raw, dict) else {}
    described = [(address(d), d) for d in map(believed, dicts(top.get("devices"))[:MAX_DEVICES])]
    addresses = {_index(device, place): own for place, (own, device) in enumerate(described)}
    gpus: dict[str, Gpu] = {}
    pairs: list[GpuPair] = []
    problems: list[Problem] = []
    assumptions: list[str] = []
    for place, (own, device) in enumerate(described):
        index = _index(device, place)
        if own is None:
            problems.append(_unknown_device(device, index))
        elif own in gpus:
            problems.append(Problem(source="nvml", text=f"two GPUs with the PCI address {own}"))
        else:
            gpus[own] = _gpu(device, own, index, assumptions)
            pairs += _pairs(device, own, addresses)
    answered = [(own, device, of_links(device.get("links"))) for own, device in described]
    return Part(
        gpus=with_refusals(tuple(gpus.values()), pairs),
        pairs=tuple({(pair.src, pair.dst): pair for pair in pairs}.values()),
        software=_software(top.get("system")),
        problems=(*problems, *failed("nvml", top.get("system"), answered)),
        assumptions=tuple(dict.fromkeys(assumptions)),
    )


def address(device: dict[str, Raw]) -> str | None:
    """PCI address of a device of the raw answer; None when the driver does not give it."""
    for name in ("nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo"):
        pci = device.get(name)
        if isinstance(pci, dict):
            found = pci_address(pci.get("busId")) or pci_address(pci.get("busIdLegacy"))
            if found is not None:
                return found
    return None


def _index(device: dict[str, Raw], place: int) -> int:
    index = device.get("nvmlDeviceGetIndex", device.get("index"))
    return index if is_whole(index) and 0 <= index < 2**31 else place


def _unknown_device(device: dict[str, Raw], index: int) -> Problem:
    """A GPU that the driver counts but does not open or identify."""
    if "lost" in device:
        text = f"GPU {index}: the driver has lost it ({reason(str(device['lost']))})"
        return Problem(source="nvml", kind="lost", text=text, devices=(f"nvml:{index}",))
    why = str(device.get("refused") or refusal(device.get("nvmlDeviceGetPciInfo")) or "no address")
    kind = "denied" if "NoPermission" in why else "failed"
    text = f"GPU {index}: the driver does not open it ({reason(why)})"
    return Problem(source="nvml", kind=kind, text=text, devices=(f"nvml:{index}",))


def _gpu(device: dict[str, Raw], own: str, index: int, assumptions: list[str]) -> Gpu:
    a = Answers(device, NVML)
    links = nvlinks(a, assumptions)
    cpu_words = a.numbers("cpu_affinity", "cpu_affinity")
    memory_words = a.numbers("memory_affinity", "mem_affinity")
    values: dict[str, Any] = {
        "minor": a.number("minor", "nvmlDeviceGetMinorNumber"),
        "uuid": a.text("uuid", "nvmlDeviceGetUUID"),
        "name": a.text("name", "nvmlDeviceGetName"),
        "serial": a.text("serial", "nvmlDeviceGetSerial"),
        "vbios": a.text("vbios", "nvmlDeviceGetVbiosVersion"),
        "board_id": a.number("board_id", "nvmlDeviceGetBoardId"),
        "board_part_number": a.text("board_part_number", "nvmlDeviceGetBoardPartNumber"),
        "module_id": a.number("module_id", "nvmlDeviceGetModuleId"),
        "architecture": a.word("architecture", ARCHITECTURES, "nvmlDeviceGetArchitecture"),
        "compute_capability": _capability(a),
        "core_count": a.number("core_count", "nvmlDeviceGetNumGpuCores"),
        "pci_id": _pci_id(device),
        "memory_bytes": a.number("memory_bytes", ("nvmlDeviceGetMemoryInfo", "total")),
        "memory_bus_bits": a.number("memory_bus_bits", "nvmlDeviceGetMemoryBusWidth"),
        "bar1_bytes": a.number("bar1_bytes", ("nvmlDeviceGetBAR1MemoryInfo", "bar1Total")),
        "pcie_gen_max": a.number("pcie_gen_max", "nvmlDeviceGetMaxPcieLinkGeneration"),
        "pcie_gen_max_device": a.number(
            "pcie_gen_max_device", "nvmlDeviceGetGpuMaxPcieLinkGeneration"
        ),
        "pcie_width_max": a.number("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth"),
        **_limits(a),
        **_modes(a, device),
        "memory_affinity": None if memory_words is None else bits(memory_words),
        "cpu_affinity": ranges(bits(cpu_words)) or None if cpu_words is not None else None,
        "gpu_numa_id": _numa_id(a),
        "c2c_enabled": a.flag("c2c_enabled", ("nvmlDeviceGetC2cModeInfoV", "isC2cEnabled")),
        "c2c_gbs": _c2c_gbs(a),
        "nvlinks": links,
        "fabric": fabric(a),
    }
    return Gpu(address=own, vendor="nvidia", index=index, gaps=a.gaps, **values)


def _limits(a: Answers) -> dict[str, Any]:
    """Limits of power, temperature and clocks."""
    watts = 0.001  # NVML counts milliwatts
    limits = "nvmlDeviceGetPowerManagementLimitConstraints"
    return {
        "power_limit_watts": a.scaled(
            "power_limit_watts", watts, "nvmlDeviceGetEnforcedPowerLimit"
        ),
        "power_limit_default_watts": a.scaled(
            "power_limit_default_watts", watts, "nvmlDeviceGetPowerManagementDefaultLimit"
        ),
        "power_limit_min_watts": _watts(a.number("power_limit_min_watts", (limits, 0))),
        "power_limit_max_watts": _watts(a.number("power_limit_max_watts", (limits, 1))),
        "temperature_shutdown_c": a.number("temperature_shutdown_c", "threshold0"),
        "temperature_slowdown_c": a.number("temperature_slowdown_c", "threshold1"),
        "temperature_memory_max_c": a.number("temperature_memory_max_c", "threshold2"),
        "temperature_gpu_max_c": a.number("temperature_gpu_max_c", "threshold3"),
        "clock_graphics_max_mhz": a.number("clock_graphics_max_mhz", "maxclock0"),
        "clock_sm_max_mhz": a.number("clock_sm_max_mhz", "maxclock1"),
        "clock_memory_max_mhz": a.number("clock_memory_max_mhz", "maxclock2"),
        "clock_video_max_mhz": a.number("clock_video_max_mhz", "maxclock3"),
    }


def _modes(a: Answers, device: dict[str, Raw]) -> dict[str, Any]:
    """How the GPU is set up: ECC, MIG, compute mode, and the like."""
    return {
        "ecc_enabled": a.flag("ecc_enabled", ("nvmlDeviceGetEccMode", 0)),
        "ecc_pending": a.flag("ecc_pending", ("nvmlDeviceGetEccMode", 1)),
        "mig_enabled": a.flag("mig_enabled", ("nvmlDeviceGetMigMode", 0)),
        "mig_pending": a.flag("mig_pending", ("nvmlDeviceGetMigMode", 1)),
        "mig_instances": tuple(_mig(item) for item in dicts(device.get("mig"))),
        "persistence": a.flag("persistence", "nvmlDeviceGetPersistenceMode"),
        "compute_mode": a.word("compute_mode", COMPUTE_MODES, "nvmlDeviceGetComputeMode"),
        "virtualization": a.word(
            "virtualization", VIRTUALIZATION, "nvmlDeviceGetVirtualizationMode"
        ),
        "gsp_firmware": a.text("gsp_firmware", "nvmlDeviceGetGspFirmwareVersion"),
    }


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts * 0.001


def _capability(a: Answers) -> str | None:
    value = a.get("compute_capability", "nvmlDeviceGetCudaComputeCapability")
    if isinstance(value, list) and len(value) == 2 and all(is_whole(n) for n in value):
        return f"{value[0]}.{value[1]}"
    if value is not None:
        a.miss("compute_capability", odd(value))
    return None


def _numa_id(a: Answers) -> int | None:
    number = a.number("gpu_numa_id", "nvmlDeviceGetNumaNodeId")
    if number is not None and number < 0:
        a.miss("gpu_numa_id", "the driver says unknown")
        return None
    return number


def _c2c_gbs(a: Answers) -> float | None:
    """Number of links times the MB/s of one, as NCCL computes it; no gap on boards without C2C."""
    mode = a.raw.get("nvmlDeviceGetC2cModeInfoV")
    asked = a if isinstance(mode, dict) and mode.get("isC2cEnabled") == 1 else Answers(a.raw, NVML)
    count = asked.number("c2c_gbs", (FIELDS, "NVML_FI_DEV_C2C_LINK_COUNT"))
    rate = asked.number("c2c_gbs", (FIELDS, "NVML_FI_DEV_C2C_LINK_GET_MAX_BW"))
    if count is None or rate is None:
        return None
    if not (0 < count <= _MAX_C2C_LINKS and 0 < rate <= _MAX_C2C_MBS):
        asked.miss("c2c_gbs", f"the driver says {count} links of {rate} MB/s")
        return None
    return count * rate / 1000


def _pci_id(device: dict[str, Raw]) -> str | None:
    """Device id in the high half, vendor in the low half: 0x233510de -> "10de:2335"."""
    pci = device.get("nvmlDeviceGetPciInfo", device.get("nvmlDeviceGetPciInfo_v3"))
    number = pci.get("pciDeviceId") if isinstance(pci, dict) else None
    if not is_whole(number) or not 0 < number < 0xFFFFFFFF:
        return None
    return f"{number & 0xFFFF:04x}:{number >> 16:04x}"


def _mig(raw: dict[str, Raw]) -> MigInstance:
    a = Answers(raw, NVML)
    index = raw.get("index")
    values: dict[str, Any] = {
        "uuid": a.text("uuid", "nvmlDeviceGetUUID"),
        "name": a.text("name", "nvmlDeviceGetName"),
        "gpu_instance": a.number("gpu_instance", "nvmlDeviceGetGpuInstanceId"),
        "compute_instance": a.number("compute_instance", "nvmlDeviceGetComputeInstanceId"),
        "memory_bytes": a.number("memory_bytes", ("nvmlDeviceGetMemoryInfo", "total")),
    }
    number = index if is_whole(index) and 0 <= index < 2**31 else 0
    return MigInstance(index=number, gaps=a.gaps, **values)


def _pairs(device: dict[str, Raw], own: str, addresses: dict[int, str | None]) -> list[GpuPair]:
    pairs = []
    for raw in dicts(device.get("pairs")):
        peer = raw.get("peer")
        other = addresses.get(peer) if is_whole(peer) else None
        if other is None or other == own:
            continue
        a = Answers(raw, NVML)
        p2p = raw.get("p2p")
        status = Answers(p2p, NVML)
        words: dict[str, Any] = {
            field: _status(status, field, str(n)) for n, field in enumerate(_P2P)
        }
        ancestor = a.word("ancestor", ANCESTORS, "ancestor")
        pairs.append(
            GpuPair(src=own, dst=other, ancestor=ancestor, gaps=a.gaps + status.gaps, **words)
        )
    return pairs


def _status(status: Answers, field: str, number: str) -> str | None:
    code = status.number(field, number)
    if code == P2P_STATUS_UNKNOWN:
        status.miss(field, "the driver says unknown")
        return None
    return None if code is None else word(P2P_STATUS, code)


def _software(raw: Raw) -> Software | None:
    if not isinstance(raw, dict) or not raw:
        return None
    a = Answers(raw, NVML)
    cuda = a.number(
        "cuda_driver", "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"
    )
    return Software(
        nvidia_driver=a.text("nvidia_driver", "nvmlSystemGetDriverVersion"),
        nvml=a.text("nvml", "nvmlSystemGetNVMLVersion"),
        # nvml.h, NVML_CUDA_DRIVER_VERSION_MAJOR and _MINOR: 12040 is 12.4.
        cuda_driver=None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
        confidential_computing=_confidential(a),
        gaps=a.gaps,
    )


def _confidential(a: Answers) -> str | None:
    name = "nvmlSystemGetConfComputeState"
    feature = a.number("confidential_computing", (name, "ccFeature"))
    if feature is None:
        return None
    state = a.raw.get(name)
    tools = isinstance(state, dict) and state.get("devToolsMode") == 1
    return word(CONFIDENTIAL, feature) + (" (developer tools allowed)" if tools else "")
