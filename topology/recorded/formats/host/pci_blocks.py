"""The blocks of `lspci`, one for each device: with -v to -vvv, -nn, -k, -D, -n or none of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ....model.part import Raw
from .pci_words import class_of, named

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
_ACS = re.compile(r"ACSCtl:\s*(\S.{0,200})")
_PORT = re.compile(r"Express (?:\(v\d\) )?(Root Port|Upstream Port|Downstream Port|Endpoint)")
_PORTS = {"Root Port": "4", "Upstream Port": "5", "Downstream Port": "6", "Endpoint": "0"}
_BUSES = re.compile(
    r"Bus: primary=([0-9a-f]{2}), secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})"
)
_NUMA = re.compile(r"NUMA node:? (-?\d{1,4})\s*\Z")
_GROUP = re.compile(r"IOMMU group:? (\d{1,6})\s*\Z")
_DRIVER = re.compile(r"Kernel driver in use: ([\w.:+-]{1,60})\s*\Z")
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
MOST_DEVICES = 16_384
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
                break
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
    vendor, number, name = named(head[4])
    if vendor is not None:
        device.setdefault("vendor", f"0x{vendor:04x}")
    if number is not None:
        device.setdefault("device", f"0x{number:04x}")
    device.setdefault("name", name)
    device.setdefault("text", head[4])


def _detail(device: dict[str, Raw], line: str) -> None:
    """One line below the first of a block."""
    text = line.strip()
    if "Lnk" in text and (link := _LINK.search(text)):
        when = "max" if link[1] == "Cap" else "current"
        device.setdefault(f"{when}_link_speed", f"{float(link[2]):.1f} GT/s PCIe")
        device.setdefault(f"{when}_link_width", link[3])
    elif text.startswith("ACSCtl:") and (control := _ACS.match(text)):
        device.setdefault("acs", f"0x{_register(control[1]):04x}")
    elif text.startswith("Capabilities: ["):
        device["verbose"] = True
        if "denied" in text:
            device["denied"] = True
        if port := _PORT.search(text):
            device.setdefault("port_type", _PORTS[port[1]])
    elif buses := _BUSES.search(text):
        device.setdefault("buses", [int(buses[2], 16), int(buses[3], 16)])
    elif numa := _NUMA.match(text):
        device.setdefault("numa_node", numa[1])
    elif group := _GROUP.match(text):
        device.setdefault("iommu_group", group[1])
    elif driver := _DRIVER.match(text):
        device.setdefault("driver", driver[1])
    elif region := _REGION.match(text):
        size = int(region[2]) << _UNITS[region[3]]
        lines = device.get("resource", "")
        if size > 1 and lines.count("\n") < MOST_REGIONS:
            device["resource"] = f"{lines}0x0 0x{size - 1:x} 0x200\n"


def _register(words: str) -> int:
    """The bits of "SrcValid+ TransBlk- ..."."""
    on = _on(words)
    return sum(1 << bit for bit, name in enumerate(_CONTROLS) if name in on)


def _on(words: str) -> list[str]:
    """The controls that are on, in the order of their bits."""
    on = {word[:-1] for word in words.split() if word.endswith("+")}
    return [name for name in _CONTROLS if name in on]
