"""Keys that come faster than screens change: quick fingers, a slow line, a busy machine."""

from __future__ import annotations

from typing import TypeVar

from textual import events
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.driver import Driver
from textual.screen import Screen
from textual.widgets import Input

from gputop.terminal.painting.driver import Painting, painting

T = TypeVar("T")


class QuickKeysApp(App[T]):
    """Gives what is typed to the line that was opened for it."""

    def get_driver_class(self) -> type[Driver]:
        """Send a slow line only the cells that changed."""
        return painting(super().get_driver_class())

    def on_key(self, event: events.Key) -> None:
        """Keep letters from being commands: "/P2P" would start a probe and go to another screen.

        Textual gave them to the screen, as the line was not there yet. A line with the focus lets
        no letter get here. Panels keep the keys of the app away, but for Ctrl+L and for Ctrl+C,
        which closes them.
        """
        if event.key == "ctrl+l":
            self.action_repaint()
        if event.key == "ctrl+c" and self.screen.is_modal:
            self.simulate_key("escape")
        if isinstance(self.focused, Input) and event.is_printable and event.character:
            event.stop().prevent_default()
            self.focused.insert_text_at_cursor(event.character)

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
        if isinstance(self.focused, Input):
            self.call_next(self.run_action, "step_back")
        else:
            self.exit()


class ClosesOnce(Screen[T]):
    """A panel that takes only itself away, whatever it is told after it was closed.

    It stands last among the bases of a class: Textual takes the style of a widget from the first.
    """

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Close the panel, unless another screen is shown already."""
        if self.app.screen is not self:
            return AwaitComplete()
        return super().dismiss(result)
