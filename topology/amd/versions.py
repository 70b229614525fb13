"""Versions of AMD's driver and of ROCm, out of amdsmi's raw answers."""

from __future__ import annotations

from ..machine import Software
from ..record import NOT_ASKED
from ..sources.source import Raw
from .answers import Answers, clean, refusal


def software(raw: Raw, devices: list[dict[str, Raw]]) -> Software | None:
    """Read the versions; `raw` is what was asked about the system. None where nothing was asked."""
    if not devices and not isinstance(raw, dict):
        return None
    a = Answers(devices[0] if devices else {})
    driver = a.text("amd_driver", ("amdsmi_get_gpu_driver_info", "driver_version"))
    version = raw.get("amdsmi_get_rocm_version") if isinstance(raw, dict) else None
    rocm = None
    if isinstance(version, list) and len(version) == 2 and version[0] is True:
        rocm = Answers({"it": version[1]}).text("rocm", ("it",))
    if rocm is None:
        # The second item of a failure is its reason.
        why = version[1] if isinstance(version, list) and len(version) == 2 else None
        a.miss("rocm", clean(why)[:200] if isinstance(why, str) else refusal(version) or NOT_ASKED)
    return Software(amd_driver=driver, rocm=rocm, gaps=a.gaps())
