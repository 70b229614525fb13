"""Keys that come faster than screens change: quick fingers, a slow line, a busy machine."""

from __future__ import annotations

import time
from typing import TypeVar

from textual import events
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.screen import Screen
from textual.widgets import Input

from gputop.terminal.painting.driver import Painting, painting

T = TypeVar("T")


AGAIN_SECONDS = 1.0
"""So soon after a panel is gone a Ctrl+C was meant for it still: it leaves the app."""


class QuickKeysApp(App[T]):
    """Gives what is typed to the line that was opened for it."""

    _panel_closed = 0.0
    _told_to_close: object = None
    """The line or panel that Ctrl+C was to close last, until another key comes."""

    def get_driver_class(self) -> type[Driver]:
        """Send a slow line only the cells that changed."""
        return painting(super().get_driver_class())

    async def on_event(self, event: events.Event) -> None:
        """Forget what closes when somebody types on: a line may be open again by then."""
        other = isinstance(event, events.Key) and event.key not in ("ctrl+c", "escape")
        if other or isinstance(event, events.MouseDown):
            self._told_to_close = None
        if self._leaves(event):
            self.exit()
            return
        await super().on_event(event)

    def _leaves(self, event: events.Event) -> bool:
        """Whether it is a second Ctrl+C: a panel that goes away would take it along."""
        told = self._told_to_close
        if told is None or not isinstance(event, events.Key) or event.is_forwarded:
            return False
        return event.key == "ctrl+c" and told in (self.screen, self.focused)

    def on_key(self, event: events.Key) -> None:
        """Keep letters from being commands: "/P2P" would start a probe and go to another screen.

        Textual gave them to the screen, as the line was not there yet. A line with the focus lets
        no letter get here. Panels keep the keys of the app away, but for Ctrl+L and for Ctrl+C,
        which closes them.
        """
        if event.key == "ctrl+l":
            self.action_repaint()
        if event.key == "ctrl+c":
            self._close_panel()
        if isinstance(self.focused, Input) and event.is_printable and event.character:
            event.stop().prevent_default()
            self.focused.insert_text_at_cursor(event.character)

    def _handle_exception(self, error: Exception) -> None:
        """Let nothing end badly that ends already: screens go before some of them were there."""
        if not (self._exit and isinstance(error, NoMatches)):
            super()._handle_exception(error)

    def action_repaint(self) -> None:
        """Draw everything again: another program wrote to the terminal."""
        if isinstance(self._driver, Painting):
            self._driver.repaint()
        else:
            self.screen.refresh(layout=True)

    def action_help_quit(self) -> None:
        """Leave on Ctrl+C, as people expect; where a line is typed, close the line.

        Textual asks this only where no text is selected, which it copies.
        """
        if isinstance(self.focused, Input) and self._closes(self.focused):
            self.call_next(self.run_action, "step_back")
        else:
            self.exit()

    def _close_panel(self) -> None:
        """Close the panel in sight; leave where one closes already, or is gone just now."""
        now = time.monotonic()
        if self.screen.is_modal and self._closes(self.screen):
            self._panel_closed = now
            self.simulate_key("escape")
        elif self.screen.is_modal or now - self._panel_closed < AGAIN_SECONDS:
            self.exit()

    def _closes(self, inner: object) -> bool:
        """Whether Ctrl+C is to close it; not where it closes already, and would eat the key.

        How long it has been closing does not count: a busy machine takes seconds.
        """
        before, self._told_to_close = self._told_to_close, inner
        return before is not inner


class ClosesOnce(Screen[T]):
    """A panel that takes only itself away, whatever it is told after it was closed.

    It stands last among the bases of a class: Textual takes the style of a widget from the first.
    """

    async def on_event(self, event: events.Event) -> None:
        """Do not begin what was taken away before it was there: its parts are gone."""
        if not isinstance(event, events.Mount) or self in self.app.screen_stack:
            await super().on_event(event)

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Close the panel, unless another screen is shown already."""
        if self.app.screen is not self:
            return AwaitComplete()
        if not self.is_mounted:
            # Taken away before it is there, it would miss its own parts.
            self.call_later(self.dismiss, result)
            return AwaitComplete()
        return super().dismiss(result)
