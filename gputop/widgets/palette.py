"""The palette of commands."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from textual.await_complete import AwaitComplete
from textual.command import CommandPalette, Provider
from textual.system_commands import SystemCommandsProvider

from gputop.widgets.quick_keys import ClosesOnce

PLACEHOLDER = "GPU, pair, finding, process, command, word, variable, demo"


class Palette(CommandPalette, ClosesOnce[None]):
    """Textual's palette, made safe for keys that come while its list changes or while it closes.

    Textual 8.2 ends the app with a KeyError or with NoMatches over them.
    """

    def __init__(self, *providers: type[Provider]) -> None:
        """`providers`: what is found; the commands of the app where there are none."""
        super().__init__(providers or (SystemCommandsProvider,), placeholder=PLACEHOLDER)

    def _action_command_list(self, action: str) -> None:
        # While one letter follows the other the list has fewer commands than its cursor believes.
        with suppress(KeyError, IndexError):
            super()._action_command_list(action)

    def _gather_commands(self, search_value: str) -> Any:
        # The last letter may come when the list of commands is gone.
        return super()._gather_commands(search_value) if self.app.screen is self else None

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close the palette; a search that goes on would miss the list."""
        self._cancel_gather_commands()
        return super().dismiss(result)
