"""What the driver requests: a reset of a GPU, a restart of the node, an end of all P2P.

A fault of the GPU's firmware leaves every counter at 0 and the GPU in every list, while no process
gets a context on it: the driver's own request is then the only sign (NVIDIA/DCGM#263).
"""

import msgspec

from ....hardware.vendors import NVIDIA
from ....model.finding import Finding
from ....model.gathered import gathered
from ....model.machine import Gpu
from ....model.page import Fix
from ....model.severity import BROKEN, SLOW, Severity
from ....sources.nvidia.recovery import BUS_OR_IMEX, FIELD, NONE
from ...case import Case
from ...rule import Found, Rule, needed

_GUIDE = "NVIDIA GPU Memory Error Management, Error Recovery and Response Flags"
_ASK_AGAIN = "nvidia-smi --query-gpu=index,gpu_recovery_action --format=csv"
_IMEX_SINCE = 590
"""Driver whose nvml.h no longer has the bus reset of driver 580."""


class _Request(msgspec.Struct, frozen=True):
    """One action: the state of the GPU, the consequence and the fix."""

    severity: Severity
    title: str
    """Followed by the names of the GPUs."""
    impact: str
    fix: str
    command: str = ""


_NO_CONTEXT = (
    "A process that starts on it is refused by CUDA (busy or unavailable) or fails, though the GPU "
    "is listed and its counters may look well."
)
_REBOOT = _Request(
    BROKEN,
    "the driver asks for a restart of the node because of",
    "The fault may have left the operating system itself in a state that is not sound: jobs on the "
    "node's other GPUs are at risk too.",
    "Drain the node and restart it.",
)
_UNKNOWN = _Request(
    SLOW,
    "the driver asks for an action that gputop does not know, to clear a fault of",
    "The driver saw a fault of the GPU; how it touches a job is not known here.",
    "Read what nvidia-smi of this driver's version calls the action.",
    _ASK_AGAIN,
)
_REQUESTS = {
    "reset": _Request(
        BROKEN,
        "the driver asks for a reset of",
        _NO_CONTEXT,
        "End every process on the GPU and reset it; in a guest, whoever runs the host may have to.",
        "nvidia-smi --gpu-reset -i {}",
    ),
    "bus reset": _Request(
        BROKEN,
        "the driver asks for a reset of the PCIe bus of",
        _NO_CONTEXT,
        "Drain the node. A reset of the GPU alone is not enough: have its PCIe bus reset, or "
        "restart the node cold.",
    ),
    "reboot": _REBOOT,
    "system reboot": _REBOOT,
    "drain P2P": _Request(
        BROKEN,
        "the driver asks that all traffic between GPUs ends because of",
        "A job over several GPUs runs into the fault. Only when no process copies between GPUs any "
        "more does the driver say what the GPU needs next.",
        "End every process that uses several GPUs, and ask the driver again.",
        _ASK_AGAIN,
    ),
    "drain and reset": _Request(
        SLOW,
        "the driver asks for a reset, once the jobs have ended, of",
        "The GPU works with less than it has: a part of its memory or some MIG instances are out "
        "of use. Jobs on it that were not hit may end in peace; NVIDIA asks to start no new ones.",
        "Place no new work on the GPU, wait until its jobs have ended, and reset it.",
        "nvidia-smi --gpu-reset -i {}",
    ),
    "recover IMEX domain": _Request(
        SLOW,
        "the driver asks that the IMEX domain is recovered, on",
        "A job on this host alone is not touched. One over several hosts of this NVLink domain "
        "fails, or takes the network instead.",
        "Look at the domain's state from any of its hosts, and restart the IMEX daemon on all.",
        "nvidia-imex-ctl -N",
    ),
    BUS_OR_IMEX: msgspec.structs.replace(_UNKNOWN, severity=BROKEN),
}


def _asked(case: Case) -> Found:
    read = needed(
        [
            (gpu, now.recovery_action)
            for gpu in case.gpus
            if (now := case.reading(gpu)) is not None and now.recovery_action is not None
        ]
    )
    asking = gathered((_meant(case, action), gpu) for gpu, action in read if action != NONE)
    return [_finding(case, action, gpus) for action, gpus in asking.items()]


def _meant(case: Case, action: str) -> str:
    """The same; where a number has two meanings, the driver's version decides if it is known."""
    software = case.machine.software
    major = (software.nvidia_driver or "").partition(".")[0] if software is not None else ""
    if action != BUS_OR_IMEX or not (major.isascii() and major.isdigit() and len(major) < 6):
        return action
    return "recover IMEX domain" if int(major) >= _IMEX_SINCE else "bus reset"


def _finding(case: Case, action: str, gpus: list[Gpu]) -> Finding:
    request = _REQUESTS.get(action, _UNKNOWN)
    numbers = ",".join(str(gpu.index) for gpu in gpus if gpu.index is not None)
    # With "{}" in it the command names GPUs; without their numbers it would reset all of them.
    command = request.command if numbers or "{}" not in request.command else ""
    return RECOVERY.finding(
        request.severity,
        f"{request.title} {case.names(gpus)}",
        devices=gpus,
        evidence=[
            (
                f"recovery action of {case.name(gpu)}",
                action,
                f"NVML {FIELD}; gpu_recovery_action of nvidia-smi",
            )
            for gpu in gpus
        ],
        impact=request.impact,
        fix=[
            Fix(
                text=request.fix,
                command=command.format(numbers),
                needs_root="--gpu-reset" in command,
            ),
            (
                "Read which fault it was: Xid 154 stands beside it where the action changed. "
                "# dmesg | grep -i xid | tail -n 20"
            ),
        ],
    )


RECOVERY = Rule(
    id="gpu-recovery-action",
    title="a reset, restart or drain that the driver asks for",
    evidence="the recovery action of each GPU (drivers from 565 on)",
    vendor=NVIDIA.id,
    disproof=f"`{_ASK_AGAIN}` with None for this GPU",
    sources=(_GUIDE, "NVIDIA Xid 154", "NVIDIA/DCGM#263", "nvml.h nvmlDeviceGpuRecoveryAction_t"),
    check=_asked,
    implied_by=("gpu-lost",),
)
RULES = (RECOVERY,)
