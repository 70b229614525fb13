"""Text of `rdma link`: state of each RDMA port and the interface that belongs to it."""

from __future__ import annotations

import re
from pathlib import Path

from ....model.format import Format
from ....model.part import Part
from ....model.surroundings import Interface
from .devices import SaidPorts, interface, lines_of, physical_of, state_of

TOOL = "rdma link"
_LINE = re.compile(
    r"\s*(?:\d{1,4}/\d{1,3}: |link )([A-Za-z][\w.-]{0,62})/(\d{1,3}):?\s+"
    r"(?:(subnet_prefix) \S+ )?(?:[a-z_]+ (?!ACTIVE|DOWN)\S+ ){0,6}"
    r"state (\w{2,12}) physical_state (\w{2,20})(?: netdev ([A-Za-z][\w.-]{0,62}))?"
    r"(?: netdev_index \d{1,9})?\s*\Z"
)


def _recognises(head: bytes, path: Path) -> bool:
    return _STARTS.search(head.decode("utf-8", "replace")) is not None


def _parse(data: bytes, path: Path) -> Part:
    said = SaidPorts(TOOL)
    found: dict[str, Interface] = {}
    for line in lines_of(data):
        match = _LINE.match(line)
        if match is None:
            continue
        name, port, subnet, state, physical, netdev = match.groups()
        said.port(
            name,
            int(port),
            state=state_of(state),
            physical_state=physical_of(physical),
            link_layer="InfiniBand" if subnet else None,
        )
        if netdev is not None:
            said.device(name, interfaces=(netdev,))
            found.setdefault(netdev, interface(netdev, TOOL))
    return said.part(found.values())


_STARTS = re.compile(
    r"(?m)^[ \t]*(?:\d{1,4}/\d{1,3}: |link )[A-Za-z][\w.-]{0,62}/\d{1,3}:?[ \t]+"
    r"[^\n]{0,200}?state \w{2,12} physical_state "
)
FORMAT = Format(
    id=TOOL,
    recognises=_recognises,
    parse=_parse,
    starts=_STARTS,
    needs=("physical_state",),
    goes_on=_LINE,
    repeats=True,
)
