"""What collectors and launchers put before every line: taken off where most lines have it."""

from __future__ import annotations

import re
from itertools import islice

_NANO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,9}(?:Z|[+-]\d\d:\d\d)"
_FORMS = tuple(
    re.compile(rf"(?m)^{form}")
    for form in (
        rf"\[pod/[\w./-]{{1,200}}\] ?(?:{_NANO} )?",
        rf"{_NANO} (?:(?:stdout|stderr) [FP] )?",
        r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,64} (?!kernel)[\w./@-]{1,64}(?:\[\d+\])?: ",
        r"[\w.-]{1,64} +\| ",
        r"\[(?:default|rank)\d{1,5}\]:",
        r" {0,4}\d{1,5}: ",
    )
)
"""kubectl logs --prefix --timestamps; CRI and docker logs -t; journalctl; docker compose; torchrun
--tee; srun --label."""
_LOOKED, _FEW, _MOST = 200, 4, 0.8


def bare(text: str) -> str:
    """The text without what stands before most of its lines; its lines stay its lines."""
    said = [line[:400] for line in islice(_lines(text), _LOOKED) if line.strip()]
    if len(said) < _FEW:
        return text
    for form in _FORMS:
        if sum(form.match(line) is not None for line in said) >= _MOST * len(said):
            return form.sub("", text)
    return text


def _lines(text: str) -> list[str]:
    return text[: _LOOKED * 400].split("\n")
