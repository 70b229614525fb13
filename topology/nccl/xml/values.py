"""What the attributes of a topology XML mean for the records of a machine."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeVar

import msgspec

from ...model.element import NOT_IN_XML, Element
from ...model.record import Gap, Record
from .attributes import is_address, is_hidden, number

R = TypeVar("R", bound=Record)

_GTS = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?) GT/s")
KEPT = 1024
"""Addresses: large files name each many times."""
_NORMAL = frozenset({"partition", "parent", "physical_function", "sriov_total", "sriov_enabled"})
"""Fields whose absence is no gap: most devices have no such thing."""


def whole(element: Element, name: str, *, least: int = 0) -> int | None:
    """An attribute as a whole number; None when it is absent, no number, or below `least`."""
    value = number(element.get(name) or "")
    return value if value is not None and value >= least else None


@lru_cache(KEPT)
def address(text: str | None) -> str | None:
    """A PCI address as the kernel writes it; None for none, or one that the driver hides."""
    if text is None or not is_address(text) or is_hidden(text):
        return None
    domain, rest = text.lower().split(":", 1)
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}"


def speed_gts(element: Element) -> float | None:
    """Rate per lane of a `pci` element in GT/s; None for "", "Unknown" and the like."""
    match = _GTS.match(element.get("link_speed") or "")
    return float(match[1]) if match else None


def link_gaps(element: Element, speed: str, width: str) -> list[Gap]:
    """Why speed and width of a link are unknown, where the file has no figures for them."""
    said = {speed: element.get("link_speed"), width: element.get("link_width")}
    return [
        Gap(field, f"the XML says {text!r}") for field, text in said.items() if text is not None
    ]


def complete(record: R, gaps: list[Gap] | None = None) -> R:
    """The record with a gap for each field that is None: one of `gaps`, else "not in the XML"."""
    known = {gap.field: gap for gap in gaps or []}
    empty = [
        name
        for name in record.__struct_fields__
        if getattr(record, name) is None and name not in _NORMAL
    ]
    found = tuple(known.get(name, Gap(name, NOT_IN_XML)) for name in empty)
    return msgspec.structs.replace(record, gaps=found)
