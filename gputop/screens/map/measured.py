"""Measured figures beside the lines of the map: copies from the selected GPU, host links."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from gputop.measuring.judged import judged
from gputop.measuring.quantities import on_map, unit_text
from gputop.probes.protocol.quantity import DEVICE, PAIR
from gputop.screens.map.links import NVSWITCH
from gputop.topology.model.units import UNKNOWN
from gputop.topology.sketch.drawing import Line
from gputop.topology.sketch.names import short
from gputop.topology.wiring.wires import WireKind
from gputop.widgets.measure import measured
from gputop.widgets.meters import verdict_of
from gputop.widgets.spans import Line as Spans
from gputop.widgets.spans import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gputop.measuring.judged import Judged
    from gputop.screens.map.links import MapLink
    from gputop.topology.model.snapshot import Measurement, NodeSnapshot
    from gputop.topology.report import Report

_GRAVE = ("low", "too long", "high", "no reference", "healthy")


class MeasuredLines:
    """Texts for the lines of a drawing; nothing where nothing was measured."""

    def __init__(self, report: Report, cursor: str | None) -> None:
        self._judged: Judged | None = None
        self._cursor = cursor
        self._pairs: dict[tuple[str, str], list[Measurement]] = {}
        self._host: dict[str, list[Measurement]] = {}
        if not report.snapshot.measurements:
            return
        self._judged = judged(report)
        snapshot = report.snapshot
        for declared, variant in on_map(PAIR):
            for pair, figure in measured(snapshot, declared.key, variant or None).items():
                self._pairs.setdefault(pair, []).append(figure)
        for declared, variant in on_map(DEVICE):
            for figure in snapshot.measurements:
                if (
                    figure.quantity == declared.key
                    and variant in ("", figure.variant)
                    and figure.src
                    and not figure.on_cpu
                    and figure.value is not None
                ):
                    self._host.setdefault(figure.src, []).append(figure)

    @property
    def legend(self) -> Spans:
        """What the figures beside the lines are; each example is one that is drawn."""
        own = (found for (src, _), found in self._pairs.items() if src == self._cursor)
        first = [figures[0] for figures in own]
        host = next(iter(self._host.values()), [])
        figures = [*first, *host]
        if not figures:
            return ()
        said: list[Span] = [(f"  {figures[0].basis} GB/s", "muted")]
        if first:
            said += [
                (": ", "muted"),
                (self._signed(first[:1]), ""),
                (" from the selected GPU", "muted"),
            ]
        if host:
            said += [(" · " if first else ": ", "rule"), (self._signed(host), "")]
            said.append((" PCIe to/from a GPU", "muted"))
        return tuple(said)

    @property
    def basis(self) -> str:
        """What its figures are: "measured" or "simulated"."""
        figures = (*self._pairs.values(), *self._host.values())
        return next((found[0].basis for found in figures), "measured")

    def of(self, line: Line) -> str:
        """The figure beside a line: "✓ 396", "▼ 27.7/55.4"; "" where there is none."""
        figures: list[Measurement] = []
        for end in line.ends:
            if line.kind is WireKind.PCIE:
                figures = figures or self._host.get(end, [])
            elif self._cursor is not None and (self._cursor, end) in self._pairs:
                figures = self._pairs[self._cursor, end]
        if not figures or self._judged is None:
            return ""
        if any(figure.wrong for figure in figures):
            return "! wrong"
        return self._signed(figures)

    def _signed(self, figures: list[Measurement]) -> str:
        assert self._judged is not None
        verdicts = [verdict_of(self._judged.of(figure)) for figure in figures]
        sign = min(verdicts, key=lambda said: _GRAVE.index(said[1]))[0]
        return f"{sign} " + "/".join(_brief(figure.value) for figure in figures)

    def _of_link(self, link: MapLink) -> Iterable[Measurement]:
        """What was measured over a link: of one to an NVSwitch all copies of its GPU."""
        if link.role == "GPU–PCIe":
            return self._host.get(link.device, ())
        if link.role == "GPU–GPU":
            ends = ((link.device, link.other), (link.other, link.device))
            return chain.from_iterable(self._pairs.get(pair, ()) for pair in ends)
        own = [pair for pair in self._pairs if pair[0] == link.device and link.other == NVSWITCH]
        return chain.from_iterable(map(self._pairs.__getitem__, own))

    def of_links(self, group: Sequence[MapLink]) -> str:
        """The least and the most that was measured over some links: "338–395"; "–" for nothing."""
        figures = chain.from_iterable(map(self._of_link, group))
        known = [figure.value for figure in figures if figure.value is not None]
        if not known:
            return UNKNOWN
        low, high = _brief(min(known)), _brief(max(known))
        return low if low == high else f"{low}–{high}"


def there_and_back(snapshot: NodeSnapshot, a: str, b: str) -> tuple[str, str]:
    """The basis of the figures and both ways, "measured", "396 / 395 GB/s"; "" for nothing."""
    texts = []
    basis = ""
    for declared, variant in on_map(PAIR):
        found = measured(snapshot, declared.key, variant or None)
        figures = [found.get(pair) for pair in ((a, b), (b, a))]
        values = [None if figure is None else figure.value for figure in figures]
        if any(values):
            basis = next(figure.basis for figure in figures if figure is not None)
            words = " / ".join(short(value) for value in values)
            texts.append(f"{words} {unit_text(declared.unit)}")
    return basis, ", ".join(texts)


def _brief(value: float | None) -> str:
    """Whole GB/s from 10 on: there is room for two figures and a sign."""
    return short(value) if value is None or value < 10 else f"{value:.0f}"
