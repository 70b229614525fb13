"""Shared objects of a few bytes, for what reads a library without loading it."""

from __future__ import annotations

import struct

READ_ONLY, CODE = 2, 2 | 4


def library(text: bytes, *, flags: int = READ_ONLY, lengths: tuple[int, ...] = ()) -> bytes:
    """An ELF file with one section that holds the text, behind some that claim other lengths."""
    body = b"\0".join((b"other words", text, b""))
    head = b"\x7fELF\x02\x01".ljust(40, b"\0") + struct.pack("<Q", 64 + len(body))
    head = head.ljust(58, b"\0") + struct.pack("<HH", 64, 2 + len(lengths)).ljust(6, b"\0")
    sections = [struct.pack("<IIQQQQ", 0, 0, 0, 0, 0, 0)]
    sections += [struct.pack("<IIQQQQ", 0, 1, READ_ONLY, 0, 64, length) for length in lengths]
    sections.append(struct.pack("<IIQQQQ", 0, 1, flags, 0, 64, len(body)))
    return head + body + b"".join(section.ljust(64, b"\0") for section in sections)
