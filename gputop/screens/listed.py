"""A list beside a panel: the keys that move in both. A base of screens, no screen itself."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from gputop.screens.view import View
from gputop.widgets.board import Board
from gputop.widgets.named_list import NamedList


class ListedView(View):
    """A NamedList, and a Board that tells about the line under its cursor."""

    LIST: ClassVar[str]
    """Selector of the list."""
    TOLD: ClassVar[str]
    """Selector of the board."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("home", "move(-10000)", show=False),
        Binding("end", "move(10000)", show=False),
        Binding("pageup", "scroll_told(-5)", show=False),
        Binding("pagedown,space", "scroll_told(5)", show=False),
    ]

    def on_named_list_picked(self, message: NamedList.Picked) -> None:
        """Tell about the line under the cursor."""
        self.query_one(self.TOLD, Board).scroll_home(animate=False)
        self.redraw()
        if message.twice:
            self.picked_twice()

    def picked_twice(self) -> None:
        """What a double click does."""
        self.gputop.action_why()

    def action_move(self, lines: int) -> None:
        """Move the cursor of the list."""
        self.query_one(self.LIST, NamedList).move(lines)

    def action_scroll_told(self, lines: int) -> None:
        """Scroll the board."""
        self.query_one(self.TOLD, Board).scroll_relative(0, lines, animate=False)
