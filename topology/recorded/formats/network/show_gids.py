"""Text of `show_gids`: the GIDs of each RDMA port, which of them are RoCE v2, and the interface."""

from __future__ import annotations

import re
from pathlib import Path

from ....model.format import Format
from ....model.part import Part
from ....model.surroundings import PortGid
from .devices import SaidPorts, interface, lines_of

TOOL = "show_gids"
_LINE = re.compile(
    r"\s*([A-Za-z][\w.-]{0,62})\s+(\d{1,3})\s+(\d{1,4})\s+([0-9a-fA-FxX:]{4,39}(?:\.{2,4})?)\s+"
    r"(?:(\d{1,3}(?:\.\d{1,3}){3}|-{2,3})\s+)?(v1|v2)(?:\s+([A-Za-z][\w.-]{0,62}))?\s*\Z"
)
_MOST_IPS = 32
_MOST_GIDS = 256


def _recognises(head: bytes, path: Path) -> bool:
    return _STARTS.search(head.decode("utf-8", "replace")) is not None


def _parse(data: bytes, path: Path) -> Part:
    said = SaidPorts(TOOL)
    links: dict[str, list[str]] = {}
    ips: dict[str, list[str]] = {}
    gids: dict[tuple[str, int], dict[int, PortGid]] = {}
    for line in lines_of(data):
        match = _LINE.match(line)
        if match is None:
            continue
        name, port, index, gid, ip, version, netdev = match.groups()
        if not said.device(name):
            continue
        # A GID of a version is one of RoCE: InfiniBand has neither.
        said.port(name, int(port), link_layer="Ethernet")
        known_gids = gids.setdefault((name, int(port)), {})
        if len(known_gids) < _MOST_GIDS:
            found = PortGid(index=int(index), gid=gid, version=version)
            known_gids.setdefault(found.index, found)
        if netdev is not None:
            links.setdefault(name, []).append(netdev)
            known = ips.setdefault(netdev, [])
            if ip and ip[0].isdigit() and ip not in known and len(known) < _MOST_IPS:
                known.append(ip)
    for (name, number), listed in gids.items():
        said.port(name, number, gids=tuple(listed.values()))
    for name, netdevs in links.items():
        said.device(name, interfaces=tuple(dict.fromkeys(netdevs)))
    return said.part(interface(netdev, TOOL, ips=tuple(known)) for netdev, known in ips.items())


_STARTS = re.compile(r"(?m)^[ \t]*DEV[ \t]+PORT[ \t]+INDEX[ \t]+GID\b")
FORMAT = Format(
    id=TOOL,
    recognises=_recognises,
    parse=_parse,
    starts=_STARTS,
    needs=("INDEX",),
    goes_on=re.compile(rf"{_LINE.pattern}|[ \t]*DEV[ \t]+PORT|[ \t-]+\Z|n_gids_found"),
    repeats=True,
)
