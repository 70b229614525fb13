"""Whether ECC is on, and whether that is about to change."""

from __future__ import annotations

from ....hardware.vendors import NVIDIA
from ....model.severity import NOTICE
from ...case import Case
from ...rule import Found, Rule
from ...shared.gpu_lists import selected

_GUIDE = "NVIDIA GPU Memory Error Management"
_DESKTOP = ("GeForce", "RTX", "TITAN")
"""Parts of names of boards that come with ECC switched off, or without."""


def _ecc_pending(case: Case) -> Found:
    known = [gpu for gpu in case.gpus if None not in (gpu.ecc_enabled, gpu.ecc_pending)]
    if not known:
        return None
    gpus = [gpu for gpu in known if gpu.ecc_enabled != gpu.ecc_pending]
    if not gpus:
        return []
    return ECC_PENDING.finding(
        NOTICE,
        f"a change of ECC waits for a reset of {case.names(gpus)}",
        devices=gpus,
        evidence=[
            (
                f"ECC of {case.name(gpu)}",
                f"{_on(gpu.ecc_enabled)} now, {_on(gpu.ecc_pending)} after a reset",
                "NVML nvmlDeviceGetEccMode",
            )
            for gpu in gpus
        ],
        impact="After the next reset or restart the GPU differs from what it is now.",
        fix=[f"Reset the GPU when nothing uses it. # nvidia-smi --gpu-reset{selected(gpus)}"],
    )


def _on(state: bool | None) -> str:
    return "on" if state else "off"


def _ecc_off(case: Case) -> Found:
    boards = [
        gpu
        for gpu in case.gpus
        if gpu.ecc_enabled is not None
        and gpu.vendor == NVIDIA.id
        and case.sku(gpu) is not None
        and not any(word in (gpu.name or "") for word in _DESKTOP)
    ]
    if not boards:
        return None
    gpus = [gpu for gpu in boards if not gpu.ecc_enabled]
    if not gpus:
        return []
    return ECC_OFF.finding(
        NOTICE,
        f"ECC is off on {case.names(gpus)}",
        devices=gpus,
        evidence=[(f"ECC of {case.name(gpu)}", "off", "NVML nvmlDeviceGetEccMode") for gpu in gpus],
        impact="A flipped bit in memory goes unnoticed: results or weights are wrong.",
        fix=["Switch ECC on; it takes effect at the next reset. # nvidia-smi -e 1"],
    )


ECC_PENDING = Rule(
    id="ecc-pending",
    title="a change of ECC that waits for a reset",
    evidence="the current and the pending ECC mode",
    vendor=NVIDIA.id,
    disproof="`nvidia-smi -q -d ECC` with the same mode twice",
    sources=("NVIDIA NVML API: nvmlDeviceGetEccMode",),
    check=_ecc_pending,
)
ECC_OFF = Rule(
    id="ecc-off",
    title="data-centre boards with ECC off",
    evidence="the ECC mode and the model",
    vendor=NVIDIA.id,
    disproof="`nvidia-smi -q -d ECC` with ECC Mode Current: Enabled",
    sources=(_GUIDE,),
    check=_ecc_off,
)
RULES = (ECC_OFF, ECC_PENDING)
