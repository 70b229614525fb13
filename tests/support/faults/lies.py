"""Answers that no machine gives: every byte that a function writes is nonsense."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

LIES = {
    "zeros": "00",
    "ones": "ff",
    "huge": "7f",
    "negative": "80",
    "noise": "c328f09d5ae7b114",
    "largest": "ffffff7f",
    "almost all ones": "feffffff",
    "no number": "000000000000f87f",
    "another word": "4d000000",
    "text": "5a713920",
}
"""Name of a lie: the bytes that fill the answer, as hexadecimal. Numbers are 0, -1 or all ones,
huge, the smallest, arbitrary, the largest, NaN, 77; texts are empty, or are no UTF-8 and have no
end."""
UNITS = {"in thousands": 1e-3, "in thousandths": 1e3, "in MiB": 2.0**-20, "in bytes": 2.0**20}
"""Name of a lie: what the numbers of the true answer are multiplied with."""
MANY = 5000
"""How long a list says it is: more than we read of one."""


def fill(target: Any, pattern: str) -> None:
    """Write the bytes over and over into a ctypes object."""
    size = ctypes.sizeof(target)
    once = bytes.fromhex(pattern)
    ctypes.memmove(ctypes.addressof(target), (once * (size // len(once) + 1))[:size], size)


def fill_all(arguments: Iterable[Any], pattern: str) -> None:
    """Fill what was passed by reference or as an array."""
    for argument in arguments:
        if hasattr(argument, "_obj"):
            fill(argument._obj, pattern)
        elif isinstance(argument, ctypes.Array):
            fill(argument, pattern)
