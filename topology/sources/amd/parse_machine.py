"""amdsmi's raw answers as records of the machine. The layout is that of amdsmi.py."""

from __future__ import annotations

import re
from collections import Counter

from ...hardware.amd_parts import package
from ...model.machine import Gpu, GpuCache, GpuPair, XgmiLink
from ...model.part import PartialNode, Raw
from ...model.record import NOT_ASKED
from ...model.snapshot import Problem, ProblemKind
from ...model.surroundings import Software
from ..files.answers import left_out, left_out_of, under
from ..files.fields import Fields, by, made, text, whole
from ..files.library_answers import Answers, Path, dicts, is_whole
from ..files.limits import HIGHEST_MEGAHERTZ
from ..pci.address import pci_address
from .answers import AMDSMI, clean, reason, refusal
from .caches import caches_of
from .failures import failed
from .links import seen_pairs, xgmi_of
from .possible import plausible
from .words import (
    ARCHITECTURES,
    ECC_MEMORY_BIT,
    LEAST_MICROWATTS,
    MIB,
    PCIE_GENERATIONS,
    VIRTUALIZATION,
    gfx_name,
)

MAX_DEVICES = 256
"""More GPUs than any node has; a recording is cut after so many."""
BDF = "amdsmi_get_gpu_device_bdf"
_ASIC = "amdsmi_get_gpu_asic_info"
_BOARD = "amdsmi_get_gpu_board_info"
_CAP = "amdsmi_get_power_cap_info"
_PCIE = "amdsmi_get_pcie_info"
_KFD = "amdsmi_get_gpu_kfd_info"
_TARGET = re.compile(r"gfx[0-9a-f]{3,6}", re.IGNORECASE)
_HEX = re.compile(r"(?:0x)?([0-9a-f]{1,8})", re.IGNORECASE)
_MODES = re.compile(r"(SPX|DPX|TPX|QPX|CPX)|(NPS[1248])")

_LEAST_WATTS, _MOST_WATTS = 5, 20_000
"""Powers that a board may take: no product is near either."""
_MICROWATTS_SINCE = 25
"""Major version of the library, ROCm 6.4, from which on no answer about power can be watts."""
_MAX_BLOCKS = 128
_BLOCK = ("fw_name", "fw_version")


def parse(raw: Raw) -> PartialNode:
    """Parse what the reader of `amdsmi` (or a recording) holds: GPUs, pairs, versions."""
    top = raw if isinstance(raw, dict) else {}
    listed = dicts(top.get("devices"))
    devices = [plausible(device) for device in listed[:MAX_DEVICES]]
    known = [(_index(device, place), address(device)) for place, device in enumerate(devices)]
    addresses = {index: own for index, own in known if own is not None}
    version = under(under(top.get("system"), "amdsmi_get_lib_version"), "major")
    modern = is_whole(version) and version >= _MICROWATTS_SINCE
    gpus: dict[str, Gpu] = {}
    pairs: list[GpuPair] = []
    problems: list[Problem] = []
    assumptions: list[str] = []
    packages = Counter(package(own) for own in addresses.values())
    nameless: dict[str, list[str]] = {}
    mute: dict[str, list[str]] = {}
    for device, (index, own) in zip(devices, known, strict=True):
        if own is None:
            why = refusal(device.get(BDF)) or "no PCI address in the answer"
            nameless.setdefault(why, []).append(f"GPU {index}")
        elif own in gpus:
            problems.append(_problem(f"two GPUs with the PCI address {own}"))
        else:
            seen = seen_pairs(device, own, addresses)
            split = packages[package(own)] > 1
            xgmi = xgmi_of(device, seen, assumptions)
            gpus[own] = _gpu(_Answers(device, modern=modern), own, index, xgmi, split=split)
            pairs += [peer.pair for peer in seen]
            if _all_refused(device):
                mute.setdefault(_first_reason(device), []).append(f"GPU {own}")
    for why, who in nameless.items():
        text = f"{_listed(who)}: amdsmi does not tell the PCI address ({why})"
        # Beside GPUs that answer, one without an address is a driver that fails.
        problems.append(_problem(text, "" if addresses else why))
    for why, who in mute.items():
        problems.append(_problem(f"{_listed(who)}: amdsmi refuses every question ({why})", why))
    described = zip((own for _, own in known), devices, strict=True)
    return PartialNode(
        gpus=tuple(gpus.values()),
        pairs=tuple({(pair.src, pair.dst): pair for pair in pairs}.values()),
        software=software(top.get("system"), devices),
        problems=(
            *problems,
            *failed("amdsmi", top.get("system"), described),
            *left_out_of("amdsmi", left_out("GPUs", listed, MAX_DEVICES)),
        ),
        assumptions=tuple(dict.fromkeys(assumptions)),
        origin="amdsmi",
    )


def address(device: dict[str, Raw]) -> str | None:
    """PCI address of a device of the raw answer; None when the driver does not give it.

    A part of a partitioned package has the address of the package with the number of the part in
    place of the function, as ROCm shows it.
    """
    return pci_address(device.get(BDF))


def _index(device: dict[str, Raw], place: int) -> int:
    index = device.get("index")
    return index if is_whole(index) and 0 <= index < 2**31 else place


def _problem(text: str, why: str = "") -> Problem:
    kind = ProblemKind.DENIED if why == "no permission" else ProblemKind.FAILED
    return Problem(source="amdsmi", kind=kind, text=text)


def _listed(names: list[str]) -> str:
    """Name some GPUs in one line, however many there are."""
    shown = ", ".join(names[:2])
    return shown if len(names) <= 2 else f"{shown} and {len(names) - 2} more"


def _all_refused(device: dict[str, Raw]) -> bool:
    asked = [name for name in device if name.startswith("amdsmi_") and name != BDF]
    return bool(asked) and all(refusal(device[name]) is not None for name in asked)


def _first_reason(device: dict[str, Raw]) -> str:
    answer = device.get(_ASIC)
    return reason(answer["error"]) if isinstance(answer, dict) and "error" in answer else "unknown"


class _Answers(Answers):
    """The answers of one GPU, by a library that is new enough to have no powers in watts or not."""

    def __init__(self, raw: dict[str, Raw], *, modern: bool) -> None:
        super().__init__(raw, AMDSMI)
        self.least_microwatts = 0 if modern else LEAST_MICROWATTS


def _gpu(
    answers: _Answers, own: str, index: int, xgmi: tuple[XgmiLink, ...], *, split: bool
) -> Gpu:
    part = answers.whole("partition", (_KFD, "current_partition_id"))
    target = _target(answers)
    if target not in ARCHITECTURES:
        why = f"no name for {target}" if target else "needs the gfx target"
        answers.gap("architecture", why)
    return GPU.read(
        answers,
        address=own,
        vendor="amd",
        index=index,
        architecture=ARCHITECTURES.get(target or ""),
        compute_capability=target,
        # Of a split package a container may show but one part.
        partition=str(part) if part or (split and part is not None) else None,
        parent=package(own) if part or split else None,
        xgmi=xgmi,
    )


def _target(a: Answers) -> str | None:
    """Read "gfx942"; a driver that does not know writes all ones behind the "gfx"."""
    text = a.text("compute_capability", (_ASIC, "target_graphics_version"))
    if text is None:
        return None
    text = gfx_name(text)
    if _TARGET.fullmatch(text) and text.lower() not in ("gfx000", "gfx0000"):
        return text.lower()
    a.gap("compute_capability", "the driver does not say")
    return None


def _pci_id(a: Answers) -> str | None:
    """Vendor and device, "0x1002" and "0x74a1"; ROCm 6.0 gives numbers."""
    found = []
    for name in ("vendor_id", "device_id"):
        value, _ = a.look((_ASIC, name))
        match = _HEX.fullmatch(value) if isinstance(value, str) else None
        number = int(match[1], 16) if match else value
        if is_whole(number) and 0 < number <= 0xFFFF:
            found.append(f"{number:04x}")
    if len(found) == 2:
        return ":".join(found)
    value, why = a.look((_ASIC, "device_id"))
    a.gap("pci_id", why or f"the driver says {value}"[:80])
    return None


def _memory(a: Answers) -> int | None:
    exact = a.whole("memory_bytes", ("amdsmi_get_gpu_memory_total(VRAM)",))
    if exact:
        return exact
    mib = a.whole("memory_bytes", ("amdsmi_get_gpu_vram_info", "vram_size"))
    return mib * MIB if mib else None


def _generation(a: Answers) -> int | None:
    """Generation from the rate of a lane; `pcie_interface_version` is a different number."""
    field = "pcie_gen_max"
    rate = a.whole(field, (_PCIE, "pcie_static", "max_pcie_speed"))
    return None if rate is None else generation(a, field, rate)


def generation(a: Answers, field: str, rate: int) -> int | None:
    """PCIe generation of a rate in MT/s."""
    found = PCIE_GENERATIONS.get(rate)
    if found is None:
        a.gap(field, f"no PCIe generation runs at {rate} MT/s")
    return found


def _watts(a: _Answers, field: str, name: str) -> float | None:
    cap = a.whole(field, (_CAP, name))
    if cap is None:
        return None
    watts = cap * 1e-6 if cap >= a.least_microwatts else float(cap)
    if name != "min_power_cap" and not _LEAST_WATTS <= watts <= _MOST_WATTS:
        a.gap(field, f"the driver says {cap}")
        return None
    return watts


def _limit(a: Answers, field: str, limit: str) -> int | None:
    """Limit of the junction (hot spot), the sensor by which MI GPUs throttle."""
    sensors = ("HOTSPOT", "EDGE")
    return _positive(a, field, *(f"amdsmi_get_temp_metric({s},{limit})" for s in sensors))


def _positive(a: Answers, field: str, *paths: Path) -> int | None:
    """Take a number of which there is always some: a 0 says nothing."""
    number = a.whole(field, *paths)
    if number == 0:
        a.gap(field, "the driver says 0")
        return None
    return number


def _clock(a: Answers, field: str, kind: str) -> int | None:
    clock = _positive(a, field, (f"amdsmi_get_clock_info({kind})", "max_clk"))
    if clock is not None and not HIGHEST_MEGAHERTZ[0] <= clock <= HIGHEST_MEGAHERTZ[1]:
        a.gap(field, f"the driver says {clock} MHz")
        return None
    return clock


def _ecc(a: Answers) -> bool | None:
    mask = a.whole("ecc_enabled", ("amdsmi_get_gpu_ecc_enabled",))
    return None if mask is None else bool(mask & ECC_MEMORY_BIT)


def _virtualization(a: Answers) -> str | None:
    mode = a.text("virtualization", ("amdsmi_get_gpu_virtualization_mode", "mode"))
    return None if mode is None else VIRTUALIZATION.get(mode, f"unknown ({mode})")


def _numa(a: Answers) -> int | None:
    answer, _ = a.look(("amdsmi_get_gpu_topo_numa_affinity",))
    if is_whole(answer) and answer < 0:
        a.gap("numa_node", "the driver knows no NUMA node")
        return None
    return a.whole("numa_node", ("amdsmi_get_gpu_topo_numa_affinity",))


def _mode(a: Answers, field: str, name: str) -> str | None:
    text = a.text(field, (name,))
    if text is None or _MODES.fullmatch(text.upper()):
        return text and text.upper()
    a.gap(field, f"unknown ({text[:40]})")
    return None


def _caches(a: Answers) -> tuple[GpuCache, ...]:
    listed, why = a.look(("amdsmi_get_gpu_cache_info",))
    found = caches_of(listed)
    if not found:
        a.gap("caches", why or "the driver names none beyond level 1")
    return found


def _hive(a: Answers) -> str | None:
    number = a.whole("xgmi_hive", ("amdsmi_get_xgmi_info", "xgmi_hive_id"))
    if number == 0:
        a.gap("xgmi_hive", "in no hive")
    return str(number) if number else None


# Versions of AMD's driver, of ROCm and of firmware from amdsmi's raw answers.
def software(raw: Raw, devices: list[dict[str, Raw]]) -> Software | None:
    """Read the versions; `raw` is what was asked about the system. None where nothing was asked."""
    if not devices and not isinstance(raw, dict):
        return None
    a = Answers(devices[0] if devices else {}, AMDSMI)
    driver = a.text("amd_driver", ("amdsmi_get_gpu_driver_info", "driver_version"))
    version = under(raw, "amdsmi_get_rocm_version")
    rocm = None
    if isinstance(version, list) and len(version) == 2 and version[0] is True:
        rocm = Answers({"it": version[1]}, AMDSMI).text("rocm", ("it",))
    if rocm is None:
        # The second item of a failure is its reason.
        why = version[1] if isinstance(version, list) and len(version) == 2 else None
        a.gap("rocm", clean(why)[:200] if isinstance(why, str) else refusal(version) or NOT_ASKED)
    return Software(amd_driver=driver, rocm=rocm, gaps=a.gaps)


def firmware(a: Answers) -> tuple[tuple[str, str], ...]:
    """Read the blocks of firmware of one GPU and their versions."""
    blocks, why = a.look(("amdsmi_get_fw_info", "fw_list"))
    found = {}
    for block in dicts(blocks)[:_MAX_BLOCKS]:
        name, version = (Answers({"it": block}, AMDSMI).text(key, ("it", key)) for key in _BLOCK)
        if name is not None and version is not None:
            found[name.removeprefix("AMDSMI_FW_ID_").removeprefix("FW_ID_")] = version
    if not found:
        a.gap("firmware", why or "the driver names none")
    return tuple(found.items())


_VBIOS = "amdsmi_get_gpu_vbios_info"
GPU = Fields(
    Gpu,
    uuid=text("amdsmi_get_gpu_device_uuid"),
    name=text((_ASIC, "market_name"), (_BOARD, "product_name")),
    serial=text((_BOARD, "product_serial")),
    vbios=text((_VBIOS, "version"), (_VBIOS, "part_number")),
    board_part_number=text((_BOARD, "model_number")),
    module_id=whole((_ASIC, "oam_id")),
    core_count=whole((_ASIC, "num_compute_units")),
    pci_id=made(_pci_id),
    memory_bytes=made(_memory),
    memory_bus_bits=whole(("amdsmi_get_gpu_vram_info", "vram_bit_width")),
    bar1_bytes=whole("amdsmi_get_gpu_memory_total(VIS_VRAM)"),
    pcie_gen_max=made(_generation),
    pcie_width_max=whole((_PCIE, "pcie_static", "max_pcie_width")),
    power_limit_watts=by(_watts, "power_cap"),
    power_limit_default_watts=by(_watts, "default_power_cap"),
    power_limit_min_watts=by(_watts, "min_power_cap"),
    power_limit_max_watts=by(_watts, "max_power_cap"),
    temperature_slowdown_c=by(_limit, "CRITICAL"),
    temperature_shutdown_c=by(_limit, "EMERGENCY"),
    temperature_memory_max_c=by(_positive, "amdsmi_get_temp_metric(VRAM,CRITICAL)"),
    clock_graphics_max_mhz=by(_clock, "GFX"),
    clock_memory_max_mhz=by(_clock, "MEM"),
    clock_video_max_mhz=by(_clock, "VCLK0"),
    ecc_enabled=made(_ecc),
    virtualization=made(_virtualization),
    numa_node=made(_numa),
    compute_partition=by(_mode, "amdsmi_get_gpu_compute_partition"),
    memory_partition=by(_mode, "amdsmi_get_gpu_memory_partition"),
    xgmi_hive=made(_hive),
    kfd_node=whole((_KFD, "node_id")),
    render_minor=whole(("amdsmi_get_gpu_enumeration_info", "drm_render")),
    caches=made(_caches),
    firmware=made(firmware),
)
