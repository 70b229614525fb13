"""The last minutes of one GPU, large: utilisation, traffic over its links, traffic over PCIe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.live.recent import LINKS, PCIE, UTILISATION, figures_of
from gputop.screens.node.cells import link_bytes
from gputop.screens.node.charts import area, ceiling
from gputop.topology.hardware.vendors import AMD, vendor_of
from gputop.topology.model.units import figure
from gputop.widgets.spans import Line, left, right

if TYPE_CHECKING:
    from gputop.widgets.gpu_cells import Row

SECONDS = 300.0
_SCALE = 7
"""Cells of the scale at the left."""
_LEAST = 3
"""Lines that a chart takes at least."""
_LONGEST = 150
"""Most spans of time: one of two seconds has two readings."""


def plot_lines(row: Row, width: int, height: int) -> tuple[Line, ...]:
    """Three charts one above the other, as high as the room allows."""
    if row.recent is None or width < _SCALE + 10:
        return ()
    vendor = vendor_of(row.gpu)
    link = AMD.link if row.gpu.xgmi else vendor.link if vendor.known else "Links"
    count = min(width - _SCALE - 1, _LONGEST)
    charts = [("Utilisation", UTILISATION, 100.0, 1.0, "%", "bar")]
    for title, kept, most, ink in (
        (link, LINKS, link_bytes(row.gpu), "link-nvlink"),
        ("PCIe", PCIE, 0.0, "link-pcie"),
    ):
        known = row.recent.bins(row.gpu.address, kept, count, SECONDS).values
        if any(value is not None for value in known):
            highest = max((value for value in known if value is not None), default=0.0)
            top = most if most and highest > most / 4 else ceiling(highest / 1e9) * 1e9
            charts.append((title, kept, top, 1e-9, "GB/s, both ways", ink))
    charts = charts[: max((height - 1) // (_LEAST + 1), 1)]
    each = max((height - 1) // len(charts), 2)
    lines: list[Line] = []
    for title, kept, top, factor, unit, ink in charts:
        values = row.recent.bins(row.gpu.address, kept, count, SECONDS).values
        now = None if row.reading is None else figures_of(row.reading)[kept]
        lines.append(
            (
                (f" {title} ", "strong"),
                (f"{'–' if now is None else _number(now * factor)} {unit}", "muted"),
            )
        )
        drawn = area(values, top, each - 1, ink)
        for place, line in enumerate(drawn):
            scale = _number(top * factor) if place == 0 else "0" if place == len(drawn) - 1 else ""
            lines.append(((right(scale, _SCALE - 1) + " ", "muted"), *line))
    axis = left("5 min ago", count - 3) + "now"
    lines.append(((" " * _SCALE + axis, "muted"),))
    return tuple(lines)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else figure(value)
