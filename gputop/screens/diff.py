"""Diff: the node in sight beside another one, or beside itself at another time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual import events

from gputop.answers.diff import held_against, page
from gputop.exits import Exit
from gputop.screens.listing import Listing
from gputop.screens.question import PageListing, PageScreen
from gputop.topology.model.page import Page, Text
from gputop.topology.model.severity import CANNOT_TELL
from gputop.widgets.typed_line import is_text

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.topology.report import Report

NAME, PASTED = "diff", "pasted text"
NOT_READ = "the node is not read yet"


class DiffScreen(PageScreen):
    """The page of `gputop diff`: both values of each change side by side."""

    TITLE = "Diff"
    LINE = ("D", "w", "y")

    def __init__(self, gputop: NodeHost) -> None:
        super().__init__(NAME, gputop)
        self._compared = gputop.compared

    def on_screen_resume(self) -> None:
        """Compare with what was chosen meanwhile."""
        super().on_screen_resume()
        if self.gputop.compared is not self._compared or not self._page.blocks:
            self._compared = self.gputop.compared
            self._page = Page(title=NAME, blocks=(Text(f"reading {self._compared[0]}…"),))
            self.redraw()
            self.run_worker(partial(self._compare, *self._compared), thread=True)

    def _compare(self, name: str, pasted: bytes) -> None:
        report = self.gputop.what_if.real
        found = self.gputop.guarded(_page_of, report, name, pasted)
        trouble = (Text(f"{CANNOT_TELL.sign} {self.gputop.trouble}"),)
        self.post_message(self.PageReady(found or Page(title=NAME, blocks=trouble)))

    def on_paste(self, event: events.Paste) -> None:
        """Compare with a text that is pasted here: what tools printed of another node."""
        if is_text(event.text) and self.app.screen is self:
            event.stop()
            event.prevent_default()  # else the log would read it too
            self.gputop.compared = (PASTED, event.text.encode())
            self.on_screen_resume()

    def listing_of(self, report: Report) -> Listing:
        """The rows of the page."""
        return PageListing(self._page, "What differs · D chooses another, or paste a text")


def _page_of(report: Report | None, name: str, pasted: bytes) -> Page:
    """The comparison, or why there is none."""
    if report is None:
        return Page(title=NAME, blocks=(Text(NOT_READ),))
    try:
        return page(held_against(name, report.node.decide(), pasted))
    except Exit as error:
        return Page(title=NAME, blocks=(Text(f"{CANNOT_TELL.sign} {error}"),))
