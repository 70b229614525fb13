"""Names of PCI vendors and devices from the system's copy of pci.ids."""

from __future__ import annotations

from collections.abc import Iterable

from ..files.tree import Tree, clean

PLACES = ("usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids", "usr/share/pci.ids")
LIMIT_BYTES = 8 * 1024 * 1024
"""The file has 1.5 MB; a longer one is not read to its end."""


def look_up(tree: Tree, ids: Iterable[tuple[str, str]]) -> dict[str, str] | None:
    """Names for (vendor, device) ids of four hex digits: {"10de": name, "10de:2335": name}.

    Only the wanted lines are looked at, so the large file costs about two milliseconds. An id
    that the file does not list is left out; None when there is no such file.
    """
    data = next((octets for place in PLACES if (octets := _octets(tree, place)) is not None), None)
    if data is None:
        return None
    found: dict[str, str] = {}
    wanted: dict[str, set[str]] = {}
    for vendor, device in ids:
        wanted.setdefault(vendor, set()).add(device)
    for vendor, devices in wanted.items():
        start = data.find(f"\n{vendor}  ".encode())
        if start < 0:
            continue
        found[vendor] = _rest(data, start + 7)
        end = _next_vendor(data, start + 1)
        for device in devices:
            line = data.find(f"\n\t{device}  ".encode(), start, end)
            if line >= 0:
                found[f"{vendor}:{device}"] = _rest(data, line + 8)
    return found


def _octets(tree: Tree, place: str) -> bytes | None:
    answer = tree.octets(place, 0, LIMIT_BYTES)
    # One newline in front, so that the first line is found like any other.
    return b"\n" + answer if isinstance(answer, bytes) else None


def _rest(data: bytes, start: int) -> str:
    end = data.find(b"\n", start)
    return clean(data[start : end if end >= 0 else len(data)]).strip()[:200]


def _next_vendor(data: bytes, start: int) -> int:
    """Position of the next line that is neither indented nor a comment."""
    position = data.find(b"\n", start)
    while 0 <= position < len(data) - 1:
        if data[position + 1 : position + 2] not in (b"\t", b"#", b"\n"):
            return position
        position = data.find(b"\n", position + 1)
    return len(data)
