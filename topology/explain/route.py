"""The way between two devices on one line: "GPU0─sw─CPU0══CPU1─sw─GPU5"."""

from __future__ import annotations

from itertools import pairwise

from ..node import Node
from ..wiring.paths import Path, path_between
from .naming import name

WIRES = {"nvlink": "━", "xgmi": "━", "c2c": "━", "pcie": "─", "socket": "══", "net": "┄"}
"""Kind of a wire -> how it is drawn."""


def route(node: Node, src: str, dst: str, relay: str | None = None) -> str:
    """Draw the way from one device to another, through a GPU that relays where there is one.

    "" where nothing is known to join them.
    """
    stops = (src, dst) if relay is None else (src, relay, dst)
    drawn = ""
    for start, end in pairwise(stops):
        path = path_between(node.graph, start, end)
        if path is None:
            return ""
        way = _drawn(node, path)
        drawn = way if not drawn else drawn + way.removeprefix(name(node, start))
    return drawn


def _drawn(node: Node, path: Path) -> str:
    """Each chip once: the ports of one PCIe switch, and all that is inside one CPU, are one."""
    chips = [_chip(node, path, place) for place in range(len(path.nodes))]
    # A CPU without a number is the one beside it that has a number.
    for place in range(1, len(chips)):
        if chips[place] == "CPU" and chips[place - 1].startswith("CPU"):
            chips[place] = chips[place - 1]
    for place in range(len(chips) - 2, -1, -1):
        if chips[place] == "CPU" and chips[place + 1].startswith("CPU"):
            chips[place] = chips[place + 1]
    drawn = chips[0]
    for place, wire in enumerate(path.wires):
        if not wire.inside or chips[place] != chips[place + 1]:
            drawn += WIRES.get(wire.kind, "─") + chips[place + 1]
    return drawn


def _chip(node: Node, path: Path, place: int) -> str:
    vertex = path.nodes[place]
    kind = node.graph.nodes[vertex]["kind"]
    if place in (0, len(path.nodes) - 1) or kind in ("gpu", "nic"):
        return name(node, vertex)
    if kind == "nvswitch":
        return "NVSwitch"
    if vertex.startswith("socket:"):
        return f"CPU{vertex.removeprefix('socket:')}"
    around = path.wires[place - 1 : place + 1]
    if any(wire.inside and wire.kind == "pcie" for wire in around):
        return "sw"
    return "CPU"
