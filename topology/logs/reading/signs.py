"""Which lines without the library's head say something: patterns, and how to skip the rest fast.

A line counts when it speaks of the library, of a GPU or of their drivers and a pattern matches it.
Both need texts that are looked for in a whole chunk first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .literals import literals

ABOUT = (
    b"CCL", b"nccl", b"CUDA", b"Cuda", b"cuda", b"HIP", b"hipE", b"hipI", b"NVRM", b"NVML",
    b"nvml", b"NVLink", b"GPU", b"NET/", b"ibv_", b"IBV_", b"mlx", b"c10d", b"ProcessGroup",
    b"Last error:", b"torch", b"ROCm", b"amdgpu", b".cc:", b".cu:", b"/dev/shm",
    b" in comm 0x", b"[INFO] ",
)  # fmt: skip
"""A line without any of these speaks of nothing that the patterns mean."""
LONGEST_EXCERPT = 360


class Signs:
    """Patterns for lines that the library did not mark as its own."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._by_text: dict[bytes, list[re.Pattern[str]]] = {}
        self._always: list[re.Pattern[str]] = []
        """Patterns of which no text is certain."""
        for pattern in dict.fromkeys(patterns):
            compiled = re.compile(pattern)
            for text in (needed := literals(pattern)):
                self._by_text.setdefault(text.encode(), []).append(compiled)
            if not needed:
                self._always.append(compiled)

    def excerpt(self, line: bytes) -> str | None:
        """The part of the line that a pattern matches, None where none does."""
        tried = [
            pattern
            for text, patterns in self._by_text.items()
            if text in line
            for pattern in patterns
        ]
        decoded = ""
        for pattern in (*tried, *self._always):
            decoded = decoded or line.decode("utf-8", "replace").strip()
            match = pattern.search(decoded)
            if match is not None:
                start = 0 if match.end() <= LONGEST_EXCERPT else max(match.start() - 80, 0)
                return decoded[start : start + 4 * LONGEST_EXCERPT]
        return None


NONE = Signs()
