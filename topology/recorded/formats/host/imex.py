"""`nvidia-imex-ctl -N`: the hosts of an IMEX domain, and which of them are connected.

The form is that of NVIDIA's IMEX guide (cmdservice) and of the texts that AWS ParallelCluster's and
k8s-dra-driver-gpu's documents print, of versions 560 to 595; `-H` adds the host's name.
"""

from __future__ import annotations

import re

from ....model.format import FormatError, text_format
from ....model.part import PartialNode
from ....model.surroundings import ImexDomain, ImexNode
from .said import host_of

TOOL = "nvidia-imex-ctl -N"
CONNECTED = "C"
MOST = 1024
_NODE = re.compile(
    r"\s*Node #(\d{1,4})\s+([-*])\s+(\S{1,64})\s+[-* ]*?-\s+([A-Z_]{1,32})\b(.{0,400})\Z"
)
_VERSION = re.compile(r"- Version:[ \t]*([0-9][0-9.]{0,30})")
_HOSTNAME = re.compile(r"- Hostname:[ \t]*(\S{1,255})")
_HEAD = re.compile(r"\s*Nodes From\\To((?:\s+\d{1,4}){1,1024})\s*\Z")
_ROW = re.compile(r"\s*(\d{1,4})((?:\s+(?:[INRDAC]|![VM]!)){1,1024})\s*\Z")
_STATE = re.compile(r"\s*Domain State:\s*([A-Z_]{1,32})")


def _parse(lines: list[str]) -> PartialNode:
    nodes: dict[int, ImexNode] = {}
    unconnected: dict[tuple[int, int], str] = {}
    order: list[int] = []
    state: str | None = None
    for line in lines:
        if found := _NODE.match(line):
            nodes.setdefault(int(found[1]), _node(found))
        elif found := _HEAD.match(line):
            order = [*map(int, found[1].split())]
        elif order and (found := _ROW.match(line)):
            for to, letter in zip(order, found[2].split(), strict=False):
                if letter != CONNECTED:
                    unconnected[int(found[1]), to] = letter
        elif found := _STATE.match(line):
            state = found[1]
    if not nodes or len(nodes) > MOST:
        raise FormatError("no host of an IMEX domain in it")
    domain = ImexDomain(
        state=state,
        nodes=tuple(nodes[number] for number in sorted(nodes)),
        unconnected=tuple((*pair, letter) for pair, letter in sorted(unconnected.items())),
    )
    return PartialNode(host=host_of(TOOL, imex_domain=domain))


def _node(found: re.Match[str]) -> ImexNode:
    version, hostname = _VERSION.search(found[5]), _HOSTNAME.search(found[5])
    return ImexNode(
        number=int(found[1]),
        ip=found[3],
        state=found[4],
        version=None if version is None else version[1],
        hostname=None if hostname is None else hostname[1],
        asked=found[2] == "*",
    )


FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=re.compile(r"(?m)^[ \t]*(?:Connectivity Table Legend:|Node #\d{1,4}[ \t]+[-*][ \t])"),
    needs=("Node #", "Connectivity Table Legend:"),
    goes_on=re.compile(
        r"[ \t]*(?:(?:[INRDAC]|![VM]!) - |Nodes:|Node #\d|Nodes From\\To|Domain State:|"
        r"\d{1,2}/\d{1,2}/\d{4} |\d{1,4}(?:[ \t]+(?:[INRDAC]|![VM]!))+[ \t]*\Z)"
    ),
)
