"""A list beside a panel, as three screens have it."""

from __future__ import annotations

from typing import ClassVar

from gputop.screens.view import View
from gputop.widgets.board import Board
from gputop.widgets.named_list import NamedList


class ListedView(View):
    """A NamedList, and a Board about the line under its cursor.

    A screen binds `select_keys` and `scroll_keys("scroll_details", …)`.
    """

    LIST: ClassVar[str]
    """Selector of the list."""
    DETAILS: ClassVar[str]
    """Selector of the board."""

    def on_named_list_picked(self, message: NamedList.Picked) -> None:
        """Draw the panel for the line under the cursor."""
        self.query_one(self.DETAILS, Board).scroll_home(animate=False)
        self.carry()
        self.redraw()
        if message.twice:
            self.picked_twice()

    def carry(self) -> None:
        """Carry the device of the line under the cursor along to other screens."""

    def picked_twice(self) -> None:
        """What a double click does."""
        self.gputop.action_why()

    def action_move(self, lines: int) -> None:
        """Move the cursor of the list."""
        self.query_one(self.LIST, NamedList).move(lines)

    def action_scroll_details(self, lines: int) -> None:
        """Scroll the board."""
        self.query_one(self.DETAILS, Board).scroll_relative(0, lines, animate=False)
