"""Defects in the words of findings, whether a rule or the reader of a log found them."""

from __future__ import annotations

from ...model.versions import numbers
from ..rule import Proof
from .table import Defect

ID = "known-defects"
MOST_TOLD = 6


def proof(defect: Defect) -> Proof:
    """What a defect does, until when it is there, and who says so."""
    return defect.harm, f"{defect.what}; {ends(defect)}", "; ".join(defect.sources)


def title(found: list[Defect]) -> str:
    """What stands behind the version in a title: what the one does, else how many there are."""
    if len(found) == 1:
        return f"has a known defect that may show here: {found[0].what}"
    return f"has {len(found)} known defects that may show here; the worst {found[0].what}"


def ends(defect: Defect) -> str:
    """Until when a defect is there, in words."""
    return f"fixed in {' and '.join(defect.fixed)}" if defect.fixed else "no fix is known"


def steps(found: list[Defect]) -> list[str]:
    """The version that has none of these defects, then what helps without another version."""
    cured = [defect for defect in found if defect.fixed]
    last = max(cured, key=lambda one: [numbers(first) for first in one.fixed], default=None)
    return [
        *([] if last is None else [f"Use {last.cure}."]),
        *dict.fromkeys(f"Or: {text}" for one in found[:MOST_TOLD] for text in one.workaround),
    ]
