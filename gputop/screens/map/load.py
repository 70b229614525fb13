"""How loaded the links of GPUs are, in steps that weight and colour of a line show."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from gputop.screens.map.live import pace
from gputop.topology.wiring.wires import WireKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import networkx as nx

    from gputop.topology.model.readings import Readings
    from gputop.topology.sketch.drawing import Drawing, Line

Ends = tuple[str, str]
_GIGA = 1e9
_COUNTED = (WireKind.NVLINK, WireKind.XGMI, WireKind.PCIE)
"""Kinds of wires that GPUs count the traffic of."""
_MARGIN = 0.05
"""A line keeps its step until its load is this far beyond the border: it does not flicker."""


class LinkLoad(IntEnum):
    """The traffic of a link in the busier direction, as part of what the link carries."""

    IDLE = 0
    SOME = 1
    """From one percent on."""
    HALF = 2
    """From 30 percent on."""
    FULL = 3
    """From 60 percent on."""


_FROM = {LinkLoad.FULL: 0.6, LinkLoad.HALF: 0.3, LinkLoad.SOME: 0.01}


def load_of(share: float, before: LinkLoad | None = None) -> LinkLoad:
    """The step of a load; `before` is kept while it is near enough."""
    found = next((load for load, least in _FROM.items() if share >= least), LinkLoad.IDLE)
    if before is None or found == before:
        return found
    lower, upper = _FROM.get(before, 0.0), _FROM.get(LinkLoad(min(before + 1, LinkLoad.FULL)), 0.0)
    margin = min(_MARGIN, lower / 2 or _FROM[LinkLoad.SOME] / 2)
    kept = lower - margin <= share and (before is LinkLoad.FULL or share < upper + margin)
    return before if kept else found


def share_of(line: Line, graph: nx.Graph[str], readings: Readings) -> float | None:
    """The load of a line, 0 to 1 and above; None where its traffic or its rate is not known.

    A GPU's counters give the traffic of all its links of a kind together: a line has a load where
    it stands for all of them. PCIe beyond the first bridge is shared with others.
    """
    known = {end for end in line.ends if readings.gpu(end) is not None}
    if not known and line.kind is WireKind.PCIE:
        return _nic_share(line, graph, readings)
    if len(known) != 1 or line.kind not in _COUNTED:
        return None
    (gpu,) = known
    reading = readings.gpu(gpu)
    if reading is None:
        return None
    out, into = pace(reading, line.kind)
    rates = [graph.edges[gpu, other]["wire"].payload_gbs for other in _others(line, gpu)]
    if out is None or into is None or not rates or None in rates or not sum(rates):
        return None
    return float(max(out, into) / (sum(rates) * _GIGA))


def _nic_share(line: Line, graph: nx.Graph[str], readings: Readings) -> float | None:
    """The load of the slot of a NIC, by what its ports count."""
    for a, b in line.edges:
        for end in (a, b):
            out, into = readings.nic(end)
            rate = graph.edges[a, b]["wire"].payload_gbs
            if out is not None and into is not None and rate:
                return float(max(out, into) / (rate * _GIGA))
    return None


def _others(line: Line, gpu: str) -> Iterator[str]:
    """The other ends of the edges of a line that a GPU has."""
    return (other for edge in line.edges if gpu in edge for other in edge - {gpu})


def loads(
    drawing: Drawing, graph: nx.Graph[str], readings: Readings, before: Mapping[Ends, LinkLoad]
) -> dict[Ends, LinkLoad]:
    """The step of each line whose load is known, by the ends of the line."""
    shares = {line.ends: share_of(line, graph, readings) for line in drawing.lines}
    return {
        ends: load_of(share, before.get(ends))
        for ends, share in shares.items()
        if share is not None
    }
