"""Values in `nvidia-smi -q -x` that the driver failed to give."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from .....sources.files.failures import ERROR, LOST, RESET, Unanswered

_FAILURES = {
    "unknown error": ERROR,
    "err!": ERROR,
    "timeout": ERROR,
    "gpu is lost": LOST,
    "gpu requires reset": RESET,
    "requires reset": RESET,
}
"""Words that nvidia-smi prints in place of a value, and what they mean."""


def failures(element: Element, own: str) -> Iterator[Unanswered]:
    """The values that the driver failed to give."""
    for part in element.iter():
        words = (part.text or "").strip().strip("[]")
        kind = _FAILURES.get(words.lower())
        if kind is not None:
            yield Unanswered(kind, words, part.tag[:60], own)
