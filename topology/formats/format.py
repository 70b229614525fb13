"""What a format of `--from` is: recognised by content, turned into the parts of a live source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from ..sources.source import Part

LIMIT_BYTES = 64 * 1024 * 1024
"""Largest file that is read; recordings of real nodes are below 1 MB."""


class FormatError(ValueError):
    """The content is broken or hostile; the text says what, `line` where."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.line = line


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of recorded answer."""

    id: str
    """Short name for messages: "nvidia-smi -q -x"."""
    recognises: Callable[[bytes, Path], bool]
    """Given the first 64 KiB and the path: is it this format? Content decides, not the name."""
    parse: Callable[[bytes, Path], Part]
    """The whole file to a part. Raises FormatError."""
