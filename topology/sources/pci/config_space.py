"""The few registers of PCI config space that sysfs does not spell out.

Register layout: PCI Express Base Specification, the names as in Linux pci_regs.h.
"""

from __future__ import annotations

from ...model.part import Raw
from ..files.tree import Tree

CAPABILITY_POINTER = 0x34
PCI_EXPRESS = 0x10
"""Id of the PCI Express capability; bits 7:4 of its flags at +2 are the device/port type."""
EXTENDED_START = 0x100
ACS = 0x000D
"""Id of the extended capability Access Control Services; its control register is at +6."""
HEADER_BYTES = 256
NO_ROOT = "config space needs root"


def capabilities(tree: Tree, folder: str) -> dict[str, Raw]:
    """Give "acs" and, where it can be read, "port_type", shaped as in the source's raw answer."""
    path = f"{folder}/config"
    head = tree.octets(path, 0, HEADER_BYTES)
    if not isinstance(head, bytes):
        return {} if head.kind == "absent" else {"acs": {"error": head.why}}
    if len(head) < HEADER_BYTES:
        # Without CAP_SYS_ADMIN the kernel hands out the first 64 bytes alone.
        return {"acs": {"error": NO_ROOT}}
    found: dict[str, Raw] = {}
    express = _express(head)
    if express is not None:
        found["port_type"] = str(head[express + 2] >> 4)
    found["acs"] = _acs(tree, path)
    return found


def _express(head: bytes) -> int | None:
    """Offset of the PCI Express capability in the first 256 bytes."""
    position = head[CAPABILITY_POINTER] & 0xFC
    for _ in range(48):  # a broken chain may be a ring
        if position < 0x40 or position + 3 >= HEADER_BYTES:
            return None
        if head[position] == PCI_EXPRESS:
            return position
        position = head[position + 1] & 0xFC
    return None


def _acs(tree: Tree, path: str) -> Raw:
    position = EXTENDED_START
    for _ in range(96):
        header = tree.octets(path, position, 4)
        if not isinstance(header, bytes):
            return {"error": header.why}
        value = int.from_bytes(header, "little")
        if len(header) < 4 or value in (0, 0xFFFFFFFF):
            # Nothing there at all: conventional PCI, or extended space is out of reach.
            return (
                ""
                if position > EXTENDED_START or value == 0
                else {"error": "extended config space is out of reach"}
            )
        if value & 0xFFFF == ACS:
            control = tree.octets(path, position + 6, 2)
            if isinstance(control, bytes) and len(control) == 2:
                return f"0x{int.from_bytes(control, 'little'):04x}"
            return {"error": "the ACS register could not be read"}
        position = value >> 20 & 0xFFC
        if position < EXTENDED_START:
            return ""
    return {"error": "the list of capabilities does not end"}
