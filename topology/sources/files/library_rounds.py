"""How much one round of questions asks of a vendor's library."""

from __future__ import annotations

from collections.abc import Callable

from ...model.part import Raw

_REST_AFTER_SECONDS = 0.1
_LASTING_ROUNDS = 6
"""Answers that cannot change until the driver restarts are asked again after so many rounds."""


class Rounds:
    """The rounds of one reader, and what the library says of itself.

    The first round asks only who the GPUs are, so that a screen can open; what is missing then
    carries the gap "not asked", and `again_seconds` wants the rest to be asked soon.
    """

    def __init__(self, system: tuple[str, ...]) -> None:
        self._questions = system
        self.system: dict[str, Raw] = {}
        """The answers to the questions that are about no single GPU."""
        self.done = 0
        self.quick = False
        """Whether this round asks only who the GPUs are."""
        self.fresh = True
        """Whether it asks again what seldom changes."""
        self.again_seconds: float | None = None

    def begin(self, ask: Callable[[str], Raw], *, thorough: bool) -> None:
        """Begin a round; a thorough one is never quick."""
        self.quick = self.done == 0 and not thorough
        self.again_seconds = _REST_AFTER_SECONDS if self.quick else None
        self.fresh = self.done < 2 or self.done % _LASTING_ROUNDS == 0
        if self.fresh or not self.system:
            self.system = {name: ask(name) for name in self._questions}

    def end(self) -> None:
        """Count a round in which the library answered."""
        self.done += 1
