"""What is above a PCI function: the ports and switches up to its root complex."""

from __future__ import annotations

from collections.abc import Mapping

CPU_ROOT = "cpu "
"""Beginning of the parent of a device whose host bridge is not known, only its NUMA node."""
DEEPEST = 256
"""Most levels of one PCI domain, which has so many bus numbers; a file may claim more."""


def climb(parents: Mapping[str, str], address: str) -> tuple[str, ...]:
    """List what is above `address` when `parents` says what is above each PCI function.

    Empty where it is not in the tree; without a root complex at its end where the tree has a hole.
    """
    above: dict[str, None] = {}
    while len(above) < DEEPEST and (parent := parents.get(address)) and parent not in above:
        address = parent
        above[address] = None
    return tuple(above)
