"""Whether the terminal is ours, and who may write to it now."""

from __future__ import annotations

import threading


class Holding:
    """Whether anything is asked of the terminal, and whose turn it is to write to it."""

    def __init__(self) -> None:
        self.begun = False
        """Set before the first byte that RESET undoes, until the terminal was given back."""
        self.turn = threading.RLock()
        """Threads write with it. Who ends the process keeps it: nothing comes behind RESET."""


holding = Holding()
