"""Text of `lstopo -`, `lstopo-no-graphics` or `hwloc-ls`: NUMA nodes, CPUs, PCI devices by place.

hwloc 2 prints PCI addresses; hwloc 1 prints ids alone, which name no device.
"""

from __future__ import annotations

import re

from ....model.format import FormatError, text_format
from ....model.part import PartialNode, Raw
from ....sources.pci.address import pci_address
from .hwloc import HwlocTree
from .pci_words import CLASSES

TOOL = "lstopo"
_OBJECT = re.compile(
    r"(?P<kind>Machine|Package|Socket|NUMANode|Group\d?|L\d[di]?|L\d(?:Cache)?|Die|Core|PU|HostBridge|"
    r"PCIBridge)(?: L#\d{1,5})?(?: \((?:P#(?P<number>\d{1,5})\b)?[^)]{0,80}\))?"
)
_PCI = re.compile(
    r"PCI (?:L#\d{1,4} \(busid=)?((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
    r"(?: \((\w{1,12})\))?"
)
_NAMED = re.compile(
    r"(?:CoProc|GPU|Net|Network|OpenFabrics|Block|DMA|Misc)\b[^\"\n]{0,30}\"([\w.-]{1,60})\""
)
_CLASSES = {
    "3D": CLASSES["3D controller"],
    "VGA": CLASSES["VGA compatible controller"],
    "Display": CLASSES["Display controller"],
    "Ethernet": CLASSES["Ethernet controller"],
    "InfiniBand": CLASSES["Infiniband controller"],
    "NVMExp": CLASSES["Non-Volatile memory controller"],
    "NVMe": CLASSES["Non-Volatile memory controller"],
    "CoProc": CLASSES["Processing accelerators"],
}


def _parse(lines: list[str]) -> PartialNode:
    tree = HwlocTree(TOOL)
    seen = False
    for line in lines:
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        if text.startswith("Machine"):
            if seen:
                break  # the tree of another moment
            seen = True
        if not seen or depth > 400:
            continue
        if device := _PCI.match(text):
            said: dict[str, Raw] = {}
            if device[2] in _CLASSES:
                said["class"] = f"0x{_CLASSES[device[2]]:06x}"
            own = device[1] if device[1].count(":") == 2 else f"0000:{device[1]}"
            tree.enter(depth, "PCIDev", address=pci_address(own) or "", said=said)
        elif name := _NAMED.match(text):
            tree.enter(depth, "OSDev", name=name[1])
        else:
            for place, piece in enumerate(text.split(" + ")[:16]):
                if found := _OBJECT.match(piece):
                    _object(tree, depth + place / 32, found)
    if not seen:
        raise FormatError("no line of the machine in it")
    return tree.part()


def _object(tree: HwlocTree, depth: float, found: re.Match[str]) -> None:
    kind = "Package" if found["kind"] == "Socket" else found["kind"]
    number = int(found["number"]) if found["number"] else None
    if kind == "Package" and number is None:
        digits = re.search(r"L#(\d{1,5})", found[0])
        number = int(digits[1]) if digits else None
    tree.enter(depth, kind, number=number)  # its sizes are rounded: 252GB


_STARTS = re.compile(
    r"(?m)^[ \t]*Machine (?:L#\d{1,3} )?\((?:P#\d{1,3} )?[^)\n]{0,60}(?:total|B\b)"
)
FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=_STARTS,
    needs=("Machine (", "Machine L#"),
    goes_on=re.compile(
        r"[ \t]*(?:Package|Socket|NUMANode|Group\d?|L\d|Die|Core|PU|HostBridge|PCIBridge|PCI|GPU|"
        r"CoProc|Net|Network|OpenFabrics|Block|DMA|Misc|Machine|depth|Special)\b"
    ),
    yields=True,
)
