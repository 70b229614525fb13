"""Tab Figures: a strip for each measured figure, every node a cell, outliers in sight."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gputop.screens.fleet.cells import chunks, merged, shared, strip_cells
from gputop.screens.fleet.tab import FleetFacts, FleetTab, counted
from gputop.terminal.clean import clean
from gputop.topology.fleet.outliers import LEAST_NODES, Strip
from gputop.topology.hardware.specs import LOOK
from gputop.topology.model.severity import FigureBasis
from gputop.widgets.spans import Line, heads, left, right, wrapped

_WIDE = 110
"""Cells of a row from which it names the worst node, and has its name whole."""
_WORST = 18
_AXIS = 8
_MOST_HIGH, _LEAST_HIGH = 12, 3
"""Rows of the bars in the panel."""
_MOST_NAMED = 12
_EIGHTHS = " ▁▂▃▄▅▆▇█"


class FiguresTab(FleetTab):
    """A row for each kind of figure of each product, those with outliers first."""

    stacked = True
    nothing = ((" no figures were measured", "muted"),)
    commands = (
        ("gputop check --json -o DIR/%n.json.gz", "on each node measures it, without --quick"),
    )

    def __init__(self, facts: FleetFacts) -> None:
        super().__init__(facts)
        ordered = sorted(facts.fleet.strips, key=lambda strip: -len(strip.outliers))
        self._strips = {
            f"{strip.product} {strip.figure.name} {strip.figure.unit}": strip for strip in ordered
        }
        self._several = len({strip.product for strip in ordered}) > 1

    @property
    def names(self) -> Sequence[str]:
        """Figures."""
        return tuple(self._strips)

    def caption(self) -> str:
        """How many figures, and what a bar means."""
        odd = sum(bool(strip.outliers) for strip in self._strips.values())
        have = f"{odd} with outliers" if odd else "none with outliers"
        return (
            f"{counted(len(self._strips), 'figure')}, {have} · worst of each node, taller is better"
        )

    def _widths(self, width: int) -> tuple[int, int]:
        """Cells of the name and of the bars."""
        longest = max((len(self._named(strip)) for strip in self._strips.values()), default=0)
        name = min(longest + 1, 34 if width >= _WIDE else 25)
        return name, max(width - name - 30 - _WORST * (width >= _WIDE), 4)

    def head(self, width: int) -> Line:
        """Name, median, unit, share of what is healthy, outliers, the worst node, cells."""
        name, cells = self._widths(width)
        most = max((len(strip.hosts) for strip in self._strips.values()), default=0)
        return heads(
            f" {left('figure', name)}",
            right("median", 6),
            f" {left('unit', 7)}",
            right("healthy", 8),
            right("odd", 5),
            *[left("  worst", _WORST)] * (width >= _WIDE),
            f"  {left(shared(most, cells), cells)}",
        )

    def row(self, name: str, width: int, selected: bool = False) -> Line:
        """One strip."""
        strip = self._strips[name]
        wide, cells = self._widths(width)
        share, ink = _judged(strip)
        value, host = self._ordered(strip)[0]
        worst = f"  {left(clean(host, 64), _WORST - 11)} {right(_away(value, strip), 8)}"
        odd = "bad" if strip.outliers else "muted"
        step = max(cells // max(len(strip.hosts), 1), 1)
        return (
            (f" {left(self._named(strip), wide)}", "strong" if strip.outliers else ""),
            (right(f"{strip.median:.4g}", 6), ""),
            (f" {left(clean(strip.figure.unit, 9), 7)}", "muted"),
            (right(share, 8), ink),
            (right(f"▼ {len(strip.outliers)}" if strip.outliers else "–", 5), odd),
            *[(worst, odd)] * (width >= _WIDE),
            ("  ", ""),
            *merged(
                (text.ljust(step) if ink == "bad" else text * step, ink)
                for text, ink in strip_cells(strip, cells)
            ),
        )

    def _named(self, strip: Strip) -> str:
        name = clean(strip.figure.name, 120).replace(" over ", " ")
        name = name.removeprefix("p2p ").removeprefix("collectives ")
        if not self._several:
            return name
        count, _, model = clean(strip.product, 80).partition(" × ")
        short = next((word for word in model.split() if word != "NVIDIA"), "")
        return f"{count}×{short} {name}" if short else name

    def title(self, name: str) -> str:
        """The figure and the nodes."""
        strip = self._strips[name]
        return clean(f"{strip.figure.name} · {strip.product}", 140)

    def detail(self, name: str, width: int, height: int) -> Sequence[Line]:
        """Median, band, limit, the nodes as a field, and the worst by name."""
        strip = self._strips[name]
        kind, unit = strip.figure, clean(strip.figure.unit, 20)
        spread = f" ± {1.4826 * strip.mad / strip.median:.1%}".replace("%", " %")
        said = f"median {strip.median:.4g} {unit}{spread if strip.median else ''}"
        said += f" over {counted(len(strip.hosts), 'node')}"
        if kind.healthy is not None:
            said += f" · healthy {kind.healthy:.4g}, {clean(kind.basis, 20)}"
        if strip.limit is None:
            said += f" · fewer than {LEAST_NODES} nodes: no outlier can be named"
        else:
            side = "above" if strip.falling else "below"
            said += f" · an outlier is {side} {strip.limit:.4g}"
        lines: list[Line] = [*wrapped(((said, ""),), width), ()]
        high = min(height - len(lines) - 7, _MOST_HIGH)
        if high >= _LEAST_HIGH and strip.values:
            lines += [*_bars(strip, width, high), ()]
        return [*lines, *self._worst(strip, width)]

    def _ordered(self, strip: Strip) -> list[tuple[float, str]]:
        """Values and their nodes, the worst first."""
        return sorted(zip(strip.values, strip.hosts, strict=True), reverse=strip.falling)

    def _worst(self, strip: Strip, width: int) -> list[Line]:
        ordered = self._ordered(strip)[:_MOST_NAMED]
        longest = max((len(host) for _, host in ordered), default=1)
        odd = frozenset(strip.outliers)
        column = longest + 24
        cells: list[Line] = []
        for value, host in ordered:
            sign, ink = ("▼", "bad") if host in odd else ("·", "muted")
            cells.append(
                ((f" {sign} ", ink), (left(clean(host, 64), longest), "strong"),
                 (left(f" {value:7.4g} {_away(value, strip)}", column - longest - 3), ""))
            )  # fmt: skip
        across = max(width // column, 1)
        head: Line = (
            (f"The worst, {clean(strip.figure.unit, 20)}", "key bold"),
            (" · Enter lists its nodes, the worst first", "muted"),
        )
        return [
            head,
            *(
                tuple(span for line in cells[start : start + across] for span in line)
                for start in range(0, len(cells), across)
            ),
        ]

    def hosts(self, name: str) -> tuple[str, ...]:
        """All nodes that have it, the worst first."""
        return tuple(host for _, host in self._ordered(self._strips[name]))

    def odd(self, name: str) -> tuple[str, ...]:
        """The outliers."""
        return self._strips[name].outliers

    def copied(self, name: str) -> tuple[str, ...]:
        """Lines for Slurm where there are outliers, else the figure."""
        strip = self._strips[name]
        figure = f"{strip.figure.name}: median {strip.median:.4g} {strip.figure.unit}"
        return self.facts.drains(strip.outliers) or (figure,)


def _away(value: float, strip: Strip) -> str:
    """How far a node is from the median: "-15.1 %"."""
    away = (value - strip.median) / strip.median if strip.median else 0.0
    return f"{away:+.1%}".replace("%", " %")


def _judged(strip: Strip) -> tuple[str, str]:
    """The median against what is healthy: a sign and a share, and the ink; "–" for no reference."""
    kind = strip.figure
    if not kind.healthy or not strip.median:
        return "–", "muted"
    share = kind.healthy / strip.median if strip.falling else strip.median / kind.healthy
    said = f"{share * 100:.0f} %"
    if kind.basis == FigureBasis.ESTIMATE:
        return f"~{said}", "muted"
    least = LOOK if strip.falling or kind.low is None else kind.low / kind.healthy
    return (f"✓ {said}", "good") if share >= least else (f"▼ {said}", "warn")


def _bars(strip: Strip, width: int, high: int) -> list[Line]:
    """The nodes as bars in the order of their names, with an axis; below it outliers by name."""
    room, odd = width - _AXIS - 1, frozenset(strip.outliers)
    parts = list(zip(chunks(strip.hosts, room), chunks(strip.values, room), strict=True))
    step = max(min(room // len(parts), 12), 1)
    values = [(max if strip.falling else min)(part) for _, part in parts]
    inks = ["muted" if odd.isdisjoint(hosts) else "bad" for hosts, _ in parts]
    marks = [one for one in (max(values), strip.limit, strip.median) if one is not None]
    low, top = min(*marks, *values), max(*marks, *values)
    base = low - (top - low or top or 1.0) / high
    scale = 8 * high / (top - base)
    labels = {math.ceil((mark - base) * scale / 8): f"{mark:.4g}" for mark in marks}
    lines: list[Line] = []
    for row in range(high, 0, -1):
        tall = [min(max(round((value - base) * scale) - 8 * (row - 1), 0), 8) for value in values]
        bars = ((_EIGHTHS[part] * max(step - 1, 1) + " " * (step > 1)) for part in tall)
        axis = f"{right(labels.get(row, ''), _AXIS - 2)} {'┤' if row in labels else '│'}"
        lines.append(((axis, "muted"), *merged(zip(bars, inks, strict=True))))
    named = " " * (room + _AXIS)
    for place, (hosts, _) in enumerate(parts):
        start = _AXIS + place * step
        if inks[place] == "bad" and not named[max(start - 1, 0) : start + 6].strip():
            host = clean(next(one for one in hosts if one in odd), 20)
            named = f"{named[:start]}{host}{named[start + len(host) :]}"
    return [*lines, ((named.rstrip()[:width], "bad"),)]
