"""Text of `lspci`: the tree of -t, the blocks of -v to -vvv and -nn, or a plain list, together.

The blocks of bridges with their numbers of buses give the tree too, so -vvv alone shows who shares
a switch. ACS controls are in -vvv of root alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from ....model.format import FormatError, text_format
from ....model.machine import PciDevice, UnnamedAcs
from ....model.part import PartialNode, Raw
from ....model.record import Gap, gaps_of
from ....model.surroundings import Host
from ....sources.pci.devices import BRIDGES
from ....sources.pci.devices import parse as parse_devices
from .pci_words import CLASSES, NO_CLASS, bare_metal, class_by_name, class_of, named

TOOL = "lspci"
NOT_SAID = "not in lspci's text"
ROOT_NEEDED = "lspci shows it to root alone: sudo lspci -vvv"
_BRIDGE = f"0x{CLASSES['PCI bridge']:06x}"
_HOST_BRIDGE = f"0x{CLASSES['Host bridge']:06x}"
_MAX_BYTES = 16 * 1024 * 1024
_MAX_DEPTH = 64
_HOST_FIELDS = ("hostname", "kernel", "container", "memory_bytes", "shm_bytes", "memlock_bytes")
_NO_ADDRESS = "lines of lspci without addresses: which devices they are about is not known"

# The tree of `lspci -t`: which bridge each device hangs below.
_TOKEN = re.compile(
    r"(?P<branch>[+\\])|"
    r"\[(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2})(?:-[0-9a-f]{2})?\]|"
    r"(?P<slot>[0-9a-f]{2})\.(?P<function>[0-7])(?=-|\s|\Z)|[\s|-]"
)
ROOT = r"[ \t]*-(?:\+-)?\[(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}\]-"
BRANCH = r"[ |\t]*[+\\]-(?:\[|[0-9a-f]{2}\.[0-7])"
MOST_DEVICES = 16_384
TOO_MANY = f"more than {MOST_DEVICES:,} PCI devices, which is gputop's limit"

# The blocks of `lspci`, one for each device: with -v to -vvv, -nn, -k, -D, -n or none of them.
ADDRESS = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
HEAD = re.compile(
    rf"\s*({ADDRESS})(?:\s*|:?\s+(?:\"|)([A-Z0-9][\w /-]{{2,60}}?)(?: \[([0-9a-f]{{4}})\])?:"
    r"\s+(\S.{0,300}))\Z"
)
"""The first line of a block; a loop of a script may print the address alone."""
NUMBERS = re.compile(
    rf"\s*({ADDRESS})\s+([0-9a-f]{{4}}):\s+([0-9a-f]{{4}}):([0-9a-f]{{4}})\b.{{0,60}}\Z"
)
"""A line of `lspci -n`."""
_LINK = re.compile(r"Lnk(Cap|Sta):.{0,60}?Speed (\d{1,3}(?:\.\d)?)GT/s[^,]{0,30}, Width x(\d{1,2})")
_ACS = re.compile(r"\AACSCtl:\s*(\S.{0,200})")
_PORT = re.compile(
    r"\ACapabilities: \[.*?Express (?:\(v\d\) )?(Root Port|Upstream Port|Downstream Port|Endpoint)"
)
_PORTS = {"Root Port": "4", "Upstream Port": "5", "Downstream Port": "6", "Endpoint": "0"}
_BUSES = re.compile(
    r"Bus: primary=([0-9a-f]{2}), secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})"
)
_NUMA = re.compile(r"\ANUMA node:? (-?\d{1,4})\s*\Z")
_GROUP = re.compile(r"\AIOMMU group:? (\d{1,6})\s*\Z")
_DRIVER = re.compile(r"\AKernel driver in use: ([\w.:+-]{1,60})\s*\Z")
_MODULES = re.compile(r"\AKernel modules: ([\w.,: +-]{1,200}?)\s*\Z")
_REGION = re.compile(r"(?:Region (\d)|Memory at).{0,120}\[size=(\d{1,6})([KMGT]?)\]")
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_CONTROLS = (
    "SrcValid",
    "TransBlk",
    "ReqRedir",
    "CmpltRedir",
    "UpstreamFwd",
    "EgressCtrl",
    "DirectTrans",
)
MOST_REGIONS = 6


def full(address: str) -> str:
    """The address with its domain, as the kernel writes it."""
    if address.count(":") == 1:
        return f"0000:{address}"
    domain, _, rest = address.partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def read_blocks(lines: Iterable[str]) -> dict[str, dict[str, Raw]]:
    """What the text says of each device, under the names of the source pci.

    Beside those: "name", "buses" (the numbers below a bridge) and "verbose".
    """
    devices: dict[str, dict[str, Raw]] = {}
    now: dict[str, Raw] | None = None
    for line in lines:
        head = HEAD.match(line) or NUMBERS.match(line)
        if head is not None:
            address = full(head[1])
            if address not in devices and len(devices) >= MOST_DEVICES:
                raise FormatError(TOO_MANY)
            now = devices.setdefault(address, {})
            _head(now, head)
        elif now is not None:
            _detail(now, line)
    return devices


def read_controls(lines: Iterable[str]) -> list[tuple[str, ...]]:
    """The ACS controls that are on, of every line that tells them."""
    found = (_ACS.match(line.strip()) for line in lines)
    return [tuple(_on(acs[1])) for acs in found if acs is not None][:MOST_DEVICES]


def _head(device: dict[str, Raw], head: re.Match[str]) -> None:
    if head.re is NUMBERS:
        device.setdefault("class", f"0x{head[2]}00")
        device.setdefault("vendor", f"0x{head[3]}")
        device.setdefault("device", f"0x{head[4]}")
        return
    if head[4] is None:
        return
    code = int(head[3], 16) << 8 if head[3] else class_of(head[2])
    device.setdefault("class", f"0x{code:06x}")
    _name(device, head[4])


def _detail(device: dict[str, Raw], line: str) -> None:
    """One line below the first of a block."""
    text = line.strip()
    if text.startswith("Capabilities: ["):
        device["verbose"] = True
        if "denied" in text:
            device["denied"] = True
    for sign, pattern, read in _DETAILS:
        if sign in text and (found := pattern.search(text)):
            for field, value in read(found).items():
                device.setdefault(field, value)
            return
    if region := _REGION.match(text):
        size = int(region[2]) << _UNITS[region[3]]
        lines = device.get("resource", "")
        if size > 1 and lines.count("\n") < MOST_REGIONS:
            device["resource"] = f"{lines}0x0 0x{size - 1:x} 0x200\n"


def _link(found: re.Match[str]) -> dict[str, Raw]:
    when = "max" if found[1] == "Cap" else "current"
    return {
        f"{when}_link_speed": f"{float(found[2]):.1f} GT/s PCIe",
        f"{when}_link_width": found[3],
    }


_DETAILS: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], dict[str, Raw]]], ...] = (
    ("Lnk", _LINK, _link),
    ("ACSCtl:", _ACS, lambda found: {"acs": f"0x{_register(found[1]):04x}"}),
    ("Express", _PORT, lambda found: {"port_type": _PORTS[found[1]]}),
    ("Bus:", _BUSES, lambda found: {"buses": [int(found[2], 16), int(found[3], 16)]}),
    ("NUMA", _NUMA, lambda found: {"numa_node": found[1]}),
    ("IOMMU", _GROUP, lambda found: {"iommu_group": found[1]}),
    ("driver", _DRIVER, lambda found: {"driver": found[1]}),
    ("modules", _MODULES, lambda found: {"modules": found[1]}),
)
"""A text of the line, its pattern, and what it tells of the device."""


def _register(words: str) -> int:
    """The bits of "SrcValid+ TransBlk- ..."."""
    on = _on(words)
    return sum(1 << bit for bit, name in enumerate(_CONTROLS) if name in on)


def _on(words: str) -> list[str]:
    """The controls that are on, in the order of their bits."""
    on = {word[:-1] for word in words.split() if word.endswith("+")}
    return [name for name in _CONTROLS if name in on]


class Leaf(msgspec.Struct, frozen=True):
    """A device of the tree."""

    parent: str
    """Address of the bridge above, or "pci0000:00"."""
    name: str
    """What -v prints behind it; may be empty."""


class _Bus(msgspec.Struct, frozen=True):
    domain: str
    number: str
    parent: str


def read_tree(lines: Iterable[str]) -> dict[str, Leaf]:
    """The devices of a tree by address."""
    found: dict[str, Leaf] = {}
    at: dict[int, _Bus] = {}
    for line in lines:
        _read_line(line.rstrip(), at, found)
        if len(found) > MOST_DEVICES:
            raise FormatError(TOO_MANY)
    return found


def _read_line(line: str, at: dict[int, _Bus], found: dict[str, Leaf]) -> None:
    bus: _Bus | None = None
    opened = False
    address = ""
    place = 0
    while place < len(line) and (token := _TOKEN.match(line, place)):
        column, place = place, token.end()
        if token["branch"]:
            if not opened and not address:  # a branch of a bus that a line above opened
                bus = at.get(column)
                if bus is None:
                    continue
                for other in [c for c in at if c > column]:
                    del at[other]
            elif bus is not None:
                at[column] = bus
            opened, address = False, ""
        elif token["bus"]:
            domain = token["domain"]
            if address:
                known = bus.domain if bus is not None else "0000"
                bus = _Bus(domain or known, token["bus"], address)
            else:
                root = domain or "0000"
                bus = _Bus(root, token["bus"], f"pci{root}:{token['bus']}")
            opened, address = True, ""
        elif token["slot"]:
            if bus is None:
                return
            address = f"{bus.domain}:{bus.number}:{token['slot']}.{token['function']}"
            if not line.startswith("-", place):
                found.setdefault(address, Leaf(bus.parent, line[place:].strip()[:300]))
                return
            found.setdefault(address, Leaf(bus.parent, ""))
            opened = False


def _parse(lines: list[str]) -> PartialNode:
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


def _without_addresses(controls: Sequence[tuple[str, ...]]) -> PartialNode:
    """What `lspci -vvv | grep ACSCtl` leaves of the devices: their controls, in their order."""
    if not controls:
        raise FormatError("no device in it")
    listed = (UnnamedAcs(position=position, acs=acs) for position, acs in enumerate(controls, 1))
    return PartialNode(unnamed_acs=tuple(listed), assumptions=(_NO_ADDRESS,))


def _raw(tree: Mapping[str, Leaf], blocks: Mapping[str, dict[str, Raw]]) -> dict[str, Raw]:
    """What tree and blocks say, as the source pci would have read it."""
    devices: dict[str, dict[str, Raw]] = {address: dict(said) for address, said in blocks.items()}
    parents = {address: leaf.parent for address, leaf in tree.items()}
    parents = _by_buses(devices) | parents
    for address, leaf in tree.items():
        device = devices.setdefault(address, {})
        if leaf.name and "name" not in device:
            device.setdefault("class", f"0x{class_by_name(leaf.name):06x}")
            _name(device, leaf.name)
    bridges = set(parents.values())
    for address, device in devices.items():
        if not device.pop("modules", None):  # with modules named and no driver, none is bound
            device.setdefault("driver", {"error": NOT_SAID})
        if address in bridges and int(device.get("class", "0x0"), 16) in (0, NO_CLASS):
            device["class"] = _BRIDGE
        if address in parents:
            device["path"] = _path(address, parents)
        _tell_acs(device)
    return {"absent": NOT_SAID, "devices": devices, "names": {}}


def _tell_acs(device: dict[str, Raw]) -> None:
    """Say of a device whether the output could show its ACS."""
    if device.get("denied"):
        device["acs"] = {"error": ROOT_NEEDED}
    elif device.get("verbose") and "acs" not in device:
        device["acs"] = "" if "max_link_speed" in device else {"error": NOT_SAID}


def _name(device: dict[str, Raw], text: str) -> None:
    """Keep the ids and the name of a device that lspci prints in one text."""
    vendor, number, name = named(text)
    if vendor is not None:
        device.setdefault("vendor", f"0x{vendor:04x}")
    if number is not None:
        device.setdefault("device", f"0x{number:04x}")
    device.setdefault("name", name)
    device.setdefault("text", text)


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


_NAMES = ("vendor_name", "device_name")


def _named(device: PciDevice, said: Mapping[str, Raw], *, placed: bool) -> PciDevice:
    """The device with the name that lspci prints, and without a place that no line shows."""
    known: dict[str, object] = {field: getattr(device, field) for field in _NAMES}
    gaps: list[Gap] = []
    name, text = said.get("name"), said.get("text")
    if isinstance(name, str) and isinstance(text, str) and text:
        maker = text.partition(name)[0].strip() if name else text
        known = {"vendor_name": maker[:200] or None, "device_name": name[:200] or None}
    else:
        gaps.append(Gap("device_name", NOT_SAID))
    if not placed:
        known["parent"] = ""
        gaps.append(Gap("parent", NOT_SAID))
        if device.kind in BRIDGES and "port_type" not in said:
            known["kind"] = "bridge"
    named = device.filled(**known)
    return msgspec.structs.replace(named, gaps=(*named.gaps, *gaps))


def _host(names: list[str]) -> Host | None:
    """Whether this is bare metal, where the devices show it; nothing else is known of the host."""
    if not bare_metal(names):
        return None
    return Host(gaps=gaps_of(_HOST_FIELDS, NOT_SAID))


_STARTS = re.compile(
    rf"(?m)^(?:{ROOT}|[ \t]*ACSCtl:|[ \t]*{ADDRESS}(?:"
    r"[ \t]+\"?[A-Z0-9][\w /-]{2,60}(?: \[[0-9a-f]{4}\])?: \S|"
    r"[ \t]+[0-9a-f]{4}: [0-9a-f]{4}:[0-9a-f]{4}\b|"
    r":?[ \t]*\n[ \t]*(?:Lnk(?:Cap|Sta|Ctl)|ACSC)))"
)
_IN_TREE = re.compile(rf"{ROOT}|{BRANCH}")
FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    most_bytes=_MAX_BYTES,
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
