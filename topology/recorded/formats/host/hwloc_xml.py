"""XML of hwloc (`lstopo topo.xml`), versions 1 and 2: NUMA nodes, CPUs and the PCI tree."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree.ElementTree import Element

from ....model.format import Format
from ....model.part import PartialNode, Raw
from ....sources.files.limited_xml import read_xml
from ....sources.pci.address import pci_address
from .hwloc import MOST_CPUS, HwlocTree

TOOL = "hwloc's XML"
MAX_DEPTH = 128
_SIGN = re.compile(rb"<!DOCTYPE topology SYSTEM \"hwloc|<topology[^>]{0,200}>\s*<object type=\"")
_TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]")
_ROOT = re.compile(r"([0-9a-f]{4,8}):\[([0-9a-f]{2})-")
_WORD = re.compile(r"0x[0-9a-f]{1,8}\Z")
_KINDS = {"Socket": "Package"}


def _recognises(head: bytes, path: Path) -> bool:
    return _SIGN.search(head) is not None


def _parse(data: bytes, path: Path) -> PartialNode:
    tree = HwlocTree(TOOL)
    for element in read_xml(data, "topology", MAX_DEPTH).findall("object"):
        _walk(tree, element, 0, "")
    return tree.part()


def _walk(tree: HwlocTree, element: Element, depth: int, root: str) -> None:
    kind = element.get("type", "")
    kind = _KINDS.get(kind, kind)
    address = pci_address(element.get("pci_busid")) or ""
    if kind == "Bridge" and not address:
        found = _ROOT.match(element.get("bridge_pci", ""))
        root = f"pci{found[1]}:{found[2]}" if found else root
    number = element.get("os_index", "")
    memory = element.get("local_memory", "")
    tree.enter(
        depth,
        kind,
        number=int(number) if number.isdecimal() and len(number) < 6 else None,
        memory=int(memory) if memory.isdecimal() and len(memory) < 16 else None,
        cpus=_members(element.get("cpuset", "")) if kind == "NUMANode" else frozenset(),
        address=address,
        said=_said(element, kind, root) if address else {},
        name=element.get("name", "")[:60] if kind == "OSDev" else "",
    )
    for child in element.findall("object"):
        _walk(tree, child, depth + 1, root)


def _said(element: Element, kind: str, root: str) -> dict[str, Raw]:
    said: dict[str, Raw] = {}
    if code := _TYPE.match(element.get("pci_type", "")):
        said = {"class": f"0x{code[1]}00", "vendor": f"0x{code[2]}", "device": f"0x{code[3]}"}
    if kind == "Bridge":
        said["class"] = "0x060400"
    return said | {"root": root} if root else said


def _members(mask: str) -> frozenset[int]:
    """CPUs of "0x000000ff,0xffffffff": words of 32 bits, the highest first; empty ones left out."""
    words = mask.split(",")
    if len(words) > MOST_CPUS // 32 or not all(word == "" or _WORD.match(word) for word in words):
        return frozenset()
    return frozenset(
        place * 32 + bit
        for place, word in enumerate(reversed(words))
        if word
        for bit in range(32)
        if int(word, 16) >> bit & 1
    )


FORMAT = Format(id=TOOL, recognises=_recognises, parse=_parse)
