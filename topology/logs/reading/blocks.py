"""Blocks of several lines: the System with its paths, and a graph with its rows."""

import re

import msgspec

from ..report.communicator import LoggedGraph, LoggedLink, LoggedNode, LoggedSystem, PathCell
from ..report.text import plain

NODE = rb"[A-Z]{3}/(?:[0-9a-fA-F]+-)?[0-9a-fA-F]+"
_SYSTEM = re.compile(rb"=== System : max(?:Bw|Width) ([\d.]+) total(?:Bw|Width) ([\d.]+) ===")
_ROOT = re.compile(rb"(" + NODE + rb")(?: \((.*)\))?\s*$")
_LINK = re.compile(rb"( *)(\+ ([A-Z0-9]+)\[([\d.]+)\] - )(" + NODE + rb")(?: \(([^()]*)\))?(.*)$")
_PATHS = re.compile(rb"(" + NODE + rb") ?:(.*)$")
_CELL = re.compile(rb"(" + NODE + rb") \((\d+)/([\d.]+)/(\w+)\)")
PATTERN = re.compile(
    rb"Pattern (\d+), crossNic (\d+), nChannels (\d+), (?:bw|speed) ([\d.]+)/([\d.]+), "
    rb"type (\w+)/(\w+), sameChannels (\d+)"
)
GRAPH_ROW = re.compile(rb"\s*(\d+) :((?: " + NODE + rb"(?:-\S*)?)+)\s*$")


def is_system_line(text: bytes) -> bool:
    """Whether a line is a node, a link or a row of paths."""
    return bool(_LINK.match(text) or _ROOT.match(text) or is_path_row(text))


def is_path_row(text: bytes) -> bool:
    """Whether a line holds the paths from one node."""
    match = _PATHS.match(text)
    return match is not None and (not match[2].strip() or _CELL.match(match[2]) is not None)


def read_system(
    lines: tuple[bytes, ...], numbers: tuple[int, ...], ranks: list[int]
) -> LoggedSystem | None:
    """Read the block that starts with the `=== System` line; None when that is missing."""
    head = _SYSTEM.match(lines[0]) if lines else None
    if head is None:
        return None
    nodes: Nodes = {}
    at: dict[int, str] = {}
    """Indent -> the node whose links stand there."""
    paths: dict[str, dict[str, PathCell]] = {}
    complete = False
    for line, text in zip(numbers[1:], lines[1:], strict=True):
        if text.startswith(b"==="):
            complete = True
        elif (link := _LINK.match(text)) is not None:
            _read_link(link, nodes, at, line)
        elif is_path_row(text):
            row = _PATHS.match(text)
            assert row is not None
            paths[row[1].decode()] = {
                cell[1].decode(): (int(cell[2][:6]), _number(cell[3]), cell[4].decode())
                for cell in _CELL.finditer(row[2])
            }
        elif (root := _ROOT.match(text)) is not None:
            at.clear()
            at[0] = _node(nodes, root[1], root[2], None, line).name
    return LoggedSystem(
        max_bandwidth_gbs=_number(head[1]),
        total_bandwidth_gbs=_number(head[2]),
        nodes=tuple(nodes.values()),
        paths=paths,
        ranks=tuple(sorted(set(ranks))),
        complete=complete,
        line=numbers[0],
    )


Nodes = dict[str, LoggedNode]


def _node(
    nodes: Nodes, name: bytes, detail: bytes | None, parent: str | None, line: int
) -> LoggedNode:
    key = name.decode()
    if key not in nodes:
        nodes[key] = LoggedNode(name=key, detail=plain(detail or b"", 80), parent=parent, line=line)
    return nodes[key]


def _read_link(link: re.Match[bytes], nodes: Nodes, at: dict[int, str], line: int) -> None:
    """Read a link, which is indented to where the name of its node starts."""
    indent, head = len(link[1]), len(link[2])
    if indent not in at:
        return
    owner, kind = nodes[at[indent]], link[3].decode()
    more = LoggedLink(kind, _number(link[4]), link[5].decode())
    nodes[owner.name] = msgspec.structs.replace(owner, links=(*owner.links, more))
    if kind in ("PCI", "LOC") or link[5].startswith(b"NET/"):
        child = _node(nodes, link[5], link[6], owner.name, line)
        for deeper in [place for place in at if place > indent]:
            del at[deeper]
        at[indent + head] = child.name


def read_graph(
    lines: tuple[bytes, ...], numbers: tuple[int, ...], ranks: list[int]
) -> LoggedGraph | None:
    """Read the graph that starts with the Pattern line; None when that is missing."""
    head = PATTERN.match(lines[0]) if lines else None
    if head is None:
        return None
    rows = []
    for text in lines[1:]:
        row = GRAPH_ROW.match(text)
        if row is not None:
            rows.append(tuple(plain(token, 40) for token in row[2].split()))
    return LoggedGraph(
        pattern=_whole(head[1]),
        cross_nic=_whole(head[2]),
        channels=_whole(head[3]),
        bw_intra=_number(head[4]),
        bw_inter=_number(head[5]),
        type_intra=head[6].decode(),
        type_inter=head[7].decode(),
        same_channels=_whole(head[8]),
        rows=tuple(rows),
        ranks=tuple(sorted(set(ranks))),
        line=numbers[0],
    )


def _whole(digits: bytes) -> int:
    return int(digits[:9])


def _number(digits: bytes) -> float:
    """Read a figure as printed; 0.0 for dots without digits."""
    try:
        return float(digits[:24])
    except ValueError:
        return 0.0
