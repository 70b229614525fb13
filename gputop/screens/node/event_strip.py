"""The line of the Node screen with the last day's events; it is not there without any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.widgets.bars import HeadLine
from gputop.widgets.spans import EMPTY

if TYPE_CHECKING:
    from gputop.topology.report import Report


class EventStrip(HeadLine):
    """Shows events of a report; made anew where there are others, and once a minute."""

    _known: tuple[object, ...] | None = None
    """What the line was last made from."""

    def draw_report(self, report: Report, width: int) -> None:
        """Show what happened, in so many cells."""
        snapshot = report.snapshot
        known = snapshot.kernel_events, report.events, width, int(snapshot.taken_at // 60)
        if known == self._known:
            return
        self._known = known
        line, end = EMPTY, EMPTY
        if snapshot.kernel_events or report.events:
            from gputop.screens.node.strip import strip_line  # with the catalogue of faults

            line, end = strip_line(report, width)
        self.display = bool(line)
        self.show(line, end)
