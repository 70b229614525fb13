"""Versions of AMD's driver, of ROCm and of firmware from amdsmi's raw answers."""

from __future__ import annotations

from ...model.part import Raw
from ...model.record import NOT_ASKED
from ...model.surroundings import Software
from ..files.library_answers import Answers, dicts
from .answers import AMDSMI, clean, refusal

_MAX_BLOCKS = 128
_BLOCK = ("fw_name", "fw_version")


def software(raw: Raw, devices: list[dict[str, Raw]]) -> Software | None:
    """Read the versions; `raw` is what was asked about the system. None where nothing was asked."""
    if not devices and not isinstance(raw, dict):
        return None
    a = Answers(devices[0] if devices else {}, AMDSMI)
    driver = a.text("amd_driver", ("amdsmi_get_gpu_driver_info", "driver_version"))
    version = raw.get("amdsmi_get_rocm_version") if isinstance(raw, dict) else None
    rocm = None
    if isinstance(version, list) and len(version) == 2 and version[0] is True:
        rocm = Answers({"it": version[1]}, AMDSMI).text("rocm", ("it",))
    if rocm is None:
        # The second item of a failure is its reason.
        why = version[1] if isinstance(version, list) and len(version) == 2 else None
        a.miss("rocm", clean(why)[:200] if isinstance(why, str) else refusal(version) or NOT_ASKED)
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
        a.miss("firmware", why or "the driver names none")
    return tuple(found.items())
