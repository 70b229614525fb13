"""NVML's raw answers as records of the machine. The layout is described in nvml.py."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import msgspec

from ...model.machine import Fabric, Gpu, GpuPair, MigInstance, NvLink
from ...model.part import PartialNode, Raw
from ...model.record import GRANTED, REFUSED, Gap
from ...model.snapshot import Problem, ProblemKind
from ...model.surroundings import Software
from ..files.answers import left_out, left_out_of, under
from ..files.fields import Fields, by, flag, made, scaled, text, whole
from ..files.fields import word as named
from ..files.library_answers import Answers, dicts, is_whole, wrong_shape
from ..pci.address import pci_address
from .answers import FIELDS, NVML, UNKNOWN_32, reason, refusal
from .failures import failed, of_links
from .possible import plausible
from .words import (
    ANCESTORS,
    ARCHITECTURES,
    COMPUTE_MODES,
    CONFIDENTIAL,
    FABRIC_STATES,
    FABRIC_SUMMARIES,
    NVLINK_REMOTES,
    NVLINK_VERSIONS,
    P2P_STATUS,
    P2P_STATUS_UNKNOWN,
    RETURNS,
    VIRTUALIZATION,
    bits,
    fabric_health,
    ranges,
    word,
)

MAX_DEVICES = 256
"""More GPUs than any node has; a recording is cut after this many."""
_MAX_C2C_LINKS, _MAX_C2C_MBS = 64, 10**7

_MAX_LINKS = 64
_SPEED = "NVML_FI_DEV_NVLINK_GET_SPEED"
_INACTIVE = "the link is not active"


def parse(raw: Raw) -> PartialNode:
    """Parse what the reader of `nvml` (or nvml.json) holds: GPUs, pairs, versions."""
    top = raw if isinstance(raw, dict) else {}
    listed = dicts(top.get("devices"))
    described = [(address(d), d) for d in map(plausible, listed[:MAX_DEVICES])]
    addresses = {_index(device, place): own for place, (own, device) in enumerate(described)}
    gpus: dict[str, Gpu] = {}
    pairs: list[GpuPair] = []
    problems: list[Problem] = []
    assumptions: list[str] = []
    for place, (own, device) in enumerate(described):
        index = _index(device, place)
        if own is None:
            problems.append(unknown_device(device, index))
        elif own in gpus:
            problems.append(Problem(source="nvml", text=f"two GPUs with the PCI address {own}"))
        else:
            gpus[own] = _gpu(device, own, index, assumptions)
            pairs += _pairs(device, own, addresses)
    answered = [(own, device, of_links(device.get("links"))) for own, device in described]
    return PartialNode(
        gpus=with_refusals(tuple(gpus.values()), pairs),
        pairs=tuple({(pair.src, pair.dst): pair for pair in pairs}.values()),
        software=_software(top.get("system")),
        problems=(
            *problems,
            *failed("nvml", top.get("system"), answered),
            *left_out_of("nvml", left_out("GPUs", listed, MAX_DEVICES)),
        ),
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
    # The number by which it was opened is true, whatever the driver answers when it is asked.
    index = device.get("index", device.get("nvmlDeviceGetIndex"))
    return index if is_whole(index) and 0 <= index < 2**31 else place


def unknown_device(device: dict[str, Raw], index: int, source: str = "nvml") -> Problem:
    """A GPU that the driver counts but does not open or identify."""
    if "lost" in device:
        text = f"GPU {index}: the driver has lost it ({reason(str(device['lost']))})"
        return Problem(source=source, kind=ProblemKind.LOST, text=text, devices=(f"nvml:{index}",))
    why = str(device.get("refused") or refusal(device.get("nvmlDeviceGetPciInfo")) or "no address")
    kind = ProblemKind.DENIED if "NoPermission" in why else ProblemKind.FAILED
    text = f"GPU {index}: the driver does not open it ({reason(why)})"
    return Problem(source=source, kind=kind, text=text, devices=(f"nvml:{index}",))


def _gpu(device: dict[str, Raw], own: str, index: int, assumptions: list[str]) -> Gpu:
    answers = Answers(device, NVML)
    links = nvlinks(answers, assumptions)
    return GPU.read(answers, address=own, vendor="nvidia", index=index, nvlinks=links)


def _capability(answers: Answers, field: str) -> str | None:
    value = answers.get(field, "nvmlDeviceGetCudaComputeCapability")
    if isinstance(value, list) and len(value) == 2 and all(is_whole(n) for n in value):
        return f"{value[0]}.{value[1]}"
    if value is not None:
        answers.gap(field, wrong_shape(value))
    return None


def _at_least_zero(answers: Answers, field: str, name: str) -> int | None:
    number = answers.whole(field, name)
    if number is not None and number < 0:
        answers.gap(field, "the driver says unknown")
        return None
    return number


def _memory_affinity(answers: Answers, field: str) -> tuple[int, ...] | None:
    words = answers.numbers(field, "mem_affinity")
    return None if words is None else bits(words)


def _cpu_affinity(answers: Answers, field: str) -> str | None:
    words = answers.numbers(field, "cpu_affinity")
    return None if words is None else ranges(bits(words)) or None


def _c2c_gbs(a: Answers, field: str) -> float | None:
    """Number of links times the MB/s of one, as NCCL computes it; no gap on boards without C2C."""
    mode = a.raw.get("nvmlDeviceGetC2cModeInfoV")
    asked = a if isinstance(mode, dict) and mode.get("isC2cEnabled") == 1 else Answers(a.raw, NVML)
    count = asked.whole(field, (FIELDS, "NVML_FI_DEV_C2C_LINK_COUNT"))
    rate = asked.whole(field, (FIELDS, "NVML_FI_DEV_C2C_LINK_GET_MAX_BW"))
    if count is None or rate is None:
        return None
    if not (0 < count <= _MAX_C2C_LINKS and 0 < rate <= _MAX_C2C_MBS):
        asked.gap(field, f"the driver says {count} links of {rate} MB/s")
        return None
    return count * rate / 1000


def _pci_id(answers: Answers) -> str | None:
    """Device id in the high half, vendor in the low half: 0x233510de -> "10de:2335"."""
    pci = answers.raw.get("nvmlDeviceGetPciInfo", answers.raw.get("nvmlDeviceGetPciInfo_v3"))
    number = under(pci, "pciDeviceId")
    if not is_whole(number):
        return None
    if not 0 < number < UNKNOWN_32:
        answers.gap("pci_id", f"the driver says {number}")
        return None
    return f"{number & 0xFFFF:04x}:{number >> 16:04x}"


def _mig_instances(answers: Answers) -> tuple[MigInstance, ...]:
    return tuple(_mig(raw) for raw in dicts(answers.raw.get("mig")))


def _mig(raw: dict[str, Raw]) -> MigInstance:
    index = raw.get("index")
    number = index if is_whole(index) and 0 <= index < 2**31 else 0
    return MIG_INSTANCE.read(Answers(raw, NVML), index=number)


def _pairs(device: dict[str, Raw], own: str, addresses: dict[int, str | None]) -> list[GpuPair]:
    pairs = []
    for raw in dicts(device.get("pairs")):
        peer = raw.get("peer")
        other = addresses.get(peer) if is_whole(peer) else None
        if other is None or other == own:
            continue
        answers = Answers(raw, NVML)
        ancestor = answers.word("ancestor", ANCESTORS, "ancestor")
        status = Answers(raw.get("p2p"), NVML)
        pair = P2P.read(status, src=own, dst=other, ancestor=ancestor)
        gaps = answers.gaps + pair.gaps
        pairs.append(msgspec.structs.replace(pair, gaps=gaps) if answers.gaps else pair)
    return pairs


def _status(status: Answers, field: str, number: str) -> str | None:
    code = status.whole(field, number)
    if code == P2P_STATUS_UNKNOWN:
        status.gap(field, "the driver says unknown")
        return None
    return None if code is None else word(P2P_STATUS, code)


def _software(raw: Raw) -> Software | None:
    return SOFTWARE.read(Answers(raw, NVML)) if isinstance(raw, dict) and raw else None


def _cuda(answers: Answers, field: str) -> str | None:
    names = "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"
    version = answers.whole(field, *names)
    # nvml.h, NVML_CUDA_DRIVER_VERSION_MAJOR and _MINOR: 12040 is 12.4.
    return None if version is None else f"{version // 1000}.{version % 1000 // 10}"


def _confidential(a: Answers) -> str | None:
    name = "nvmlSystemGetConfComputeState"
    feature = a.whole("confidential_computing", (name, "ccFeature"))
    if feature is None:
        return None
    state = a.raw.get(name)
    tools = isinstance(state, dict) and state.get("devToolsMode") == 1
    return word(CONFIDENTIAL, feature) + (" (developer tools allowed)" if tools else "")


# Links that the driver denies although something else that it says shows them.
def with_refusals(gpus: tuple[Gpu, ...], pairs: Iterable[GpuPair]) -> tuple[Gpu, ...]:
    """Mark a "Not Supported" as doubtful where the GPU, or another of its model, has links.

    Seen on H200 (driver 580.159): beside a running job for one of four, at the first call after a
    boot for both of two.
    """
    linked = {gpu.name for gpu in gpus if gpu.nvlinks and gpu.name is not None}
    granted = {end for pair in pairs if pair.p2p_nvlink == "ok" for end in (pair.src, pair.dst)}
    return tuple(
        _doubted(gpu, REFUSED if gpu.name in linked else GRANTED)
        if (gpu.name in linked or gpu.address in granted) and not (gpu.nvlinks or gpu.mig_enabled)
        else gpu
        for gpu in gpus
    )


def _doubted(gpu: Gpu, why: str) -> Gpu:
    gaps = (
        Gap(gap.field, f"{gap.why}, {why}") if gap.field == "nvlinks" else gap for gap in gpu.gaps
    )
    return msgspec.structs.replace(gpu, gaps=tuple(gaps))


def nvlinks(a: Answers, assumptions: list[str]) -> tuple[NvLink, ...]:
    """The links that exist on this GPU, active or not; where there are none, the gap says why."""
    entries = dicts(a.raw.get("links"))[:_MAX_LINKS]
    links: dict[int, NvLink] = {}
    for entry in entries:
        number = entry.get("link")
        if is_whole(number) and 0 <= number < _MAX_LINKS and "state" in entry:
            links[number] = _link(entry, number, a, assumptions)
    if not links:
        why = next((refusal(entry) for entry in entries if "error" in entry), None)
        a.gap("nvlinks", why or refusal(a.raw.get("links")) or "the driver lists no link")
    return tuple(links[number] for number in sorted(links))


def _link(raw: dict[str, Raw], number: int, device: Answers, assumptions: list[str]) -> NvLink:
    answers = Answers(raw, NVML)
    active = answers.flag("active", "state")
    version = _version(answers)
    speed = _speed(answers, active, device, assumptions)
    return NVLINK.read(answers, link=number, active=active, version=version, raw_gbs=speed)


def _version(a: Answers) -> str | None:
    number = a.whole("version", "version")
    if number == 0:  # NVML_NVLINK_VERSION_INVALID
        a.gap("version", "the driver says invalid")
        return None
    return None if number is None else word(NVLINK_VERSIONS, number)


def _speed(
    a: Answers, active: bool | None, device: Answers, assumptions: list[str]
) -> float | None:
    """Return 26.562 for 26562: the field counts MB/s of signalling, one way."""
    if active is False:
        a.gap("raw_gbs", _INACTIVE)
        return None
    fields = a.raw.get("fields")
    if isinstance(fields, dict):
        mbps = a.whole("raw_gbs", (FIELDS, _SPEED))
    else:
        # A recording that asked without a link scope holds one value for the whole GPU.
        mbps = Answers(device.raw, NVML).whole("raw_gbs", (FIELDS, _SPEED))
        if mbps is None:
            a.gap("raw_gbs", "not asked")
        else:
            assumptions.append(
                "NVLink rate: the recording holds one value a GPU; taken for each active link"
            )
    if mbps is not None and mbps <= 0:
        a.gap("raw_gbs", "the driver says 0")
        return None
    return None if mbps is None else mbps / 1000


def _remote(a: Answers) -> str | None:
    pci = a.get("remote_address", "remote_pci")
    if pci is None:
        return None
    text = under(pci, "busId")
    found = pci_address(text)
    if found is None:
        hidden = isinstance(text, str) and text.upper().startswith("FFFFFFF")
        a.gap("remote_address", "the driver hides it" if hidden else wrong_shape(pci))
    return found


def _remote_kind(a: Answers) -> str | None:
    number = a.whole("remote_kind", "remote_type")
    if number == 0xFF:  # NVML_NVLINK_DEVICE_TYPE_UNKNOWN
        a.gap("remote_kind", "the driver hides it")
        return None
    return None if number is None else word(NVLINK_REMOTES, number)


def _remote_link(a: Answers) -> int | None:
    field = "NVML_FI_DEV_NVLINK_REMOTE_NVLINK_ID"
    number = a.whole("remote_link", (FIELDS, field))
    if number is not None and _remote(Answers(a.raw, NVML)) is None:
        # A virtual machine: every link names 0 there (seen on four H200, driver 580.159).
        a.gap("remote_link", "the driver hides the other end")
        return None
    return number


def fabric(device: Answers) -> Fabric | None:
    """Decode the registration with the NVSwitch fabric; None and a gap when there is no answer."""
    raw = device.get("fabric", "fabric")
    if raw is None:
        return None
    if not isinstance(raw, dict):
        device.gap("fabric", wrong_shape(raw))
        return None
    a = Answers(raw, NVML)
    state = a.word("state", FABRIC_STATES, "state")
    if state in (None, "not supported"):
        return Fabric(state=state, gaps=a.gaps)
    mask = a.whole("health_mask", "healthMask")
    if mask is not None and not 0 <= mask < 2**32:
        a.gap("health_mask", "not understood")
        mask = None
    health = () if mask is None else fabric_health(mask)
    summary = raw.get("healthSummary")
    if is_whole(summary):
        health = (("summary", word(FABRIC_SUMMARIES, summary)), *health)
    return Fabric(
        state=state,
        status=a.word("status", RETURNS, "status"),
        cluster_uuid=_cluster(a),
        clique_id=a.whole("clique_id", "cliqueId"),
        health_mask=mask,
        health=health,
        gaps=a.gaps,
    )


def _cluster(a: Answers) -> str | None:
    """Sixteen bytes as a UUID; all zero is normal on a single HGX board."""
    value = a.get("cluster_uuid", "clusterUuid")
    whole = isinstance(value, list) and all(is_whole(n) and 0 <= n < 256 for n in value)
    if whole and len(value) == 16:
        return str(uuid.UUID(bytes=bytes(value)))
    if value is not None:
        a.gap("cluster_uuid", wrong_shape(value))
    return None


MIG_INSTANCE = Fields(
    MigInstance,
    uuid=text("nvmlDeviceGetUUID"),
    name=text("nvmlDeviceGetName"),
    gpu_instance=whole("nvmlDeviceGetGpuInstanceId"),
    compute_instance=whole("nvmlDeviceGetComputeInstanceId"),
    memory_bytes=whole(("nvmlDeviceGetMemoryInfo", "total")),
)
NVLINK = Fields(
    NvLink,
    remote_address=made(_remote),
    remote_kind=made(_remote_kind),
    remote_link=made(_remote_link),
    p2p_capable=flag("cap0"),
)
P2P = Fields(  # in the order of NVML_P2P_CAPS_INDEX_*
    GpuPair,
    p2p_read=by(_status, "0"),
    p2p_write=by(_status, "1"),
    p2p_nvlink=by(_status, "2"),
    p2p_atomics=by(_status, "3"),
    p2p_pci=by(_status, "4"),
)
SOFTWARE = Fields(
    Software,
    cuda_driver=by(_cuda),
    nvidia_driver=text("nvmlSystemGetDriverVersion"),
    nvml=text("nvmlSystemGetNVMLVersion"),
    confidential_computing=made(_confidential),
)
_MILLI = 0.001
"""NVML counts milliwatts."""
_LIMITS = "nvmlDeviceGetPowerManagementLimitConstraints"
GPU = Fields(
    Gpu,
    cpu_affinity=by(_cpu_affinity),
    memory_affinity=by(_memory_affinity),
    minor=whole("nvmlDeviceGetMinorNumber"),
    uuid=text("nvmlDeviceGetUUID"),
    name=text("nvmlDeviceGetName"),
    serial=text("nvmlDeviceGetSerial"),
    vbios=text("nvmlDeviceGetVbiosVersion"),
    board_id=whole("nvmlDeviceGetBoardId"),
    board_part_number=text("nvmlDeviceGetBoardPartNumber"),
    module_id=whole("nvmlDeviceGetModuleId"),
    architecture=named(ARCHITECTURES, "nvmlDeviceGetArchitecture"),
    compute_capability=by(_capability),
    core_count=whole("nvmlDeviceGetNumGpuCores"),
    pci_id=made(_pci_id),
    memory_bytes=whole(("nvmlDeviceGetMemoryInfo", "total")),
    memory_bus_bits=whole("nvmlDeviceGetMemoryBusWidth"),
    bar1_bytes=whole(("nvmlDeviceGetBAR1MemoryInfo", "bar1Total")),
    pcie_gen_max=whole("nvmlDeviceGetMaxPcieLinkGeneration"),
    pcie_gen_max_device=whole("nvmlDeviceGetGpuMaxPcieLinkGeneration"),
    pcie_width_max=whole("nvmlDeviceGetMaxPcieLinkWidth"),
    power_limit_watts=scaled(_MILLI, "nvmlDeviceGetEnforcedPowerLimit"),
    power_limit_default_watts=scaled(_MILLI, "nvmlDeviceGetPowerManagementDefaultLimit"),
    power_limit_min_watts=scaled(_MILLI, (_LIMITS, 0)),
    power_limit_max_watts=scaled(_MILLI, (_LIMITS, 1)),
    temperature_shutdown_c=whole("threshold0"),
    temperature_slowdown_c=whole("threshold1"),
    temperature_memory_max_c=whole("threshold2"),
    temperature_gpu_max_c=whole("threshold3"),
    clock_graphics_max_mhz=whole("maxclock0"),
    clock_sm_max_mhz=whole("maxclock1"),
    clock_memory_max_mhz=whole("maxclock2"),
    clock_video_max_mhz=whole("maxclock3"),
    ecc_enabled=flag(("nvmlDeviceGetEccMode", 0)),
    ecc_pending=flag(("nvmlDeviceGetEccMode", 1)),
    mig_enabled=flag(("nvmlDeviceGetMigMode", 0)),
    mig_pending=flag(("nvmlDeviceGetMigMode", 1)),
    mig_instances=made(_mig_instances),
    persistence=flag("nvmlDeviceGetPersistenceMode"),
    compute_mode=named(COMPUTE_MODES, "nvmlDeviceGetComputeMode"),
    virtualization=named(VIRTUALIZATION, "nvmlDeviceGetVirtualizationMode"),
    gsp_firmware=text("nvmlDeviceGetGspFirmwareVersion"),
    gpu_numa_id=by(_at_least_zero, "nvmlDeviceGetNumaNodeId"),
    c2c_enabled=flag(("nvmlDeviceGetC2cModeInfoV", "isC2cEnabled")),
    c2c_gbs=by(_c2c_gbs),
    fabric=made(fabric),
)
