"""Modules that are imported when a test first asks for something of theirs, not at collection.

Each of several processes collects all tests; importing torch takes 1.5 s of CPU, and half of what
mypy reads.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

ASKED_BY_PYTEST = ("__bases__", "__test__")
"""Of every name of a test file, to find the tests among them."""


class Late:
    """A module whose names can be read, replaced and taken away."""

    def __init__(self, name: str) -> None:
        vars(self)["_import"] = lambda: import_module(name)

    def __getattr__(self, name: str) -> Any:
        if name in ASKED_BY_PYTEST:
            raise AttributeError(name)
        return getattr(self._import(), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._import(), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._import(), name)


torch = Late("torch")
flop_counter = Late("torch.utils.flop_counter")
