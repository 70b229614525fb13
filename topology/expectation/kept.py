"""What takes long to work out, kept for the last few things that it was asked of."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar


class Fitting(Protocol):
    """An answer that knows what it is the answer to."""

    def fits(self, question: Any, /) -> bool:
        """Whether it is the answer to this question too."""


Question = TypeVar("Question")
Answer = TypeVar("Answer", bound=Fitting)


class Kept(Generic[Question, Answer]):
    """Works an answer out unless one that fits is kept; any thread may ask."""

    def __init__(self, work_out: Callable[[Question], Answer], most: int) -> None:
        """`most`: how many answers are kept."""
        self._work_out = work_out
        self._most = most
        self._lock = threading.Lock()
        self._answers: list[Answer] = []

    def of(self, question: Question) -> Answer:
        """The kept answer, or a new one. Two threads that ask at once may both work it out."""
        with self._lock:
            for known in self._answers:
                if known.fits(question):
                    return known
        fresh = self._work_out(question)
        with self._lock:
            self._answers.insert(0, fresh)
            del self._answers[self._most :]
        return fresh
