"""Text of `ibdev2netdev`, with -v or without: which interface belongs to which RDMA port.

"(Up)" and "(Down)" are of the interface: InfiniBand carries data while its IPoIB interface is down.
"""

from __future__ import annotations

import re
from pathlib import Path

from ....model.format import Format
from ....model.part import Part
from ....model.surroundings import Interface
from .devices import SaidPorts, address_of, interface, lines_of, state_of

TOOL = "ibdev2netdev"
_NAMES = r"[A-Za-z][\w.-]{0,62}"
_LINE = re.compile(
    rf"\s*(?:([0-9a-f]{{4,8}}:[0-9a-f]{{2}}:[0-9a-f]{{2}}\.[0-7])\s+)?({_NAMES})\s+"
    r"(?:\(([A-Z]{2}\d{3,6}) ?-[^)\n]{0,60}\)[^\n]{0,120}?(?:fw (\d[\d.]{1,20})\s+)?)?"
    r"port\s+(\d{1,3})\s+(?:\((\w+)\s*\)\s+)?==>\s+"
    rf"({_NAMES})\s+\((Up|Down)\)"
)


def _recognises(head: bytes, path: Path) -> bool:
    return _STARTS.search(head.decode("utf-8", "replace")) is not None


def _parse(data: bytes, path: Path) -> Part:
    said = SaidPorts(TOOL)
    links: dict[str, list[str]] = {}
    found: dict[str, Interface] = {}
    for line in lines_of(data):
        match = _LINE.match(line)
        if match is None:
            continue
        address, name, model, firmware, port, state, netdev, up = match.groups()
        if not said.device(name, address=address_of(address), firmware=firmware, model=model):
            continue
        said.port(name, int(port), state=state_of(state) if state else None)
        links.setdefault(name, []).append(netdev)
        own = {"address": address_of(address)} if address else {}
        found.setdefault(netdev, interface(netdev, TOOL, up=up == "Up", **own))
    for name, netdevs in links.items():
        said.device(name, interfaces=tuple(dict.fromkeys(netdevs)))
    return said.part(found.values())


_STARTS = re.compile(rf"(?m)^{_LINE.pattern}")
FORMAT = Format(
    id=TOOL,
    recognises=_recognises,
    parse=_parse,
    starts=_STARTS,
    needs=("==>",),
    goes_on=_LINE,
    repeats=True,
)
