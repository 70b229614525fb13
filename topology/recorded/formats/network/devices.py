"""RDMA devices and interfaces as texts name them, with gaps for what a text leaves out.

A tool's text is a few patterns of lines. Their named groups say what a line tells: `device`, `port`
and `netdev` what it is about, `key` and `value` a field by the tool's name for it, and every other
group the field of that name. What a line is about holds for the lines below it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ....model.format import FormatError
from ....model.part import PartialNode
from ....model.record import gaps_of
from ....model.snapshot import Problem, ProblemKind
from ....model.surroundings import Interface, PortGid, RdmaDevice, RdmaPort
from ....sources.pci.address import pci_address

MAX_DEVICES = 256
MAX_PORTS = 16
_MOST_IPS = 32
_MOST_CUTS = 8
_MOST_GIDS = 256
NAME = r"[A-Za-z][\w.-]{0,62}"
_OF_INTERFACE = ("address", "index", "kind", "driver", "up", "speed_mbps", "mtu", "mac")
_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\b")
_STATES = {"INITIALIZING": "INIT"}
_PHYSICAL = {"linkup": "LinkUp", "link_up": "LinkUp"}


def _state(word: str) -> str:
    """A port's state as the kernel writes it: "ACTIVE"."""
    upper = word.strip().upper().removeprefix("PORT_")
    return _STATES.get(upper, upper)


def _physical(word: str) -> str:
    """A port's physical state as the kernel writes it: "LinkUp"."""
    return _PHYSICAL.get(word.strip().lower(), word.strip())


def _gbit(text: str) -> float | None:
    found = _RATE.match(text)
    return None if found is None else float(found[1])


_KEYS = {
    "ca type": "model",
    "firmware version": "firmware",
    "node guid": "guid",
    "phys state": "physical_state",
    "physical state": "physical_state",
    "phys_state": "physical_state",
    "link layer": "link_layer",
    "base lid": "lid",
    "port_lid": "lid",
    "fw_ver": "firmware",
    "node_guid": "guid",
    "board_id": "board",
}
"""A tool's name of a value, in lower case -> the name of the group."""
Read = tuple[str, Callable[[str], object]]
_DEVICE: dict[str, tuple[Read, ...]] = {
    "address": (("address", pci_address),),
    "firmware": (("firmware", str),),
    "guid": (("guid", str),),
    "model": (("model", str), ("kind", lambda text: "efa" if text[:3].lower() == "efa" else None)),
}
_PORT: dict[str, tuple[Read, ...]] = {
    "state": (("state", _state),),
    "physical_state": (("physical_state", _physical),),
    "rate": (("rate_gbit", _gbit), ("rate", lambda text: text if _RATE.match(text) else None)),
    "link_layer": (("link_layer", str),),
    "lid": (("lid", str),),
    "infiniband": (("link_layer", lambda _: "InfiniBand"),),
    # A GID of a version is one of RoCE: InfiniBand has neither.
    "version": (("link_layer", lambda _: "Ethernet"),),
}
"""Group of a pattern -> fields of the record, and how each is read; the first value stands."""


def read_ports(tool: str, lines: Iterable[str], *patterns: re.Pattern[str]) -> PartialNode:
    """What a text says of devices, ports and interfaces. Raises FormatError where it is nothing."""
    text = _Text()
    for line in lines:
        match = next((found for pattern in patterns if (found := pattern.match(line))), None)
        if match is not None:
            text.take({group: said for group, said in match.groupdict().items() if said})
    return text.part(tool)


class _Text:
    """Devices with their ports, filled line by line."""

    def __init__(self) -> None:
        self.devices: dict[str, dict[str, Any]] = {}
        self.ports: dict[tuple[str, int], dict[str, Any]] = {}
        self.interfaces: dict[str, dict[str, Any]] = {}
        self._name, self._port = "", 0
        self._of: Counter[str] = Counter()
        """How many ports each device has."""
        self._full: set[tuple[str, ...]] = set()
        """Devices beyond the limit, and devices with more ports."""

    def take(self, said: Mapping[str, str]) -> None:
        """Keep what a line tells."""
        if "key" in said:
            key = said["key"].lower()
            said = {_KEYS.get(key, key): said["value"]}
        if "device" in said:
            self._name, self._port = said["device"], 0
        full = self._name not in self.devices and len(self.devices) >= MAX_DEVICES
        if full:
            self._full.add(("RDMA devices", str(MAX_DEVICES)))
        if not self._name or full:
            return
        device = self.devices.setdefault(self._name, {})
        _keep(device, said, _DEVICE)
        self._port = int(said.get("port", self._port))
        port = self._of_port() if self._port else None
        if port is not None:
            _keep(port, said, _PORT)
            if "gid" in said:
                gid = PortGid(index=int(said["index"]), gid=said["gid"], version=said["version"])
                gids = port.setdefault("gids", {})
                if len(gids) < _MOST_GIDS:
                    gids.setdefault(gid.index, gid)
        if "netdev" in said:
            device.setdefault("interfaces", {})[said["netdev"]] = None
            self._interface(said)

    def _of_port(self) -> dict[str, Any] | None:
        key = self._name, self._port
        if key in self.ports:
            return self.ports[key]
        if self._of[self._name] >= MAX_PORTS:
            self._full.add((f"ports of {self._name}", str(MAX_PORTS)))
            return None
        self._of[self._name] += 1
        return self.ports.setdefault(key, {})

    def _interface(self, said: Mapping[str, str]) -> None:
        known = self.interfaces.setdefault(said["netdev"], {})
        if "up" in said:
            known.setdefault("up", said["up"] == "Up")
        if "address" in said:
            known.setdefault("address", pci_address(said["address"]))
        ip, ips = said.get("ip", ""), known.setdefault("ips", [])
        if ip[:1].isdigit() and ip not in ips and len(ips) < _MOST_IPS:
            ips.append(ip)

    def part(self, tool: str) -> PartialNode:
        """All of it."""
        if not self.devices:
            raise FormatError("no device in it")
        why = f"not in {tool}"
        interfaces = (
            Interface(
                name=name,
                gaps=gaps_of((field for field in _OF_INTERFACE if field not in known), why),
                **known | {"ips": tuple(known["ips"])},
            )
            for name, known in self.interfaces.items()
        )
        return PartialNode(
            rdma=tuple(self._device(name, why) for name in self.devices),
            interfaces=tuple(interfaces),
            problems=tuple(
                Problem(
                    source=tool,
                    kind=ProblemKind.CUT,
                    text=f"not all {what} were read: gputop reads {most} at most",
                )
                for what, most in sorted(self._full)[:_MOST_CUTS]
            ),
        )

    def _device(self, name: str, why: str) -> RdmaDevice:
        known = self.devices[name]
        ports = tuple(
            _port(number, values, why)
            for (of, number), values in sorted(self.ports.items(), key=lambda item: item[0])
            if of == name
        )
        layers = {port.link_layer for port in ports}
        layer = "infiniband" if "InfiniBand" in layers else "roce" if "Ethernet" in layers else None
        fields = ["address", "driver", "guid", "firmware", "board_id", "numa_node"]
        fields += [] if ports else ["ports"]
        return RdmaDevice(
            name=name,
            ports=ports,
            gaps=gaps_of((field for field in fields if field not in known), why),
            **{"kind": layer} | known | {"interfaces": tuple(known.get("interfaces", ()))},
        )


def _port(number: int, known: Mapping[str, Any], why: str) -> RdmaPort:
    fields = ("state", "physical_state", "rate_gbit", "rate", "link_layer", "lid")
    gaps = gaps_of((field for field in fields if field not in known), why)
    gids = tuple(known.get("gids", {}).values())
    return RdmaPort(port=number, **{**known, "gids": gids}, gaps=gaps)


def _keep(
    known: dict[str, Any], said: Mapping[str, str], reads: Mapping[str, tuple[Read, ...]]
) -> None:
    for group, text in said.items():
        for field, read in reads.get(group, ()):
            if (value := read(text)) is not None:
                known.setdefault(field, value)
