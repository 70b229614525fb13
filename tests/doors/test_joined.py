"""Texts of one machine, in any company: no verdict worsens or becomes healthy by adding a text.

A fault that no text alone shows needs two facts, which are named here. Only what shows the health
of the GPUs may make a node healthy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from random import Random

import pytest

from gputop.reading import _read_log
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.model.severity import BROKEN, SLOW, Verdict
from gputop.topology.node import Node
from gputop.topology.recorded.load import LoadError, load

from .machine_texts import CAPTURED, MACHINES, written

Said = tuple[Verdict, frozenset[str]]
BY_TWO: dict[str, tuple[tuple[str, set[str]], ...]] = {
    "MI300X": (("pcie-width", {"metric.json", "static.json"}),),
}
"""Machine -> faults that two texts show together, with the texts."""
REFUTED: dict[str, tuple[tuple[str, set[str]], ...]] = {
    # NCCL's file has no link that is down; the snapshot tells that it is there.
    "sick H100": (("nvlink-missing", {"snapshot.json"}),),
}
"""Machine -> faults that one text shows, with those of which any refutes it."""
CHEAP = ("MI300X", "A100 with one link", "H200 and its runs", "a paste", "L40S")
"""Machines of which the gate takes a pair of texts; the grid takes all subsets of all."""
HEALTH = {"nvidia-smi-q.xml", "nvidia-smi-q-x.xml", "nvml.json", "smi-q.txt", "snapshot.json"}
"""Texts that say how the GPUs are."""


def asked(*paths: Path) -> Said:
    """The verdict on these texts, and the faults that are stated."""
    try:
        snapshot = load([str(path) for path in paths], logs=_read_log).snapshot
    except LoadError:
        return Verdict.CANNOT_TELL, frozenset()
    found = diagnose(Case(Node(snapshot).decide()))
    stated = {finding.id for finding in found.findings if finding.severity in (BROKEN, SLOW)}
    return found.verdict, frozenset(stated)


def wrong(machine: str, names: set[str], said: Said, alone: Mapping[str, Said]) -> Iterator[str]:
    """What the verdict on some texts has that no text gives it."""
    verdict, stated = said
    shown = frozenset[str]().union(*(alone[name][1] for name in names))
    by_two = {ident for ident, needed in BY_TWO.get(machine, ()) if needed <= names}
    refuted = {ident for ident, by in REFUTED.get(machine, ()) if by & names}
    for ident in sorted(stated - shown - by_two):
        yield f"{sorted(names)}: {ident} without a fact"
    for ident in sorted((shown | by_two) - refuted - stated):
        yield f"{sorted(names)}: {ident} is gone"
    if verdict is Verdict.HEALTHY and not names & HEALTH:
        yield f"{sorted(names)}: healthy without its evidence"


def found(machine: str, paths: Mapping[str, Path], subsets: list[tuple[str, ...]]) -> list[str]:
    """What is wrong with the verdicts on these subsets of a machine's texts."""
    alone = {name: asked(paths[name]) for name in set().union(*subsets)}
    return [
        fault
        for names in subsets
        for fault in wrong(machine, set(names), asked(*(paths[name] for name in names)), alone)
    ]


def _subsets(paths: Mapping[str, Path]) -> list[tuple[str, ...]]:
    return [names for many in range(1, len(paths) + 1) for names in combinations(paths, many)]


def test_two_texts_of_a_machine_say_what_each_says(tmp_path: Path) -> None:
    for machine in CHEAP:
        folder = tmp_path / machine
        folder.mkdir()
        paths = dict(written(MACHINES[machine](), folder))
        pair = tuple(Random(machine).sample(sorted(paths), 2))
        assert not found(machine, paths, [pair]), machine


@pytest.mark.grid
@pytest.mark.parametrize("machine", MACHINES)
def test_any_texts_of_a_machine(machine: str, tmp_path: Path) -> None:
    paths = dict(written(MACHINES[machine](), tmp_path))
    assert not found(machine, paths, _subsets(paths))


@pytest.mark.captures
@pytest.mark.parametrize("machine", CAPTURED)
def test_any_texts_of_a_captured_machine(machine: str, tmp_path: Path) -> None:
    paths = dict(written(CAPTURED[machine](), tmp_path))
    assert not found(machine, paths, _subsets(paths))


def test_a_verdict_without_a_fact_is_seen() -> None:
    alone = {"a": (Verdict.SLOW, frozenset({"x"})), "b": (Verdict.CANNOT_TELL, frozenset())}

    def of(verdict: Verdict, stated: set[str]) -> list[str]:
        return list(wrong("none", {"a", "b"}, (verdict, frozenset(stated)), alone))

    assert of(Verdict.SLOW, {"x"}) == []
    assert of(Verdict.SLOW, {"x", "y"}) == ["['a', 'b']: y without a fact"]
    assert of(Verdict.HEALTHY, set()) == [
        "['a', 'b']: x is gone",
        "['a', 'b']: healthy without its evidence",
    ]
