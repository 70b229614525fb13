"""What the app says in a corner of the screen for some seconds."""

from __future__ import annotations

from dataclasses import dataclass

from textual.notifications import Notification

LEAST_SECONDS = 0.05
"""Of a notice that a screen still shows."""


@dataclass
class Notice(Notification):
    """A notification whose time on a screen is never below zero.

    Textual asks whether it has expired before it makes the toast, and for the time left after that.
    A timer with less than nothing left never lets go of the event loop: the app stands still.
    """

    timeout: float = 6
    """Seconds from its birth."""

    @property
    def time_left(self) -> float:
        """Seconds for the timer of a toast."""
        return max(LEAST_SECONDS, super().time_left)

    @property
    def has_expired(self) -> bool:
        """Whether no screen shows it any more."""
        return super().time_left <= 0
