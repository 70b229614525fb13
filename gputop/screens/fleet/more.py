"""What stands below the findings where there is room: the largest groups and some figures."""

from __future__ import annotations

from gputop.screens.fleet.figures import FiguresTab
from gputop.screens.fleet.groups import GroupsTab
from gputop.screens.fleet.tab import FleetFacts, FleetTab
from gputop.widgets.spans import Line

MOST_GROUPS, MOST_FIGURES = 5, 8


def more_lines(facts: FleetFacts, width: int) -> list[Line]:
    """Rows of the tabs Groups and Figures, each with its heads."""
    groups = _rows(GroupsTab(facts), MOST_GROUPS, "2 shows", width)
    figures = _rows(FiguresTab(facts), MOST_FIGURES, "3 shows", width)
    return [*groups, *([()] if groups and figures else []), *figures]


def _rows(tab: FleetTab, most: int, where: str, width: int) -> list[Line]:
    if not tab.names:
        return []
    lines = [tab.head(width), *(tab.row(name, width) for name in tab.names[:most])]
    if len(tab.names) > most:
        lines.append(((f"   {where} {len(tab.names) - most} more", "muted"),))
    return lines
