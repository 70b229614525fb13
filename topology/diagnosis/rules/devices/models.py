"""GPUs of one node that are not alike: models, firmware, settings."""

import re
from collections import Counter
from collections.abc import Sequence

from ....hardware.vendors import AMD, NVIDIA, vendors_of
from ....model.machine import Gpu
from ....model.severity import CANNOT_TELL, NOTICE, SLOW
from ... import vendors
from ...case import Case
from ...rule import Found, Proof, Rule, faulty, needed

_SETTINGS = (
    ("power_limit_watts", "power limit", " W", "nvmlDeviceGetEnforcedPowerLimit"),
    ("clock_sm_max_mhz", "highest SM clock", " MHz", "nvmlDeviceGetMaxClockInfo"),
    ("clock_memory_max_mhz", "highest memory clock", " MHz", "nvmlDeviceGetMaxClockInfo"),
    ("ecc_enabled", "ECC", "", "nvmlDeviceGetEccMode"),
)
_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SLOWING = ("power_limit_watts", "clock_sm_max_mhz", "clock_memory_max_mhz")
"""Settings whose lowest value sets the pace of a job over all GPUs."""
_ALIKE = 0.95
"""A limit of at least this share of another costs nothing visible: siblings differ by 5 %."""
_FIRMWARE = (
    ("vbios", "VBIOS", "nvmlDeviceGetVbiosVersion"),
    ("gsp_firmware", "GSP firmware", "nvmlDeviceGetGspFirmwareVersion"),
)


def _groups(gpus: Sequence[Gpu], field: str) -> dict[object, list[Gpu]]:
    """GPUs by the value of a field; those without a value are left out."""
    found: dict[object, list[Gpu]] = {}
    for gpu in gpus:
        value = getattr(gpu, field)
        if value is not None:
            found.setdefault(value, []).append(gpu)
    return found


def _odd(groups: dict[object, list[Gpu]]) -> list[Gpu]:
    """The GPUs that differ from the majority; all GPUs if no value is the most frequent."""
    ranked = Counter({value: len(gpus) for value, gpus in groups.items()}).most_common()
    if len(ranked) > 1 and ranked[0][1] == ranked[1][1]:
        return [gpu for gpus in groups.values() for gpu in gpus]
    return [gpu for value, gpus in groups.items() if value != ranked[0][0] for gpu in gpus]


def _evidence(
    case: Case, groups: dict[object, list[Gpu]], what: str, unit: str, source: str
) -> list[Proof]:
    return [
        (f"{what} of {case.names(gpus)}", f"{_written(value)}{unit}", vendors.source(gpus, source))
        for value, gpus in groups.items()
    ]


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def _mixed(case: Case) -> Found:
    groups = needed(_groups(case.gpus, "name"))
    if len(groups) < 2:
        return []
    counted = ", ".join(f"{len(gpus)} {name}" for name, gpus in groups.items())
    return MIXED.finding(
        NOTICE,
        f"different GPU models in one node: {counted}",
        devices=[gpu.address for gpus in groups.values() for gpu in gpus],
        evidence=_evidence(case, groups, "model", "", "NVML nvmlDeviceGetName, amd-smi"),
        impact=_over_both(case),
        fix=[
            vendors.step(
                case.gpus,
                "Let a job see one model only.",
                nvidia=f"export CUDA_VISIBLE_DEVICES={_largest(groups)}",
            )
        ],
    )


def _over_both(case: Case) -> str:
    made = vendors_of(case.gpus)
    if len(made) > 1:
        joined = ", ".join(
            f"{vendor.library} {vendor.name}'s"
            if place
            else f"{vendor.library} joins {vendor.name}'s alone"
            for place, vendor in enumerate(vendor for vendor in made if vendor.known)
        )
        return (
            f"No job runs over GPUs of two vendors{': ' if joined else ''}{joined}. What is "
            "counted for the whole node holds for neither."
        )
    return (
        "A job over both models waits for the slower one and has the smaller memory; "
        f"{case.words.library} may find no fast path between them."
    )


def _largest(groups: dict[object, list[Gpu]]) -> str:
    """UUIDs of the most frequent model. A command to copy holds only proper UUIDs."""
    uuids = [gpu.uuid or "" for gpu in max(groups.values(), key=len)]
    return ",".join(uuids) if all(_UUID.fullmatch(uuid) for uuid in uuids) else "UUID,UUID"


def _models(case: Case) -> list[list[Gpu]]:
    """Whole GPUs of one model, where there are at least two of it."""
    whole = [gpu for gpu in case.gpus if gpu.partition is None]
    return [gpus for gpus in _groups(whole, "name").values() if len(gpus) > 1]


def _settings(case: Case) -> Found:
    models = _models(case)
    needed({name for gpus in models for name, *_ in _SETTINGS if _groups(gpus, name)})
    found = []
    for gpus in models:
        full, untouched = all(map(_full, gpus)), all(map(_untouched, gpus))
        for name, what, unit, call in _SETTINGS:
            watts = name == "power_limit_watts"
            groups = _groups(gpus, name)
            if len(groups) < 2:
                continue
            odd = [gpu.address for gpu in _odd(groups)]
            values = [value for value in groups if isinstance(value, int | float)]
            alike = min(values, default=0.0) >= _ALIKE * max(values, default=0.0)
            slows = name in _SLOWING and not alike and not (watts and full)
            found.append(
                SETTINGS.finding(
                    SLOW if slows else NOTICE,
                    f"{what}: {case.names(odd)} unlike the other GPUs",
                    devices=odd,
                    evidence=_evidence(case, groups, what, unit, f"NVML {call}"),
                    impact=_consequence(groups, unit)
                    if slows or (watts and not alike)
                    else "Ranks of one job meet different conditions on GPUs that look alike.",
                    fix=["Each has the limit that its board came with: none was changed."]
                    if watts and untouched
                    else [
                        vendors.step(
                            gpus,
                            "Give all GPUs of one model the same setting.",
                            nvidia="nvidia-smi -q -d POWER,CLOCK,ECC",
                            amd="amd-smi static",
                        )
                    ],
                )
            )
    return found


def _full(gpu: Gpu) -> bool:
    """Whether its power limit is hardly lowered: boards of one name have several limits."""
    usual = gpu.power_limit_default_watts
    return bool(usual) and (gpu.power_limit_watts or 0.0) >= _ALIKE * (usual or 0.0)


def _untouched(gpu: Gpu) -> bool:
    """Whether its power limit is exactly the default one."""
    now, usual = gpu.power_limit_watts, gpu.power_limit_default_watts
    return now is not None and usual is not None and abs(now - usual) < 1.0


def _consequence(groups: dict[object, list[Gpu]], unit: str) -> str:
    values = sorted(value for value in groups if isinstance(value, int | float))
    return (
        f"A job over all of them runs at the pace of {values[0]:.0f}{unit} "
        f"where others have {values[-1]:.0f}{unit}."
    )


def _firmware(case: Case) -> Found:
    # Boards of one name have different firmware if their part numbers differ.
    alike = [
        gpus
        for model in _models(case)
        for gpus in _groups(model, "board_part_number").values() or [model]
        if len(gpus) > 1
    ]
    if not any(_groups(gpus, name) for gpus in alike for name, *_ in _FIRMWARE):
        return None
    return [
        FIRMWARE.finding(
            NOTICE,
            f"{what}: {case.names(odd)} unlike the other GPUs",
            devices=odd,
            evidence=_evidence(case, groups, what, "", f"NVML {call}"),
            impact="Clocks, fan curves and fixed faults may differ between them.",
            fix=["Bring all boards to one firmware with the vendor's tool."],
        )
        for gpus in alike
        for name, what, call in _FIRMWARE
        if len(groups := _groups(gpus, name)) > 1 and (odd := [g.address for g in _odd(groups)])
    ]


MIXED = Rule(
    id="gpu-models-mixed",
    title="different GPU models in one node",
    evidence="the name of each GPU",
    disproof="one name in {asked}",
    asked=((NVIDIA.id, "`nvidia-smi -L`"), (AMD.id, "`amd-smi list`")),
    sources=("NCCL src/graph/paths.cc: P2P read and bandwidth by compute capability",),
    check=_mixed,
)
SETTINGS = Rule(
    id="gpu-settings-differ",
    title="settings that differ between GPUs of one model",
    evidence="power limits, highest clocks and ECC of GPUs of one model",
    disproof="the same values in `nvidia-smi -q` for all of them",
    disproof_by=((AMD.id, "the same values in `amd-smi static` for all of them"),),
    sources=("azurehpc-health-checks", "google cluster-health-scanner configcheck"),
    check=_settings,
    implied_by=("power-limit-low", "ecc-off"),
)
FIRMWARE = Rule(
    id="gpu-firmware-mixed",
    title="firmware that differs between boards of one kind",
    evidence="VBIOS and GSP firmware of boards with one part number",
    disproof="one version in `nvidia-smi -q` for all of them",
    disproof_by=((AMD.id, "one version in `amd-smi firmware` for all of them"),),
    sources=("NVIDIA NVML API: nvmlDeviceGetVbiosVersion, nvmlDeviceGetGspFirmwareVersion",),
    check=_firmware,
)
_INTEGRATED = re.compile(r"nvgpu", re.IGNORECASE)
"""The driver of Jetson's GPU, which nvidia-smi prints behind its name."""


def _check_integrated(case: Case) -> Found:
    inside = faulty([gpu for gpu in case.gpus if _INTEGRATED.search(gpu.name or "")])
    return INTEGRATED.finding(
        CANNOT_TELL,
        f"{case.names(inside)} is a part of its processor, as in a Jetson ({inside[0].name}): "
        "gputop does not support it",
        devices=inside,
        evidence=[("name of the GPU", inside[0].name or "", case.source)],
        impact="It has no PCIe, no NVLink and no memory of its own, and its driver leaves most "
        "values out: N/A there is no fault. Nothing is known of its health.",
        fix=["Watch it with the tool of its own. $ tegrastats"],
    )


INTEGRATED = Rule(
    id="gpu-integrated",
    family="D12",
    title="GPUs that are a part of their processor",
    evidence="the names of the GPUs",
    vendor=NVIDIA.id,
    disproof="a PCI address of the GPU in `lspci`",
    sources=("dusty-nv/jetson-containers#1403", "NVIDIA Jetson Linux developer guide, tegrastats"),
    check=_check_integrated,
)
RULES = (INTEGRATED, SETTINGS, MIXED, FIRMWARE)
