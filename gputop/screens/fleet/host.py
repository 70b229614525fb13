"""What the screen Fleet needs of its app. It knows no more of it than this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from gputop.live.fleet_watch import FleetState


class FleetHost(Protocol):
    """What the screen needs of its app."""

    folder: str
    state: FleetState

    def say(self, text: str, **rest: Any) -> None:
        """Show a note."""

    def copy_text(self, text: str, note: str = "") -> None:
        """Put a text on the clipboard."""

    def copy_command(self, commands: tuple[str, ...]) -> None:
        """Put one of these on the clipboard; called again, the next one."""

    def open_node(self, host: str) -> None:
        """Show one node."""
