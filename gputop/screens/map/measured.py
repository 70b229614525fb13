"""What was measured, beside the lines of the map: copies from the selected GPU, host links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.measuring.judged import judged
from gputop.screens.map.drawing import Line
from gputop.screens.map.names import short
from gputop.topology.model import quantities
from gputop.widgets.measure import measured
from gputop.widgets.meters import verdict_of
from gputop.widgets.spans import Line as Spans

if TYPE_CHECKING:
    from gputop.measuring.judged import Judged
    from gputop.topology.model.snapshot import Measurement
    from gputop.topology.report import Report

LEGEND: Spans = (
    ("  measured GB/s: ", "muted"),
    ("✓ ▼ · 396", ""),
    (" from the selected GPU", "muted"),
    (" · ", "rule"),
    ("✓ 55/55", ""),
    (" PCIe to/from a GPU", "muted"),
)
_HOST = (quantities.HOST_TO_DEVICE, quantities.DEVICE_TO_HOST)
_GRAVE = ("low", "too long", "high", "no reference", "healthy")


class MeasuredLines:
    """Texts for the lines of a drawing; nothing where nothing was measured."""

    def __init__(self, report: Report, cursor: str | None) -> None:
        self._judged: Judged | None = None
        self._from: dict[str, Measurement] = {}
        self._host: dict[str, tuple[Measurement, ...]] = {}
        if not report.snapshot.measurements:
            return
        self._judged = judged(report)
        pairs = measured(report, quantities.WRITE)
        self._from = {dst: figure for (src, dst), figure in pairs.items() if src == cursor}
        for figure in report.snapshot.measurements:
            pinned = figure.quantity in _HOST and figure.variant == "pinned"
            if pinned and figure.src and figure.device_kind != "cpu" and figure.value is not None:
                kept = self._host.get(figure.src, ())
                self._host[figure.src] = (*kept, figure)

    def of(self, line: Line) -> str:
        """The figure beside a line: "✓ 396", "▼ 27.7/55.4"; "" where there is none."""
        figures: tuple[Measurement, ...] = ()
        for end in line.ends:
            if line.kind == "pcie":
                found = self._host.get(end, ())
                figures = figures or tuple(
                    sorted(found, key=lambda figure: _HOST.index(figure.quantity))
                )
            elif end in self._from:
                figures = (self._from[end],)
        if not figures or self._judged is None:
            return ""
        if any(figure.verdict in ("wrong-data", "wrong-bytes") for figure in figures):
            return "! wrong"
        verdicts = [verdict_of(self._judged.of(figure)) for figure in figures]
        sign = min(verdicts, key=lambda said: _GRAVE.index(said[1]))[0]
        return f"{sign} " + "/".join(_brief(figure.value) for figure in figures)


def _brief(value: float | None) -> str:
    """Whole GB/s from 10 on: there is room for two figures and a sign."""
    return short(value) if value is None or value < 10 else f"{value:.0f}"
