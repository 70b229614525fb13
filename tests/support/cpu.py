"""A limit of CPU time that a slow or shared machine does not fail."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

REFERENCE_SECONDS = 0.010
"""CPU that `_work` takes on the machine for which the tests state their seconds."""


def _work() -> float:
    began = time.process_time()
    sum(number * number for number in range(150_000))
    return time.process_time() - began


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """The block takes at most these seconds of CPU on the reference machine.

    Raises AssertionError where it takes more. What a machine takes for known work behind the block
    says how much slower it is, where that matters; a faster one is given no less.
    """
    began = time.process_time()
    yield
    used = time.process_time() - began
    if used < seconds:
        return
    slower = max(1.0, *(_work() / REFERENCE_SECONDS for _ in range(5)))
    assert used < seconds * slower, f"{used:.2f} s of CPU, {seconds} s x {slower:.1f} allowed"
