"""The last minutes: of one GPU large, or of all GPUs as a wall of strips."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gputop.live.recent import LINKS, PCIE, POWER, UTILISATION, figures_of
from gputop.screens.charts import area, ceiling, link_bytes, spark
from gputop.topology.hardware.vendors import AMD, vendor_of
from gputop.topology.model.units import UNKNOWN, figure
from gputop.topology.wiring.gpu_names import gpu_label
from gputop.widgets.spans import Line, Span, left, right

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gputop.live.recent import Recent
    from gputop.widgets.gpu_cells import Row

_SCALE = 7
"""Cells of the scale at the left."""
_LEAST = 3
"""Lines that a chart takes at least."""
_NOW = 8
"""Cells of a figure of now beside its strip."""
_LONGEST = 150
"""Most cells of a chart."""
_LEAST_SECONDS = 3.0
"""A span of time has two readings at least at one a second, and a chart moves as seldom."""
_LEAST_TOP = 1e9
"""Bytes a second at the top of a scale, at least: an idle link draws no mountains."""


def plot_lines(row: Row, width: int, height: int) -> tuple[Line, ...]:
    """Three charts one above the other, as high as the room allows."""
    if row.recent is None or width < _SCALE + 10:
        return ()
    link = _links_of(row)
    count = min(width - _SCALE - 1, _LONGEST)
    charts = [("Utilisation", UTILISATION, 100.0, 1.0, "%", "bar")]
    for title, kept, most, ink in (
        (link, LINKS, link_bytes(row.gpu), "link-nvlink"),
        ("PCIe", PCIE, 0.0, "link-pcie"),
    ):
        known = _values(row.recent, row, kept, count)
        if any(value is not None for value in known):
            highest = max((value for value in known if value is not None), default=0.0)
            top = most if most and highest > most / 4 else _ceiling(highest)
            charts.append((title, kept, top, 1e-9, "GB/s, both ways", ink))
    charts = charts[: max((height - 1) // (_LEAST + 1), 1)]
    each = max((height - 1) // len(charts), 2)
    lines: list[Line] = []
    for title, kept, top, factor, unit, ink in charts:
        values = _values(row.recent, row, kept, count)
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
    axis = left(f"{_span(row.recent.span_seconds)} ago", count - 3) + "now"
    lines.append(((" " * _SCALE + axis, "muted"),))
    return tuple(lines)


def wall_lines(rows: Sequence[Row], selected: str, width: int, height: int) -> tuple[Line, ...]:
    """A strip a GPU for its utilisation, its links and its power, under one scale for all GPUs.

    `selected`: the address of the GPU that is shown where there are too few lines for all.
    """
    recent = next((row.recent for row in rows if row.recent is not None), None)
    if recent is None:
        return ()
    label = max(len(gpu_label(row.gpu)) for row in rows) + 3
    strips = _strips(rows, recent)
    each = (width - label) // len(strips)
    count = max(min(each - _NOW, _LONGEST), 1)
    heads = [left(strip.head, each) for strip in strips]
    lines: list[Line] = [((" " * label + "".join(heads), "muted"),)]
    chosen = next((at for at, row in enumerate(rows) if row.gpu.address == selected), 0)
    first = max(min(chosen - (height - 1) // 2, len(rows) - height + 1), 0)
    for row in rows[first : first + height - 1]:
        sign, ink = row.mark
        name = "strong" if row.gpu.address == selected else "muted"
        head = ((sign or " ") + " ", ink), (left(gpu_label(row.gpu), label - 2), name)
        lines.append((*head, *_stripped(row, recent, strips, count, each)))
    return tuple(lines)


def _stripped(
    row: Row, recent: Recent, strips: Sequence[_Strip], count: int, each: int
) -> Iterator[Span]:
    """The strips of one GPU, each with the figure of now."""
    for strip in strips:
        now = None if row.reading is None else figures_of(row.reading)[strip.kept]
        known = UNKNOWN if now is None else _number(now * strip.factor)
        yield from spark(_values(recent, row, strip.kept, count), strip.top, strip.ink)
        yield left(right(known, _NOW - 2), each - count), ""


class _Strip(NamedTuple):
    """What the strips of one column show."""

    title: str
    kept: int
    top: float
    factor: float
    unit: str
    ink: str

    @property
    def head(self) -> str:
        return f"{self.title} 0–{_number(self.top * self.factor)} {self.unit}"


def _strips(rows: Sequence[Row], recent: Recent) -> list[_Strip]:
    """The figures that any GPU has."""
    found = [_Strip("Utilisation", UTILISATION, 100.0, 1.0, "%", "bar")]
    if most := recent.most(LINKS):
        top = max(link_bytes(row.gpu) for row in rows) or _ceiling(most)
        link = f"{_links_of(rows[0])} ↑↓"
        found.append(_Strip(link, LINKS, top, 1e-9, "GB/s", "link-nvlink"))
    if most := recent.most(POWER):
        top = max(row.gpu.power_limit_watts or 0.0 for row in rows) or ceiling(most)
        found.append(_Strip("Power", POWER, top, 1.0, "W", "accent"))
    return found


def _values(recent: Recent, row: Row, kept: int, count: int) -> list[float | None]:
    """So many cells of what was read: spans of two seconds at least, each over several cells."""
    seconds = recent.span_seconds
    spans = min(count, max(int(seconds / _LEAST_SECONDS), 1))
    values = recent.bins(row.gpu.address, kept, spans, seconds).values
    return [values[cell * spans // count] for cell in range(count)]


def wall_title(rows: Sequence[Row]) -> str:
    """What the strips of the wall are."""
    recent = next((row.recent for row in rows if row.recent is not None), None)
    return "Every GPU" if recent is None else f"Every GPU · {last(recent)}"


def last(recent: Recent) -> str:
    """What a chart covers: "last 5 min"."""
    return f"last {_span(recent.span_seconds)}"


def _ceiling(bytes_per_second: float) -> float:
    return max(ceiling(bytes_per_second / 1e9) * 1e9, _LEAST_TOP)


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _links_of(row: Row) -> str:
    vendor = vendor_of(row.gpu)
    return AMD.link if row.gpu.xgmi else vendor.link if vendor.known else "Links"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else figure(value)
