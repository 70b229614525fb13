"""PCI addresses in one spelling, that of the kernel."""

from __future__ import annotations

import re
from functools import lru_cache

_HEX = r"(0x[0-9a-f]{1,6}|[0-9a-f]{1,8})"
_PARTS = re.compile(rf"{_HEX}:{_HEX}:{_HEX}(?:\.{_HEX}?)?")
_LONGEST = 40
"""Longer than any address; a file may hold other texts where one should be."""


def pci_address(text: object) -> str | None:
    """Write "00000000:00:06.0" as the kernel does, "0000:00:06.0"; None for anything else."""
    if not isinstance(text, str):
        return None
    text = text.strip()
    return _as_the_kernel(text) if len(text) <= _LONGEST else None


@lru_cache(2048)
def _as_the_kernel(text: str) -> str | None:
    # A reading names the same addresses each second, one for each link.
    found = _PARTS.fullmatch(text.lower())
    if found is None:
        return None
    numbers = [int(part or "0", 16) for part in found.groups()]
    # All ones means that the driver hides the device (a virtual machine hides the NVSwitch).
    if numbers[0] >= 0xFFFFFFF or numbers[1] > 0xFF or numbers[2] > 0x1F or numbers[3] > 7:
        return None
    return f"{numbers[0]:04x}:{numbers[1]:02x}:{numbers[2]:02x}.{numbers[3]}"
