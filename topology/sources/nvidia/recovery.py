"""The action that the driver asks for to clear a fault: by NVML and by nvidia-smi."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..files.library_answers import Answers
from ..files.printed import Printed
from .answers import FIELDS, RECOVERY_FIELDS
from .words import word

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

FIELD = "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"
"""Drivers since 565 answer it; it replaces the reset flags of drivers before 580."""
NONE = "none"
BUS_OR_IMEX = "bus reset or recover IMEX domain"
"""5 was a bus reset in the nvml.h of driver 580, left out in 590 and is an IMEX domain in 610."""
ACTIONS = {
    0: NONE,
    1: "reset",
    2: "reboot",
    3: "drain P2P",
    4: "drain and reset",
    5: BUS_OR_IMEX,
    6: "bus reset",
    7: "system reboot",
}
"""NVML_GPU_RECOVERY_ACTION_* of nvml.h, in nvidia-smi's words."""
_PRINTED = {action.lower(): action for action in ACTIONS.values()} | {
    "gpu reset": "reset",
    "node reboot": "reboot",
    "recover imex domain": "recover IMEX domain",
}
_RECORD = "recovery_action"


def answered(a: Answers) -> str | None:
    """The action in a device's answers; None and a gap where the driver did not say."""
    asked = isinstance(a.raw.get(RECOVERY_FIELDS), dict)
    number = a.whole(_RECORD, (RECOVERY_FIELDS if asked else FIELDS, FIELD))
    return None if number is None else word(ACTIONS, number)


def printed(v: Printed, element: Element) -> str | None:
    """The action in one <gpu> of `nvidia-smi -q -x`."""
    path = "gpu_recovery_action"
    # "None" is an answer here; elsewhere nvidia-smi prints it where it has none.
    if (element.findtext(path) or "").strip().lower() == NONE:
        return NONE
    return v.word(_RECORD, _PRINTED, path)
