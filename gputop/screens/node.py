"""Node: what is in this machine, live, and how its GPUs are joined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.widget import Widget

from gputop.clean import clean
from gputop.screens.screen import View
from gputop.widgets.board import Board

if TYPE_CHECKING:
    from gputop.topology.report import Report


class NodeScreen(View):
    """GPUs, links, problems."""

    TITLE = "Node"

    def body(self) -> Iterable[Widget]:
        """A table of GPUs."""
        yield Board(id="gpus")

    def draw(self, report: Report) -> None:
        """One line a GPU."""
        self.query_one("#gpus", Board).show(
            tuple(
                ((f"{gpu.index} ", "strong"), (f"{clean(gpu.name)} {gpu.address}", ""))
                for gpu in report.snapshot.machine.gpus
            )
        )


SCREEN = NodeScreen
