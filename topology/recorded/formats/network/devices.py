"""RDMA devices and interfaces as texts name them, with gaps for what a text leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ....model.format import FormatError
from ....model.part import Part
from ....model.record import Gap
from ....model.surroundings import Interface, RdmaDevice, RdmaPort
from ....sources.pci.address import pci_address

MAX_BYTES = 4 * 1024 * 1024
MAX_DEVICES = 256
MAX_PORTS = 16
_NAME = re.compile(r"\A[A-Za-z][\w.-]{0,62}\Z")
_OF_DEVICE = ("address", "driver", "guid", "firmware", "board_id", "numa_node")
_OF_PORT = ("state", "physical_state", "rate_gbit", "rate", "link_layer", "lid")
_PHYSICAL = {"linkup": "LinkUp", "link_up": "LinkUp"}


class SaidPorts:
    """Devices with their ports, filled line by line."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self.devices: dict[str, dict[str, object]] = {}
        self.ports: dict[str, dict[int, dict[str, object]]] = {}

    def device(self, name: str, **values: object) -> bool:
        """Keep what is said of a device; False for a name that none has."""
        if not _NAME.match(name) or (name not in self.devices and len(self.devices) >= MAX_DEVICES):
            return False
        known = self.devices.setdefault(name, {})
        for key, value in values.items():
            if value is not None:
                known.setdefault(key, value)
        return True

    def port(self, name: str, number: int, **values: object) -> None:
        """Keep what is said of a port."""
        if not self.device(name):
            return
        ports = self.ports.setdefault(name, {})
        if number in ports or len(ports) < MAX_PORTS:
            known = ports.setdefault(number, {})
            for key, value in values.items():
                if value is not None:
                    known.setdefault(key, value)

    def part(self, interfaces: Iterable[Interface] = ()) -> Part:
        """All of it. Raises FormatError where there is nothing."""
        if not self.devices:
            raise FormatError("no device in it")
        return Part(
            rdma=tuple(self._record(name, said) for name, said in self.devices.items()),
            interfaces=tuple(interfaces),
        )

    def _record(self, name: str, said: Mapping[str, object]) -> RdmaDevice:
        ports = tuple(
            RdmaPort(port=number, gaps=self._gaps(_OF_PORT, values), **values)  # type: ignore[arg-type]
            for number, values in sorted(self.ports.get(name, {}).items())
        )
        kind = said.get("kind") or _kind(port.link_layer for port in ports)
        values = {key: value for key, value in said.items() if key != "kind"}
        gaps = self._gaps((*_OF_DEVICE, *(() if ports else ("ports",))), said)
        return RdmaDevice(name=name, kind=kind, ports=ports, gaps=gaps, **values)  # type: ignore[arg-type]

    def _gaps(self, fields: Iterable[str], known: Mapping[str, object]) -> tuple[Gap, ...]:
        return tuple(Gap(field, f"not in {self._tool}") for field in fields if field not in known)


def lines_of(data: bytes) -> list[str]:
    """The lines of an output. Raises FormatError for more than any output has."""
    if len(data) > MAX_BYTES:
        raise FormatError(f"{len(data)} bytes; the limit is {MAX_BYTES}")
    return data.decode("utf-8", "replace").split("\n")


def interface(name: str, tool: str, **values: object) -> Interface:
    """An interface of which a text says only so much."""
    gaps = tuple(
        Gap(field, f"not in {tool}")
        for field in ("address", "index", "kind", "driver", "up", "speed_mbps", "mtu", "mac")
        if field not in values
    )
    return Interface(name=name, gaps=gaps, **values)  # type: ignore[arg-type]


def state_of(word: str) -> str:
    """A port's state as the kernel writes it: "ACTIVE"."""
    words = {"INITIALIZING": "INIT", "ARMED": "ARMED"}
    upper = word.strip().upper().removeprefix("PORT_")
    return words.get(upper, upper)


def physical_of(word: str) -> str:
    """A port's physical state as the kernel writes it: "LinkUp"."""
    return _PHYSICAL.get(word.strip().lower(), word.strip())


def address_of(text: str | None) -> str | None:
    """A PCI address in the kernel's spelling."""
    return None if text is None else pci_address(text)


def _kind(layers: Iterable[str | None]) -> str | None:
    known = set(layers)
    return "infiniband" if "InfiniBand" in known else "roce" if "Ethernet" in known else None
