"""Numbers and names as people read them; the one place where an unknown value becomes a dash."""

import re
import time
from collections.abc import Iterable

UNKNOWN = "–"
_NAME = re.compile(r"[a-z]\w*[A-Z]|(?:amd-?smi|amdgpu|amdkfd|rocm-?smi|nvidia-smi|nvidia_\w+)\b")
"""A name that begins with a small letter and would change its meaning with a capital: xGMI, cuMem,
amdgpu."""


def gbs(value: float | None) -> str:
    """GB/s with three significant figures, 10^9 bytes: "396 GB/s", "63.0 GB/s", "–"."""
    return UNKNOWN if value is None else f"{figure(value)} GB/s"


def figure(value: float | None) -> str:
    """Three significant figures and no unit: "396", "63.0", "4.20", "–"."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    return f"{value:.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def size(value: float | None) -> str:
    """Memory in binary units: "80.0 GiB", "512 MiB", "–"."""
    if value is None:
        return UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            whole_number = unit == "B" or abs(value) >= 100
            return f"{value:.0f} {unit}" if whole_number else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.0f} TiB" if abs(value) >= 100 else f"{value:.1f} TiB"


def percent(value: float | None) -> str:
    """Whole percent: "37 %", "–"."""
    return UNKNOWN if value is None else f"{value:.0f} %"


def whole(value: float | None, unit: str = "") -> str:
    """A whole number with its unit: "700 W", "34 °C", "–"."""
    if value is None:
        return UNKNOWN
    return f"{value:.0f} {unit}" if unit else f"{value:.0f}"


def text(value: object) -> str:
    """A word or number as it is, "yes"/"no" for a truth value, "–" for unknown."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def seconds(value: float | None) -> str:
    """A length of time: "3.0 s", "4 min", "2 h 5 min", "3 d 4 h", "–"."""
    if value is None:
        return UNKNOWN
    if value < 60:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    minutes = int(value // 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


def moment(value: float | None, form: str) -> str:
    """Seconds since the epoch as local time in the form of strftime, "–".

    A file may hold any number: what no calendar has is not known either.
    """
    if value is None:
        return UNKNOWN
    try:
        return time.strftime(form, time.localtime(value))
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def sentence(text: str) -> str:
    """A remark as a sentence; a name such as xGMI or amdsmi keeps its small first letter."""
    first = _NAME.match(text)
    start = text[:1] if first is not None else text[:1].upper()
    return start + text[1:] + "." * (not text.endswith((".", "!", "?")))


def ranged(names: Iterable[str]) -> str:
    """Names in one phrase, numbered neighbours in one word: "GPU0-5 and GPU7"."""
    runs: list[tuple[str, str]] = []
    for name in names:
        stem = name.rstrip("0123456789")
        number = name[len(stem) :]
        last = runs[-1][1] if runs else ""
        if number and last == f"{stem}{int(number) - 1}":
            runs[-1] = (runs[-1][0], name)
        else:
            runs.append((name, name))
    words = [first if first == last else f"{first}-{_number(last)}" for first, last in runs]
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _number(name: str) -> str:
    return name[len(name.rstrip("0123456789")) :]
