"""GPUs that are parts of one package, described alike whichever source names them.

amdsmi, amd-smi, rocm-smi and KFD give a part the address of its package, with the number of the
part in place of the function; the first part has the address of the package itself. amdsmi reports
the modes of a package only for its first part (ROCm/amdsmi issue 100).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..model.machine import Gpu
from ..model.record import by_address
from .vendors import AMD

PARTS_OF_MODE = {"DPX": 2, "TPX": 3, "QPX": 4}
"""Number of parts that a package shows up as; in CPX there is one for each XCD."""
PARTED = (*PARTS_OF_MODE, "CPX")
MODES = ("compute_partition", "memory_partition")


def package(address: str) -> str:
    """Address of the package that a part belongs to; a whole GPU is its own."""
    return f"{address[:-1]}0"


def numbered(gpus: Mapping[str, Gpu]) -> dict[str, Gpu]:
    """Give every part of a split AMD package its number, its parent and the package's modes.

    A package is split where its mode says so, where a source numbers a part of it, or where
    several GPUs share it; a container may show but one of its parts.
    """
    members: dict[str, list[Gpu]] = {}
    for gpu in gpus.values():
        if gpu.vendor == AMD.id and gpu.address[-2:-1] == "." and gpu.address[-1].isdigit():
            members.setdefault(package(gpu.address), []).append(gpu)
    found = dict(gpus)
    for parent, parts in members.items():
        modes = {mode: _first(parts, mode) for mode in MODES}
        split = len(parts) > 1 or modes["compute_partition"] in PARTED
        if split or any(part.partition not in (None, "0") for part in parts):
            found |= by_address(_part(part, parent, modes) for part in parts)
    return found


def _first(parts: list[Gpu], mode: str) -> str | None:
    known = (str(word) for part in parts if (word := getattr(part, mode)) is not None)
    return next(known, None)


def _part(gpu: Gpu, parent: str, modes: Mapping[str, str | None]) -> Gpu:
    known: dict[str, str | None] = {
        "partition": gpu.partition or gpu.address[-1],
        "parent": gpu.parent or parent,
    }
    known |= {mode: getattr(gpu, mode) or word for mode, word in modes.items()}
    gaps = tuple(gap for gap in gpu.gaps if known.get(gap.field) is None)
    return msgspec.structs.replace(gpu, **known, gaps=gaps)
