"""The NVSwitch fabric: registration and health of each GPU."""

from __future__ import annotations

from ....hardware.vendors import NVIDIA
from ....model.machine import Gpu
from ....model.severity import BROKEN, SLOW
from ...case import Case
from ...rule import Found, Rule, Step
from ...shared.fabric_words import GONE
from .fabric_manager import RESTART

_UNREADY = ("not started", "in progress")
UP = "completed"
_WELL = "Success"
_NO_TROUBLE = ("not supported", "none")
FABRIC_SOURCE = "NVML nvmlDeviceGetGpuFabricInfoV"
_BROKEN_BITS = ("route unhealthy", "access timeout recovery")
"""Fields of the health mask under which traffic over NVLink fails until the GPU is reset."""
_SLOW_BITS = ("degraded bandwidth", "route recovery in progress")
_RESET_FIRST = (
    "Reset the GPUs while nothing uses them; the fabric then sets their routes again. "
    "# nvidia-smi --gpu-reset"
)

_RESET = (
    "If that does not help, reset the GPUs while nothing uses them, or restart the node. "
    "# nvidia-smi --gpu-reset"
)


def _state(case: Case) -> Found:
    known = [gpu for gpu in case.gpus if gpu.fabric is not None and gpu.fabric.state is not None]
    if not known:
        return None
    bad = {gpu.address: word for gpu in known if (word := _unready(gpu)) is not None}
    if not bad:
        return []
    evidence = [
        (f"fabric of {case.name(address)}", word, FABRIC_SOURCE) for address, word in bad.items()
    ]
    if case.host.fabric_manager is not None:
        evidence.append(("fabric manager", case.host.fabric_manager, "/proc/*/comm"))
    return STATE.finding(
        BROKEN,
        f"not part of the NVSwitch fabric: {case.names(list(bad))}",
        devices=list(bad),
        evidence=evidence,
        impact=(
            "CUDA does not start on them (error 802, system not yet initialized), although "
            f"nvidia-smi looks healthy; {len(known) - len(bad)} of {len(known)} GPUs are ready."
        ),
        fix=[RESTART, *_fifth(case), _RESET],
    )


def _fifth(case: Case) -> list[Step]:
    """NVLink 5 boards have a subnet manager of their own, reached over InfiniBand's modules."""
    if not any(word in (gpu.name or "") for gpu in case.gpus for word in ("B200", "B300")):
        return []
    return [
        "This board's switches are managed through a NIC: see whether nvlsm runs, and load "
        "the modules that it needs. # pgrep -a nvlsm; modprobe -a mlx5_ib ib_umad"
    ]


def _unready(gpu: Gpu) -> str | None:
    """The problem of the registration; None where there is none."""
    fabric = gpu.fabric
    if fabric is None or fabric.status == GONE:
        return None  # the fabric is not at fault: see gpu-lost
    if fabric.state in _UNREADY:
        return fabric.state
    if fabric.state == UP and fabric.status not in (None, _WELL):
        return f"{fabric.state}, with the status {fabric.status}"
    return None


def _health(case: Case) -> Found:
    known = {
        gpu.address: gpu.fabric.health
        for gpu in case.gpus
        if gpu.fabric is not None and any(word != _NO_TROUBLE[0] for _, word in gpu.fabric.health)
    }
    if not known:
        return None
    troubles = {address: found for address, health in known.items() if (found := _trouble(health))}
    if not troubles:
        return []
    broken = any(severity == BROKEN for found in troubles.values() for _, _, severity in found)
    addresses = list(troubles)
    return HEALTH.finding(
        BROKEN if broken else SLOW,
        f"the NVSwitch fabric reports trouble on {case.names(addresses)}",
        devices=addresses,
        evidence=[
            (
                f"fabric health of {case.name(address)}, {what}",
                word,
                f"{FABRIC_SOURCE}, health mask",
            )
            for address, found in troubles.items()
            for what, word, _ in found
        ],
        impact=(
            "NVLink traffic of these GPUs fails or hangs until they are reset."
            if broken
            else "NVLink of these GPUs carries less than its full rate" + _full_rate(case)
        ),
        fix=[_RESET_FIRST, RESTART],
    )


def _trouble(health: tuple[tuple[str, str], ...]) -> list[tuple[str, str, str]]:
    """The problems in the mask: (field, word, severity)."""
    found: list[tuple[str, str, str]] = []
    for what, word in health:
        if (what in _BROKEN_BITS and word == "true") or (
            what == "incorrect configuration" and word not in _NO_TROUBLE
        ):
            found.append((what, word, BROKEN))
        elif what in _SLOW_BITS and word == "true":
            found.append((what, word, SLOW))
    summary = dict(health).get("summary")
    if not found and summary in ("unhealthy", "limited capacity"):
        found.append(("summary", summary, BROKEN if summary == "unhealthy" else SLOW))
    return found


def _full_rate(case: Case) -> str:
    rates = {
        sku.total_gbs for gpu in case.gpus if (sku := case.sku(gpu)) is not None and sku.total_gbs
    }
    return f" ({rates.pop():.0f} GB/s one way)." if len(rates) == 1 else "."


STATE = Rule(
    id="fabric-state",
    family="D03",
    title="GPUs that have not joined the NVSwitch fabric",
    evidence="state and status of each GPU's registration with the fabric",
    vendor=NVIDIA.id,
    disproof=(
        'Fabric "State: Completed, Status: Success" in `nvidia-smi -q`, or a partition of a '
        "shared NVSwitch that nobody has activated yet"
    ),
    sources=("pytorch/pytorch#35710", "Azure/azhpc-images#506", "nvml.h NVML_GPU_FABRIC_STATE_*"),
    check=_state,
    implied_by=("fabric-manager", "gpu-reset-required"),
)

HEALTH = Rule(
    id="fabric-health",
    family="D19",
    title="trouble in the health mask of the NVSwitch fabric",
    evidence="the health mask of each GPU's registration, its two-bit fields decoded",
    vendor=NVIDIA.id,
    disproof="a mask whose fields all say false or not supported: 0xaa is healthy, and so is 0",
    sources=("nvml.h NVML_GPU_FABRIC_HEALTH_MASK_*", "NVIDIA/nccl#2186"),
    check=_health,
)


RULES = (STATE, HEALTH)
