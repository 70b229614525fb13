"""What lines say of NVSwitches, on boards that have none: no fault of this machine."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ...hardware.specs import BoardLinks, sku_for
from ...model.finding import Finding
from ...model.machine import Gpu
from ...model.page import Fix
from ...model.severity import CANNOT_TELL, NOTICE, Sureness

SERVICE = ("fabric-manager-failed", "fabric-manager-version", "fabric-manager-idle")
"""Findings about the service that sets up NVSwitches."""
FABRIC = (
    "cuda-802", "nvls-multicast-failed", "nvls-not-available", "nvswitch-error", "nvswitch-fatal",
)  # fmt: skip
"""Findings that say or imply that a fabric of NVSwitches is at fault."""
OFF = "no NVSwitch: leave it off, systemctl disable --now nvidia-fabricmanager (administrator)"
ELSEWHERE = "find out which machine printed these lines: hostname, nvidia-smi -L beside them"
SECURE = (
    "These GPUs have no NVSwitch, so no fabric manager can be the reason. The lines are of another "
    "machine, or another thing holds the GPUs back: in a confidential guest they start only once "
    "nvidia-smi conf-compute -srs 1 has set them ready."
)
_DESK = re.compile(r"GeForce|Quadro|TITAN|Tesla [KMPT]\d|\bGTX\b|RTX (?:A?\d|PRO)")
"""Products for desks, and data centre cards, that no board joins by NVSwitches."""
_ABOUT = re.compile(r"(?i)nvswitch|fabric manager")
_WITHOUT = (BoardLinks.NONE, BoardLinks.BRIDGE)


def without_switches(findings: Sequence[Finding], gpus: Sequence[Gpu]) -> list[Finding]:
    """The findings, where those about NVSwitches blame nothing on GPUs that have none."""
    if not gpus or not all(map(_alone, gpus)):
        return list(findings)
    product = " and ".join(sorted({gpu.name or "" for gpu in gpus}))
    return [_unblamed(one, product) for one in findings]


def _alone(gpu: Gpu) -> bool:
    """Whether a GPU is known to be of a board without NVSwitches."""
    sku = sku_for(gpu)
    return sku.fabric in _WITHOUT if sku else _DESK.search(gpu.name or "") is not None


def _unblamed(one: Finding, product: str) -> Finding:
    if one.id in SERVICE:
        return msgspec.structs.replace(
            one,
            severity=NOTICE,
            title=f"The fabric manager has nothing to do: {product} has no NVSwitch",
            cause="The service manages NVSwitches. A machine without them does not need it.",
            fix=(Fix(text=OFF),),
            candidates=(),
            sureness=Sureness.CERTAIN,
        )
    if one.id not in FABRIC:
        possible = tuple(other for other in one.candidates if not _ABOUT.search(other.cause))
        return msgspec.structs.replace(one, candidates=possible or one.candidates)
    said = one.evidence[0].value if one.evidence else one.title
    return msgspec.structs.replace(
        one,
        severity=CANNOT_TELL,
        title=f"{product} has no NVSwitch, so these words have another cause: {said}",
        impact="" if not one.impact else SECURE,
        cause=SECURE,
        fix=(Fix(text=ELSEWHERE),),
        candidates=(),
        sureness=Sureness.POSSIBLE,
    )
