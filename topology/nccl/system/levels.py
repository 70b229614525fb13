"""Levels of distance: NCCL_P2P_LEVEL, NCCL_NET_GDR_LEVEL (graph/paths.cc:ncclGetLevel)."""

from typing import NamedTuple

from ..nodes import PathType
from ..settings import Settings, strtoll
from ..versions import Version

OLD_NUMBERS = ("LOC", "PIX", "PXB", "PHB", "SYS", "SYS")
"""What the digits 0 to 5 meant before levels had names; there is none for NVLink."""


class PathLevel(NamedTuple):
    """A level that the environment sets, or the reason why it sets none."""

    path: PathType | None
    name: str
    """The variable that decided; "" when none did."""
    value: str
    ignored: str
    """Why a value that is set has no effect; "" when it has one."""


def level(
    settings: Settings, version: Version, variable: str, disable: str | None = None
) -> PathLevel:
    """The level that the environment sets; names are case sensitive and end at SYS."""
    off = settings.text(disable) if disable else None
    if disable and off is not None and strtoll(off)[0] == 1:
        return PathLevel(PathType.LOC, disable, off, "")
    text = settings.text(variable)
    if text is None:
        return PathLevel(None, "", "", "")
    end = version.path_types.index("SYS")
    for known in version.path_types[: end + 1]:
        if text == version.path_names.get(known, known):
            return PathLevel(PathType[known], variable, text, "")
    if text[:1].isascii() and text[:1].isdigit():
        number = min(strtoll(text)[0], len(OLD_NUMBERS) - 1)
        return PathLevel(PathType[OLD_NUMBERS[number]], variable, text, "")
    return PathLevel(None, variable, text, _why_ignored(text, version))


def _why_ignored(text: str, version: Version) -> str:
    end = version.path_types.index("SYS")
    names = [version.path_names.get(name, name) for name in version.path_types[: end + 1]]
    if text.strip().upper() in names:
        return "the name must be written exactly, in capitals and without blanks"
    if text == "NVL":
        return f"{version.library.upper()} calls this level {version.path_names['NVL']}"
    return f"not a level: {' '.join(names)} or 0 to 4"
