"""Lines for copying: which words from outside may stand in one. Nothing runs them but people.

Quotes do not help where a tool itself makes more of a name: ALL is every node to Slurm, -A an
option, g* a pattern, 0 every process of the group. Where a word is refused there is no line.
"""

from __future__ import annotations

import re
import shlex
from string import Formatter
from typing import Any

from .errors import GputopError

REFUSED = "a name here is none that a line for copying can hold"
MOST_LETTERS = 255
_WORDS = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "name": r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?",  # of a host, a device
        "address": r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7]",
        "device": r"[A-Za-z0-9][A-Za-z0-9:._/-]*",  # an address, a part of a GPU, a UUID
        "variable": r"[A-Za-z_][A-Za-z0-9_]*",
        "path": r"/[A-Za-z0-9._/+-]*",
        "value": r"[^\"`$\\!]*",  # stands behind "=" and is quoted
        "folder": r"(?!-)[^\"`$\\!]+",  # whoever reads the line named it
        "port": r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?(?::[0-9]{1,3})?",  # of a NIC
        "number": r"[0-9]{1,9}",
        "pid": r"[1-9][0-9]{0,9}",
    }.items()
}
_SPECIAL = re.compile(
    # Slurm, kubectl and the vendors' tools; then what YAML and scripts take for no text.
    r"all|any|default|none|unknown|null|nil|nan|inf|true|false|yes|no|on|off|y|n"
    r"|[0-9_-]+|0[xob][0-9a-f_]+|[0-9.]+e[0-9]+",
    re.IGNORECASE,
)
_PLAIN = ("value", "folder", "number", "pid")
"""Kinds in which no word is special."""


def may_stand(word: object, kind: str) -> bool:
    """Whether a word from outside may stand in a line for copying, quoted or not."""
    text = str(word)
    return (
        len(text) <= MOST_LETTERS
        and text.isprintable()
        and _WORDS[kind].fullmatch(text) is not None
        and (kind in _PLAIN or _SPECIAL.fullmatch(_named(text, kind)) is None)
    )


def _named(text: str, kind: str) -> str:
    """What a tool takes for the name: a port's number stands behind that of its NIC."""
    return text.partition(":")[0] if kind == "port" else text


class RefusedError(GputopError):
    """A word that no line for copying can hold."""

    def __init__(self, word: object) -> None:
        super().__init__(f"{str(word)[:60]!r}: {REFUSED}")


class _Line(Formatter):
    """Fields name the kind of their word: "{:pid}"; "{:name,}" takes several and sets commas."""

    def format_field(self, value: Any, format_spec: str) -> str:
        words = value if isinstance(value, list | tuple) else (value,)
        kind = format_spec.rstrip(",")
        refused = [word for word in words if not may_stand(word, kind)]
        if refused or not words:
            raise RefusedError(*refused[:1] or [""])
        return (" ", ",")[kind != format_spec].join(shlex.quote(str(word)) for word in words)


def held(template: str, *words: object) -> str:
    """The line with these words. Raises RefusedError; an empty list is refused too."""
    return _Line().format(template, *words)


def copied(template: str, *words: object) -> str:
    """The same; "" where a word is refused."""
    try:
        return held(template, *words)
    except RefusedError:
        return ""


def at_another(line: str, host: str | None, otherwise: str) -> str:
    """The same line with the machine whose process it is about, which is not this one.

    `otherwise`: where the host is not known, or may not stand in a line for a shell.
    """
    where = f"on {host}" if host is not None and may_stand(host, "name") else otherwise
    return f"{line}  # {where}, if it still runs"
