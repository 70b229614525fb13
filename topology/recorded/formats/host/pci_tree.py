"""The tree of `lspci -t`: which bridge each device hangs below."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

_TOKEN = re.compile(
    r"(?P<branch>[+\\])|"
    r"\[(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2})(?:-[0-9a-f]{2})?\]|"
    r"(?P<slot>[0-9a-f]{2})\.(?P<function>[0-7])(?=-|\s|\Z)|[\s|-]"
)
ROOT = r"[ \t]*-(?:\+-)?\[(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}\]-"
BRANCH = r"[ |\t]*[+\\]-(?:\[|[0-9a-f]{2}\.[0-7])"
MOST_DEVICES = 16_384


class Leaf(msgspec.Struct, frozen=True):
    """A device of the tree."""

    parent: str
    """Address of the bridge above, or "pci0000:00"."""
    name: str
    """What -v prints behind it; may be empty."""


class _Bus(msgspec.Struct, frozen=True):
    domain: str
    number: str
    parent: str


def read_tree(lines: Iterable[str]) -> dict[str, Leaf]:
    """The devices of a tree by address."""
    found: dict[str, Leaf] = {}
    at: dict[int, _Bus] = {}
    for line in lines:
        _read_line(line.rstrip(), at, found)
        if len(found) >= MOST_DEVICES:
            break
    return found


def _read_line(line: str, at: dict[int, _Bus], found: dict[str, Leaf]) -> None:
    bus: _Bus | None = None
    opened = False
    address = ""
    place = 0
    while place < len(line) and (token := _TOKEN.match(line, place)):
        column, place = place, token.end()
        if token["branch"]:
            if not opened and not address:  # a branch of a bus that a line above opened
                bus = at.get(column)
                if bus is None:
                    continue
                for other in [c for c in at if c > column]:
                    del at[other]
            elif bus is not None:
                at[column] = bus
            opened, address = False, ""
        elif token["bus"]:
            domain = token["domain"]
            if address:
                known = bus.domain if bus is not None else "0000"
                bus = _Bus(domain or known, token["bus"], address)
            else:
                root = domain or "0000"
                bus = _Bus(root, token["bus"], f"pci{root}:{token['bus']}")
            opened, address = True, ""
        elif token["slot"]:
            if bus is None:
                return
            address = f"{bus.domain}:{bus.number}:{token['slot']}.{token['function']}"
            if not line.startswith("-", place):
                found.setdefault(address, Leaf(bus.parent, line[place:].strip()[:300]))
                return
            found.setdefault(address, Leaf(bus.parent, ""))
            opened = False
