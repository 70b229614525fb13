"""Demos parsed once for all tests: nearly every test of a screen or a command opens one.

A demo's raw answers are a pure function of its name and the tick, and so is what their parsers make
of them. Where that is the subject, in `tests/topology/recorded`, it is made each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import SimpleNamespace

import pytest

from gputop.topology.model.machine import Machine
from gputop.topology.model.part import PartialNode
from gputop.topology.recorded import feeds
from gputop.topology.recorded.demos import demo

MOST = 600
"""Answers that are kept: a demo that opens with its last minutes has 150 of them."""
PLAIN = {name: vars(feeds)[name] for name in ("demo", "merge_machine")}

Asked = tuple[str, str, int]
_machines: dict[tuple[int, ...], tuple[tuple[PartialNode, ...], Machine]] = {}


def share() -> None:
    """Let demos ask here first."""
    names = ("raw", "moving", "opening")
    asking = {kind: lambda name, tick, kind=kind: (kind, name, tick) for kind in names}
    vars(feeds).update(demo=SimpleNamespace(parts=parts, **asking), merge_machine=merged)


@lru_cache(MOST)
def parts(asked: Asked) -> Mapping[str, PartialNode]:
    """What the parsers make of the answers of a demo: of which kind, its name and the tick."""
    kind, name, tick = asked
    made: Mapping[str, PartialNode] = demo.parts(vars(demo)[kind](name, tick))
    return made


def merged(of: tuple[PartialNode, ...]) -> Machine:
    """The machine of these parts, made now or before."""
    place = tuple(map(id, of))
    if place not in _machines:
        while len(_machines) >= MOST:
            del _machines[next(iter(_machines))]
        _machines[place] = of, PLAIN["merge_machine"](of)
    return _machines[place][1]


@pytest.fixture
def demos_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse every demo as the product does."""
    for name, plain in PLAIN.items():
        monkeypatch.setattr(feeds, name, plain)
