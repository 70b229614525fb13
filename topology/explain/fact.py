"""What an explanation is made of; the sentences are plain text, without screen code."""

from __future__ import annotations

import msgspec

from ..model.element import NOT_IN_XML
from ..model.record import Record

READ, MEASURED, ASSUMED = "read", "measured", "assumed"


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One step: a question, its answer, and how that is known."""

    question: str
    answer: str
    because: str = ""
    source: str = ""
    basis: str = READ
    """"measured", "read" or "assumed"."""
    flag: str = ""
    """Variable that would change the answer."""
    decides: bool = False
    """This answer settled the matter."""
    about: str = ""
    """"nccl" for the library's own questions, "" for what holds without it."""


def origin(record: Record, usual: str) -> str:
    """Where a record was read: from a topology XML when that is why its usual fields are empty."""
    told = any(record.why(field) == NOT_IN_XML for field in ("uuid", "driver", "memory_bytes"))
    return "topology XML" if told else usual


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence, what follows from it, and what to do where something is wrong."""

    title: str
    claim: str
    facts: tuple[Fact, ...] = ()
    consequence: str = ""
    fix: str = ""
    """Empty where nothing is proven to be wrong."""
    to_copy: tuple[str, ...] = ()
    """Commands to copy one by one, where the fix has some; empty: the fix itself."""
