"""Waiting for keys without looking ten times a second whether there are any.

Textual's thread that reads keys wakes every tenth of a second: it gives an Escape that nothing
follows, and sees that the app ends. That takes a tenth of all that the app takes at rest.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

LIVELY_SECONDS = 2.0
"""How long behind a key Textual's own times hold: much more than a terminal takes for a key."""


class Patience:
    """Lets a driver of Textual wait until there is a key, or until `end`."""

    def __init__(self) -> None:
        self._pipe: tuple[int, int] | None = None
        self._ends = True

    def begin(self) -> None:
        """Be patient from here on."""
        if self._pipe is None:
            self._pipe = os.pipe()
        self._ends = False

    def end(self) -> None:
        """Wake whoever waits; from here on nobody waits longer than Textual does."""
        self._ends = True
        if self._pipe is not None:
            os.write(self._pipe[1], b"\0")

    def close(self) -> None:
        """Let go of the pipe, once nobody waits."""
        pipe, self._pipe = self._pipe, None
        for descriptor in pipe or ():
            os.close(descriptor)

    @contextmanager
    def of(self, module: Any) -> Iterator[None]:
        """Let the selectors that this module makes be patient; nothing where it makes none."""
        if self._pipe is None or getattr(module, "selectors", None) is not selectors:
            yield
            return
        module.selectors = _Selectors(partial(_Patient, self._pipe[0], lambda: self._ends))
        try:
            yield
        finally:
            module.selectors = selectors


class _Selectors:
    """The module `selectors` with another SelectSelector."""

    def __init__(self, selector: Callable[[], selectors.SelectSelector]) -> None:
        self.SelectSelector = selector

    def __getattr__(self, name: str) -> Any:
        return getattr(selectors, name)


class _Patient(selectors.SelectSelector):
    """Returns for a key, and for `woken`, which nobody sees."""

    def __init__(self, woken: int, ends: Callable[[], bool]) -> None:
        super().__init__()
        self._woken, self._ends = woken, ends
        self._lively_until = time.monotonic() + LIVELY_SECONDS
        self.register(woken, selectors.EVENT_READ)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not self._ends() and time.monotonic() > self._lively_until:
            timeout = None
        found = super().select(timeout)
        keys = [(key, events) for key, events in found if key.fd != self._woken]
        if len(keys) < len(found):
            os.read(self._woken, 64)
        if keys:
            self._lively_until = time.monotonic() + LIVELY_SECONDS
        return keys
