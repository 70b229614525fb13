"""Text of `ibstat`: RDMA devices with firmware, and each port's state, rate and link layer."""

from __future__ import annotations

import re
from pathlib import Path

from ....model.format import Format
from ....model.part import Part
from .devices import SaidPorts, lines_of, physical_of, state_of

TOOL = "ibstat"
_DEVICE = re.compile(r"\s*CA '?([A-Za-z][\w.-]{0,62})'?\s*\Z")
_PORT = re.compile(r"\s*Port (\d{1,3}):\s*\Z")
_VALUE = re.compile(
    r"\s*(CA type|Firmware version|Node GUID|State|Physical state|Rate|Base lid|Link layer):"
    r"\s*(\S.{0,80}?)\s*\Z"
)
_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\b")


def _recognises(head: bytes, path: Path) -> bool:
    return _STARTS.search(head.decode("utf-8", "replace")) is not None


def _parse(data: bytes, path: Path) -> Part:
    said = SaidPorts(TOOL)
    name, port = "", 0
    for line in lines_of(data):
        if device := _DEVICE.match(line):
            name, port = device[1], 0
            said.device(name)
        elif not name:
            continue
        elif number := _PORT.match(line):
            port = int(number[1])
            said.port(name, port)
        elif value := _VALUE.match(line):
            _keep(said, name, port, value[1], value[2])
    return said.part()


def _keep(said: SaidPorts, name: str, port: int, key: str, text: str) -> None:
    if key == "Firmware version":
        said.device(name, firmware=text)
    elif key == "CA type":
        said.device(name, kind="efa" if text.lower().startswith("efa") else None, model=text)
    elif key == "Node GUID":
        said.device(name, guid=text)
    elif not port:
        return
    elif key == "State":
        said.port(name, port, state=state_of(text))
    elif key == "Physical state":
        said.port(name, port, physical_state=physical_of(text))
    elif key == "Link layer":
        said.port(name, port, link_layer=text)
    elif key == "Base lid":
        said.port(name, port, lid=text)
    elif rate := _RATE.match(text):
        said.port(name, port, rate_gbit=float(rate[1]), rate=text)


_STARTS = re.compile(
    r"(?m)^[ \t]*CA '?[A-Za-z][\w.-]{0,62}'?[ \t]*\n(?:[ \t]*\n){0,2}"
    r"[ \t]*(?:CA type|Number of ports|Firmware|Hardware|Node GUID|Port \d)"
)
FORMAT = Format(
    id=TOOL,
    recognises=_recognises,
    parse=_parse,
    starts=_STARTS,
    needs=("CA ",),
    goes_on=re.compile(
        r"[ \t]*(?:CA '?[A-Za-z][\w.-]{0,62}'?[ \t]*\Z|Port \d{1,3}:|CA type:|Number of ports:|"
        r"Firmware version:|Hardware version:|Node GUID:|System image GUID:|State:|"
        r"Physical state:|Rate:|Base lid:|LMC:|SM lid:|Capability mask:|Port GUID:|Link layer:)"
    ),
    repeats=True,
)
