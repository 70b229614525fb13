"""Tab Figures: a strip for each measured figure, every node a cell, outliers in sight."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.screens.fleet.cells import in_rows, merged, shared, strip_cells
from gputop.screens.fleet.tab import FleetFacts, FleetTab, counted
from gputop.terminal.clean import clean
from gputop.topology.fleet.outliers import LEAST_NODES, Strip
from gputop.widgets.spans import Line, left, right, wrapped

_NAME, _FIGURE, _ODD = 34, 15, 6
_MOST_ROWS = 6
"""Rows of cells in the panel."""
_MOST_NAMED = 12


class FiguresTab(FleetTab):
    """A row for each kind of figure of each product, those with outliers first."""

    stacked = True
    nothing = (
        (
            " no figures: nodes measure with `gputop check --json -o DIR/%n.json.gz`, not --quick",
            "muted",
        ),
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
        name = _NAME if width >= 110 else 22
        return name, max(width - name - _FIGURE - _ODD - 3, 4)

    def head(self, width: int) -> Line:
        """Name, median, outliers, cells."""
        name, cells = self._widths(width)
        most = max((len(strip.hosts) for strip in self._strips.values()), default=0)
        return (
            (f" {left('figure', name)}{right('median', _FIGURE)}{right('▼', _ODD)}  ", "muted"),
            (left(shared(most, cells), cells), "muted"),
        )

    def row(self, name: str, width: int, selected: bool = False) -> Line:
        """One strip."""
        strip = self._strips[name]
        wide, cells = self._widths(width)
        figure = f"{strip.median:.4g} {clean(strip.figure.unit, 9)}"
        odd = f"{len(strip.outliers)} ▼" if strip.outliers else "–"
        return (
            (f" {left(self._named(strip), wide)}", "strong" if strip.outliers else ""),
            (right(figure, _FIGURE), ""),
            (right(odd, _ODD), "bad" if strip.outliers else "muted"),
            ("  ", ""),
            *merged(strip_cells(strip, cells)),
        )

    def _named(self, strip: Strip) -> str:
        # Without the probe, whose name the panel has: "write bandwidth NV18".
        _, _, quantity = clean(strip.figure.key, 120).partition(" ")
        kind = clean(strip.figure.over, 40)
        name = (quantity or clean(strip.figure.key, 120)).replace("_", " ")
        name += "" if kind in ("GPU", "node") else f" {kind}"
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
        room = max(width - 1, 1) * min(max(height - 10, 1), _MOST_ROWS)
        lines += in_rows(strip_cells(strip, room), width)
        lines += [
            ((f" {shared(len(strip.hosts), room)}, in the order of their names", "muted"),),
            (),
        ]
        return [*lines, *self._worst(strip, width)]

    def _worst(self, strip: Strip, width: int) -> list[Line]:
        unit = clean(strip.figure.unit, 20)
        ordered = sorted(zip(strip.values, strip.hosts, strict=True), reverse=strip.falling)[
            :_MOST_NAMED
        ]
        longest = max((len(host) for _, host in ordered), default=1)
        odd = frozenset(strip.outliers)
        column = longest + 30
        cells: list[Line] = []
        for value, host in ordered:
            sign, ink = ("▼", "bad") if host in odd else ("·", "muted")
            away = (value - strip.median) / strip.median if strip.median else 0.0
            text = f"{right(f'{value:.4g}', 7)} {unit} {away:+.1%}".replace("%", " %")
            cells.append(
                ((f" {sign} ", ink), (left(clean(host, 64), longest), "strong"),
                 (left(f" {text}", column - longest - 3), ""))
            )  # fmt: skip
        across = max(width // column, 1)
        head: Line = (
            ("The worst", "key bold"),
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
        strip = self._strips[name]
        ordered = sorted(zip(strip.values, strip.hosts, strict=True), reverse=strip.falling)
        return tuple(host for _, host in ordered)

    def odd(self, name: str) -> tuple[str, ...]:
        """The outliers."""
        return self._strips[name].outliers

    def copied(self, name: str) -> tuple[str, ...]:
        """Lines for Slurm where there are outliers, else the figure."""
        strip = self._strips[name]
        figure = f"{strip.figure.name}: median {strip.median:.4g} {strip.figure.unit}"
        return self.facts.drains(strip.outliers) or (figure,)
