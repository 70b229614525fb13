"""Text of `lspci`: the tree of -t, the blocks of -v to -vvv and -nn, or a plain list, together.

The blocks of bridges with their numbers of buses give the tree too, so -vvv alone shows who shares
a switch. ACS controls are in -vvv of root alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ....model.format import Format, FormatError
from ....model.machine import PciDevice, UnnamedAcs
from ....model.part import Part, Raw
from ....model.record import Gap
from ....model.surroundings import Host
from ....sources.pci.devices import BRIDGES
from ....sources.pci.devices import parse as parse_devices
from .pci_blocks import ADDRESS, HEAD, NUMBERS, read_blocks, read_controls
from .pci_tree import BRANCH, ROOT, Leaf, read_tree
from .pci_words import CLASSES, NO_CLASS, bare_metal, class_by_name, named

TOOL = "lspci"
NOT_SAID = "not in lspci's text"
ROOT_NEEDED = "lspci shows it to root alone: sudo lspci -vvv"
_BRIDGE = f"0x{CLASSES['PCI bridge']:06x}"
_HOST_BRIDGE = f"0x{CLASSES['Host bridge']:06x}"
_MAX_BYTES = 16 * 1024 * 1024
_MAX_DEPTH = 64
_HOST_FIELDS = ("hostname", "kernel", "container", "memory_bytes", "shm_bytes", "memlock_bytes")
_NO_ADDRESS = "lines of lspci without addresses: which devices they are about is not known"


def _recognises(head: bytes, path: Path) -> bool:
    return _STARTS.search(head.decode("utf-8", "replace")) is not None


def _parse(data: bytes, path: Path) -> Part:
    if len(data) > _MAX_BYTES:
        raise FormatError(f"{len(data)} bytes; the limit is {_MAX_BYTES}")
    text = data.decode("utf-8", "replace")
    lines = text.split("\n")
    tree = read_tree(lines)
    blocks = read_blocks(line for line in lines if not _IN_TREE.match(line))
    if not tree and not blocks:
        return _without_addresses(read_controls(lines))
    raw = _raw(tree, blocks)
    found = parse_devices(raw)
    names = [name for device in raw["devices"].values() if (name := device.get("text"))]
    placed = _placed(raw["devices"])
    pci = tuple(
        _named(device, raw["devices"][device.address], placed=device.address in placed)
        for device in found.pci
    )
    return msgspec.structs.replace(found, pci=pci, host=_host(names))


def _without_addresses(controls: Sequence[tuple[str, ...]]) -> Part:
    """What `lspci -vvv | grep ACSCtl` leaves of the devices: their controls, in their order."""
    if not controls:
        raise FormatError("no device in it")
    listed = (UnnamedAcs(place=place, acs=acs) for place, acs in enumerate(controls, 1))
    return Part(unnamed_acs=tuple(listed), assumptions=(_NO_ADDRESS,))


def _raw(tree: Mapping[str, Leaf], blocks: Mapping[str, dict[str, Raw]]) -> dict[str, Raw]:
    """What tree and blocks say, as the source pci would have read it."""
    devices: dict[str, dict[str, Raw]] = {address: dict(said) for address, said in blocks.items()}
    parents = {address: leaf.parent for address, leaf in tree.items()}
    for address, parent in _by_buses(devices).items():
        parents.setdefault(address, parent)
    for address, leaf in tree.items():
        device = devices.setdefault(address, {})
        if leaf.name and "name" not in device:
            vendor, number, name = named(leaf.name)
            device.setdefault("class", f"0x{class_by_name(leaf.name):06x}")
            device.update({"name": name, "text": leaf.name})
            if vendor is not None:
                device.setdefault("vendor", f"0x{vendor:04x}")
            if number is not None:
                device.setdefault("device", f"0x{number:04x}")
    bridges = set(parents.values())
    for address, device in devices.items():
        if address in bridges and int(device.get("class", "0x0"), 16) in (0, NO_CLASS):
            device["class"] = _BRIDGE
        if address in parents:
            device["path"] = _path(address, parents)
        if device.get("denied"):
            device["acs"] = {"error": ROOT_NEEDED}
        elif device.get("verbose") and "acs" not in device:
            device["acs"] = "" if "max_link_speed" in device else {"error": NOT_SAID}
    return {"absent": NOT_SAID, "devices": devices, "names": {}}


def _by_buses(devices: Mapping[str, Mapping[str, Raw]]) -> dict[str, str]:
    """The bridge above each device, from the numbers of the buses below every bridge."""
    above: dict[str, str] = {}
    for address, device in devices.items():
        if buses := device.get("buses"):
            above.setdefault(f"{address.split(':')[0]}:{buses[0]:02x}", address)
    if not above:
        return {}
    found = {}
    for address in devices:
        domain, bus, _ = address.split(":")
        parent = above.get(f"{domain}:{bus}")
        if parent is not None and parent != address:
            found[address] = parent
    return found


def _path(address: str, parents: Mapping[str, str]) -> str:
    """The place in the tree as sysfs writes it."""
    steps = [address]
    while (above := parents.get(steps[-1])) is not None and above not in steps:
        steps.append(above)
        if len(steps) > _MAX_DEPTH:
            break
    if not steps[-1].startswith("pci"):
        steps.append(f"pci{steps[-1][:-5]}")
    return "/".join(reversed(steps))


def _placed(devices: Mapping[str, Mapping[str, Raw]]) -> set[str]:
    """The devices of which the text shows what they hang below, be it the root complex."""
    roots = {
        address[:-5]
        for address, said in devices.items()
        if said.get("port_type") == "4" or said.get("class") == _HOST_BRIDGE
    }
    return {address for address, said in devices.items() if "path" in said or address[:-5] in roots}


def _named(device: PciDevice, said: Mapping[str, Raw], *, placed: bool) -> PciDevice:
    """The device with the name that lspci prints, and without a place that no line shows."""
    gaps = tuple(gap for gap in device.gaps if gap.field not in ("vendor_name", "device_name"))
    known: dict[str, object] = {}
    name, text = said.get("name"), said.get("text")
    if isinstance(name, str) and isinstance(text, str) and text:
        maker = text.partition(name)[0].strip() if name else text
        known = {"vendor_name": maker[:200] or None, "device_name": name[:200] or None}
    else:
        gaps = (*gaps, Gap("device_name", NOT_SAID))
    if not placed:
        known["parent"] = ""
        gaps = (*gaps, Gap("parent", NOT_SAID))
        if device.kind in BRIDGES and "port_type" not in said:
            known["kind"] = "bridge"
    return msgspec.structs.replace(device, **known, gaps=gaps)


def _host(names: list[str]) -> Host | None:
    """Whether this is bare metal, where the devices show it; nothing else is known of the host."""
    if not bare_metal(names):
        return None
    return Host(gaps=tuple(Gap(field, NOT_SAID) for field in _HOST_FIELDS))


_STARTS = re.compile(
    rf"(?m)^(?:{ROOT}|[ \t]*ACSCtl:|[ \t]*{ADDRESS}(?:"
    r"[ \t]+\"?[A-Z0-9][\w /-]{2,60}(?: \[[0-9a-f]{4}\])?: \S|"
    r"[ \t]+[0-9a-f]{4}: [0-9a-f]{4}:[0-9a-f]{4}\b|"
    r":?[ \t]*\n[ \t]*(?:Lnk(?:Cap|Sta|Ctl)|ACSC)))"
)
_IN_TREE = re.compile(rf"{ROOT}|{BRANCH}")
FORMAT = Format(
    id=TOOL,
    recognises=_recognises,
    parse=_parse,
    starts=_STARTS,
    needs=(
        "-[",
        "ACSC",
        "Lnk",
        "ontroller: ",
        "ontroller [",
        "ridge: ",
        "ridge [",
        "ccelerators",
        ": 10de:",
        ": 1002:",
        ": 15b3:",
    ),
    goes_on=re.compile(
        rf"{ROOT}|{BRANCH}|(?:{HEAD.pattern})|(?:{NUMBERS.pattern})|[ \t]+(?!GPU\d)\S"
    ),
    repeats=True,
    together=True,
    yields=True,
)
