"""The live figures of the drawing: utilisation in GPU boxes, traffic beside their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.topology.model import units
from gputop.topology.sketch.drawing import Box, BoxKind, Drawing, Line, Slot
from gputop.topology.sketch.names import fit, short
from gputop.topology.wiring.packages import PREFIX
from gputop.topology.wiring.wires import Wire, WireKind
from gputop.widgets.gpu_cells import fast_traffic

if TYPE_CHECKING:
    import networkx as nx

    from gputop.screens.map.measured import MeasuredLines
    from gputop.topology.model.readings import GpuReading, Readings

Figure = tuple[Slot, str, str]
"""Slot, text and style."""
_IDLE_GBS = 0.005
_IDLE = "idle"
_GIGA = 1e9
_NUMBER = 6
"""Cells of " 100 %"."""
_BAR_FROM = 10
"""From this many cells on, a number has a bar beside it."""


def figures(
    drawing: Drawing,
    graph: nx.Graph[str],
    readings: Readings,
    cursor: str | None,
    measured: MeasuredLines | None = None,
) -> list[Figure]:
    """Texts for the slots of a drawing; slots of unknown figures stay empty, except utilisation.

    A line without traffic shows its measured figure.
    """
    found: list[Figure] = []
    for box in drawing.boxes:
        if box.live is not None:
            # A partition has the address of its GPU before the slash.
            reading = readings.gpu(box.id.partition("/")[0])
            suffix = "" if box.framed else "-chip"
            found += [
                (slot, text, style + suffix) for slot, text, style in _load(reading, box.live)
            ]
    for line in drawing.lines:
        if line.live is not None:
            if (nic := _nic(drawing, line)) is not None:
                found.append((line.live, _of_nic(nic, line, readings), "live"))
                continue
            text, style, mesh = _traffic(line, readings), "live", ""
            measured_text = "" if measured is None else measured.of(line)
            # "↑0.0 ↓0.0" is as good as idle.
            if measured_text and (text == _IDLE or set(text) <= set("↑↓0. ")):
                text, style = measured_text, "bad" if measured_text[0] in "▼!" else "live"
            else:
                mesh = _of_mesh(line, graph, cursor)
            # What moves; how the selected GPU is joined to this one where that differs or lacks.
            first = mesh.startswith("no") or line.ends[0].startswith(PREFIX)
            ways = (*filter(None, (mesh, text) if first else (text, mesh)), "")
            found.append((line.live, fit(ways, line.live.width), style))
    return [figure for figure in found if figure[1]]


def _load(reading: GpuReading | None, slot: Slot) -> list[Figure]:
    """Utilisation as a number, with a bar where there is room."""
    if reading is None:
        return []
    if reading.lost:
        return [(slot, fit(("lost !", "!"), slot.width), "bad")]
    percent = reading.utilization_percent
    words = units.percent(percent)
    if percent is None or slot.width < _BAR_FROM:
        # Never cut, as 99 % would read 9. The last candidate says that there is no room.
        ways = (words.replace(" ", ""), words.partition(" ")[0], "…", "")
        return [(slot, fit(ways, slot.width), "live")]
    room = slot.width - _NUMBER
    full = round(min(max(percent, 0.0), 100.0) * room / 100)
    rest = Slot(slot.x + full, slot.y, room - full)
    number = Slot(slot.x + room, slot.y, _NUMBER)
    return [
        (Slot(slot.x, slot.y, full), "━" * full, "bar"),
        (rest, "─" * (room - full), "bar-rest"),
        (number, words.rjust(_NUMBER), "live"),
    ]


def _nic(drawing: Drawing, line: Line) -> Box | None:
    """The NIC that a line leads to."""
    boxes = (drawing.box(end) for end in line.ends)
    return next((box for box in boxes if box is not None and box.kind is BoxKind.NIC), None)


def _of_nic(nic: Box, line: Line, readings: Readings) -> str:
    """What a NIC sends and receives, over the rate of its slot; "" where it rests, or none knows.

    Fewer lanes than there could be say more than what goes over them.
    """
    paces = [readings.nic(member) for member in nic.members]
    if line.live is None or line.weak or any(None in pace for pace in paces):
        return ""
    out, into = (sum(pace[way] or 0.0 for pace in paces) for way in (0, 1))
    if max(out, into) < _IDLE_GBS * _GIGA:
        return ""
    hidden = max((len(label.text) for label in line.labels), default=0)
    ways = (f"↑{_rate(out)} ↓{_rate(into)}", f"↑{_rate(out)}↓{_rate(into)}", "")
    return fit(ways, line.live.width).ljust(hidden)


def _traffic(line: Line, readings: Readings) -> str:
    """Rates out of the GPU and into it, GB/s, with the arrows of Node."""
    known = map(readings.gpu, line.ends)
    reading = next((reading for reading in known if reading is not None), None)
    if reading is None:
        return ""
    out, into = pace(reading, line.kind)
    if out is None or into is None:
        return ""
    if max(out, into) < _IDLE_GBS * _GIGA:
        return _IDLE
    return f"↑{_rate(out)} ↓{_rate(into)}"


def pace(reading: GpuReading, kind: WireKind) -> tuple[float | None, float | None]:
    """Bytes a second out of and into a GPU over its links of a kind of wire."""
    if kind is WireKind.PCIE:
        return reading.pcie_tx_bytes_per_second, reading.pcie_rx_bytes_per_second
    return fast_traffic(reading)


def _rate(bytes_per_second: float) -> str:
    """GB/s in at most four characters."""
    rate = bytes_per_second / _GIGA
    return "0" if rate < _IDLE_GBS else f"{rate:.1f}" if rate < 9.95 else f"{rate:.0f}"


def _kinds(graph: nx.Graph[str], node: str) -> list[str]:
    return [getattr(edge.get("wire"), "kind", "") for edge in graph[node].values()]


def _of_mesh(line: Line, graph: nx.Graph[str], cursor: str | None) -> str:
    """The link between this line's GPU and the selected one, when the mesh is only described."""
    gpu = line.ends[0]
    if line.ends[1] not in ("mesh", gpu) or cursor is None:
        return ""
    if gpu == cursor:
        return f"to {len(line.edges)} GPUs"
    if gpu.startswith(PREFIX):
        return _of_package(line, graph, cursor)
    if frozenset((gpu, cursor)) not in line.edges:
        to = str(graph.nodes[cursor].get("label") or "")
        joins = any(kind in ("xgmi", "nvlink") for kind in _kinds(graph, cursor))
        return fit((f"not to {to}", "no link"), 13) if joins else ""
    return _to(str(graph.nodes[cursor].get("label") or ""), graph.edges[gpu, cursor]["wire"])


def _to(label: str, wire: Wire) -> str:
    """A link to what is called so, with its rate where that is known."""
    if wire.payload_gbs is None:
        return fit((f"to {label}", ""), 13)
    return fit((f"to {label}: {short(wire.payload_gbs)}", short(wire.payload_gbs)), 13)


def _of_package(line: Line, graph: nx.Graph[str], cursor: str) -> str:
    """The link between this line's package and the one whose part is selected."""
    record = graph.nodes[cursor].get("record")
    parent = getattr(record, "parent", None) or cursor
    if line.ends[0] == PREFIX + parent:
        ends = {end for edge in line.edges for end in edge if end != cursor}
        homes = {getattr(graph.nodes[end].get("record"), "parent", None) or end for end in ends}
        return f"to {len(homes - {parent})} others"
    edge = next((edge for edge in line.edges if cursor in edge), None)
    to = parent.rpartition(":")[0].rpartition(":")[2]
    if edge is None:
        return fit((f"not to {to}", "no link"), 13)
    a, b = edge
    return _to(to, graph.edges[a, b]["wire"])
