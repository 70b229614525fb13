"""The rings and trees over the map in words: the head, and the way between two devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.screens.map.info import label
from gputop.topology.explain.pair_summary import ways_of
from gputop.topology.explain.rank_orders import Laid
from gputop.topology.model.english import plural
from gputop.topology.sketch.names import short
from gputop.topology.wiring.paths import Path, over_relays, path_between

if TYPE_CHECKING:
    from gputop.topology.explain.rank_orders import RankOrder
    from gputop.topology.report import Report
    from gputop.topology.wiring.graph import Graph
    from gputop.widgets.spans import Line


def order_line(laid: RankOrder, graph: Graph) -> Line:
    """What is laid over the drawing, in one line."""
    names = [label(graph, node) for node in laid.order]
    brief = [names[0], *(name.removeprefix("GPU") for name in names[1:])]
    back = (brief[0].removeprefix("GPU"),) * (laid.algorithm is Laid.RING)
    way = "→".join((*brief, *back))
    if laid.algorithm is Laid.NVLS:
        way = f"all {len(names)} GPUs through NVSwitch"
    part, channels = len(laid.channels), plural(laid.graph.channels, "channel")
    many = channels if part == laid.graph.channels else f"{part} of {channels}"
    each = " each" * (laid.graph.channels > 1)
    rate = f"{short(laid.graph.bw_intra)} GB/s{each}, {laid.graph.type_intra}"
    narrow, ink = "", "bad"
    if laid.narrow_gbs is not None and laid.narrow:
        narrow = f", ▲ narrowest {short(laid.narrow_gbs)}"
    elif laid.narrow_gbs is not None:
        narrow, ink = f", every hop {short(laid.narrow_gbs)}", "muted"
    return (
        (f" {laid.algorithm} ", "key bold"),
        (way, "accent bold"),
        (f"  {many}, {rate}", ""),
        (narrow, ink),
        (f" · {laid.chosen}" if laid.chosen else "", "muted"),
        ("  r", "key bold @screen.lay_over"),
        (" next ", "muted"),
        ("Esc", "key bold"),
        (" off", "muted"),
    )


def way(report: Report, a: str, b: str) -> Path | None:
    """The way of the data between two devices; where that is not known, the best one."""
    found = ways_of(report.node, a, b)
    if len(found) > 1:
        over = (a, *(path.nodes[0] for path in found[1:] if path is not None), b)
        return over_relays(report.graph, over) or path_between(report.graph, a, b)
    return found[0] or path_between(report.graph, a, b)
