"""PCI addresses in one spelling, that of the kernel."""

from __future__ import annotations

from functools import lru_cache

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
    domain, _, rest = text.lower().partition(":")
    bus, _, slot = rest.partition(":")
    device, _, function = slot.partition(".")
    parts = (domain, bus, device, function or "0")
    if not all(part.isascii() and part.isalnum() and len(part) <= 8 for part in parts):
        return None
    try:
        numbers = [int(part, 16) for part in parts]
    except ValueError:
        return None
    # All ones means that the driver hides the device (a virtual machine hides the NVSwitch).
    if numbers[0] >= 0xFFFFFFF or numbers[1] > 0xFF or numbers[2] > 0x1F or numbers[3] > 7:
        return None
    return f"{numbers[0]:04x}:{numbers[1]:02x}:{numbers[2]:02x}.{numbers[3]}"
