"""Text of `ibstatus`: state, rate and link layer of each port as sysfs words them."""

from __future__ import annotations

import re
from pathlib import Path

from ....model.format import Format
from ....model.part import Part
from .devices import SaidPorts, lines_of, physical_of, state_of

TOOL = "ibstatus"
_PORT = re.compile(r"\s*Infiniband device '([A-Za-z][\w.-]{0,62})' port (\d{1,3}) status:\s*\Z")
_VALUE = re.compile(
    r"\s*(state|phys state|rate|link_layer|base lid):\s*(?:\d{1,2}: )?(\S.{0,60}?)\s*\Z"
)
_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) Gb/sec")


def _recognises(head: bytes, path: Path) -> bool:
    return _STARTS.search(head.decode("utf-8", "replace")) is not None


def _parse(data: bytes, path: Path) -> Part:
    said = SaidPorts(TOOL)
    name, port = "", 0
    for line in lines_of(data):
        if found := _PORT.match(line):
            name, port = found[1], int(found[2])
            said.port(name, port)
        elif name and (value := _VALUE.match(line)):
            key, text = value[1], value[2]
            if key == "state":
                said.port(name, port, state=state_of(text))
            elif key == "phys state":
                said.port(name, port, physical_state=physical_of(text))
            elif key == "link_layer":
                said.port(name, port, link_layer=text)
            elif key == "base lid":
                said.port(name, port, lid=text)
            elif rate := _RATE.match(text):
                said.port(name, port, rate_gbit=float(rate[1]), rate=text)
    return said.part()


_STARTS = re.compile(r"(?m)^[ \t]*Infiniband device '[A-Za-z][\w.-]{0,62}' port \d{1,3} status:")
FORMAT = Format(
    id=TOOL,
    recognises=_recognises,
    parse=_parse,
    starts=_STARTS,
    needs=("Infiniband device",),
    goes_on=re.compile(
        r"[ \t]*(?:Infiniband device '|default gid:|base lid:|sm lid:|state:|phys state:|rate:|"
        r"link_layer:)"
    ),
    repeats=True,
)
