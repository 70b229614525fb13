"""Values of variables as NCCL reads them (misc/param.cc): C's strtoll, without its cache."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from ..model.snapshot import NodeSnapshot

KEPT = 1024
"""Numbers whose text is remembered: a topology repeats a few for every link."""
INTEGER = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")


@lru_cache(KEPT)
def strtoll(text: str) -> tuple[int, int]:
    """Read like C's strtoll with base 0: (value, characters used); (0, 0) when no number leads."""
    match = INTEGER.match(text)
    if match is None:
        return 0, 0
    digits = match[2].lower()
    if digits.startswith("0x"):
        value = int(digits, 16)
    else:
        value = int(digits, 8) if digits.startswith("0") else int(digits)
    limit = 2**63
    value = -value if match[1] == "-" else value
    return max(-limit, min(limit - 1, value)), match.end()


@dataclass(frozen=True)
class Settings:
    """The variables of one communicator, name -> value; files are already merged in."""

    values: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, snapshot: NodeSnapshot, changes: Mapping[str, str | None] | None = None
    ) -> Settings:
        """The variables that a snapshot recorded, with changes; None unsets a variable."""
        values = {variable.name: variable.value for variable in snapshot.environment}
        for name, value in (changes or {}).items():
            if value is None:
                values.pop(name, None)
            else:
                values[name] = value
        return cls(values)

    def text(self, name: str) -> str | None:
        """The value as written; None when the variable is not set."""
        return self.values.get(name)

    def integer(self, name: str, default: int) -> int:
        """The value as NCCL_PARAM reads it: empty is the default, other text counts as 0."""
        text = self.values.get(name)
        if text is None or not text:
            return default
        value = strtoll(text)[0]
        # Out of range sets errno, and NCCL keeps its default (misc/param.cc:ncclLoadParam).
        return default if value in (-(2**63), 2**63 - 1) else value
