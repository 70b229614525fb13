"""What is above a PCI function: the ports and switches up to its root complex."""

from __future__ import annotations

from collections.abc import Mapping

from ..model.machine import Machine

CPU_ROOT = "cpu "
"""Beginning of the parent of a device whose host bridge is not known, only its NUMA node."""
DEEPEST = 256
"""Most levels of one PCI domain, which has so many bus numbers; a file may claim more."""


def chain(machine: Machine, address: str) -> tuple[str, ...]:
    """List what is above a PCI function, nearest first, the root complex ("pci0000:00") last.

    Empty when the function is not in the tree; without a root complex at its end when the tree
    has a hole.
    """
    return climb({device.address: device.parent for device in machine.pci}, address)


def climb(parents: Mapping[str, str], address: str) -> tuple[str, ...]:
    """List what is above `address` when `parents` says what is above each PCI function."""
    above: dict[str, None] = {}
    while len(above) < DEEPEST and (parent := parents.get(address)) and parent not in above:
        address = parent
        above[address] = None
    return tuple(above)


def numa_of_roots(machine: Machine) -> dict[str, int]:
    """Find the NUMA node of each root complex: that of the first device below which says one."""
    parents = {device.address: device.parent for device in machine.pci}
    found: dict[str, int] = {}
    for device in machine.pci:
        if device.numa_node is not None and (above := climb(parents, device.address)):
            found.setdefault(above[-1], device.numa_node)
    return found
