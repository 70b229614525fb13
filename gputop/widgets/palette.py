"""The palette of commands."""

from __future__ import annotations

from contextlib import suppress

from textual.command import CommandPalette

from gputop.widgets.quick_keys import ClosesOnce


class Palette(CommandPalette, ClosesOnce[None]):
    """Textual's palette, made safe for keys that come while its list changes."""

    def _action_command_list(self, action: str) -> None:
        # While one letter follows the other the list has fewer commands than its cursor believes;
        # Textual 8.2 then ends the app with a KeyError over a Page Down.
        with suppress(KeyError, IndexError):
            super()._action_command_list(action)
