"""Sick machines: recordings of real ones and demos, edited by the files in rule_cases/.

A file names its base, what is edited, and every finding that the rules then make:

    base = "hgx-h200-4gpu-live"          # or "demo hgx-h100-8", "kfd mi308x-8-cpx", or a file of
                                         # the recordings: "text nvidia-public/b300-8-topo.txt"
    title = "one GPU has not joined the fabric"
    expect = ["fabric-state"]            # every id that its base does not give already
    gone = ["gpu-busy"]                  # ids that the base gives and this one does not; optional
    exit = 2                             # of `gputop check --quick`
    [[edit]]
    path = "machine.gpus[2].fabric.state"
    value = "in progress"

`figures = ["p2p", "host", "on_device", "collectives"]` gives the base healthy figures of these
kinds first (measured.py; those of H200).

A path goes through the JSON of a snapshot: `[2]` an entry, `[*]` all, `[name=value]` those whose
field is that, `[name=value,other=value]` those where all are. `value` sets (and drops the gap of
that field), `times` multiplies a number, `append` adds to a list, `remove = true` takes out and
leaves the gap `why`. `earlier = true` edits a copy that is given as
the earlier reading, an hour before. `reference = "AWS p5.48xlarge"` is what the node is held
against; with "sister" it is the base itself, edited by what says `sister = true`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import Diagnosis, diagnose
from gputop.topology.expectation.reference import Reference, named, of_snapshot
from gputop.topology.model.severity import Verdict
from gputop.topology.model.snapshot import NodeSnapshot, decode
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.recorded.load import load
from gputop.topology.toml import tomllib
from tests.support.places import RECORDINGS, TESTS

from . import measured

FOLDER = TESTS / "rule_cases"
HOUR_SECONDS = 3600.0
_STEP = re.compile(r"([a-z0-9_]+)|\[(\*|\d+|[a-z0-9_]+=[^\]]+)\]")


class SickCase(msgspec.Struct, frozen=True):
    """One file."""

    name: str
    base: str
    title: str
    expect: tuple[str, ...]
    exit: int
    edits: tuple[dict[str, Any], ...]
    gone: tuple[str, ...] = ()
    against: str = ""
    figures: tuple[str, ...] = ()

    @property
    def whole(self) -> tuple[str, ...]:
        """Every id that the rules must give, notices of the unedited base included."""
        return tuple(sorted((set(self.expect) | set(base_ids(self.base))) - set(self.gone)))

    @property
    def kind(self) -> str:
        """What the rules are given beside the node: "alone", "earlier", "sister" or "named"."""
        if any(edit.get("earlier") for edit in self.edits):
            return "earlier"
        return "alone" if not self.against else "sister" if self.against == "sister" else "named"

    @property
    def snapshot(self) -> NodeSnapshot:
        """The edited node."""
        edits = [edit for edit in self.edits if not (edit.get("earlier") or edit.get("sister"))]
        return edited(with_figures(base(self.base), self.figures), edits)

    @property
    def reference(self) -> Reference | None:
        """What it is held against, where the case says so."""
        if self.against != "sister":
            return named(self.against) if self.against else None
        edits = [edit for edit in self.edits if edit.get("sister")]
        return of_snapshot(edited(base(self.base), edits), "sister.json")

    @property
    def earlier(self) -> NodeSnapshot | None:
        """The reading an hour before, where the case has one."""
        edits = [edit for edit in self.edits if edit.get("earlier")]
        if not edits:
            return None
        before = edited(base(self.base), edits)
        return msgspec.structs.replace(before, taken_at=before.taken_at - HOUR_SECONDS)


@cache
def base(name: str) -> NodeSnapshot:
    """A recording's or a demo's snapshot."""
    if name.startswith("demo "):
        return DemoFeed(name.removeprefix("demo "), version="0").at(0)
    if name.startswith("kfd "):
        return load([str(RECORDINGS / f"kfd/{name.removeprefix('kfd ')}.tar.gz")]).snapshot
    if name.startswith("text "):
        return load([str(RECORDINGS / name.removeprefix("text "))]).snapshot
    return decode((RECORDINGS / name / "snapshot.json").read_bytes())


@cache
def base_ids(name: str) -> tuple[str, ...]:
    """What the rules say of a base as it is."""
    return ids(diagnosed(base(name)))


@cache
def base_verdict(name: str) -> Verdict:
    """The verdict over a base as it is."""
    return diagnosed(base(name)).verdict


@cache
def cases() -> tuple[SickCase, ...]:
    """All files, by name."""
    found = []
    for path in sorted(FOLDER.glob("*.toml")):
        read = tomllib.loads(path.read_text())
        found.append(
            SickCase(
                name=path.stem,
                base=read["base"],
                title=read["title"],
                expect=tuple(sorted(read["expect"])),
                exit=read["exit"],
                edits=tuple(read.get("edit", ())),
                gone=tuple(read.get("gone", ())),
                figures=tuple(read.get("figures", ())),
                against=read.get("reference", ""),
            )
        )
    return tuple(found)


def smoke() -> tuple[SickCase, ...]:
    """One file of each exit code and each kind, for what need not go through all of them."""
    return tuple({(case.exit, case.kind): case for case in reversed(cases())}.values())


def with_figures(snapshot: NodeSnapshot, kinds: tuple[str, ...]) -> NodeSnapshot:
    """The same node with what healthy H200 give."""
    addresses = [gpu.address for gpu in snapshot.machine.gpus]
    found = [
        one
        for kind in kinds
        for one in (
            measured.collectives(len(addresses))
            if kind == "collectives"
            else getattr(measured, kind)(addresses)
        )
    ]
    return msgspec.structs.replace(snapshot, measurements=tuple(found)) if found else snapshot


def edited(snapshot: NodeSnapshot, edits: list[dict[str, Any]]) -> NodeSnapshot:
    """The same node with these changes; KeyError where a path leads nowhere."""
    document = msgspec.json.decode(msgspec.json.encode(snapshot))
    for edit in edits:
        _apply(document, edit)
    return msgspec.convert(document, NodeSnapshot)


KEPT = 24
_decided: list[Node] = []
"""The last machines that were asked about, with what NCCL will do there."""


def diagnosed(
    snapshot: NodeSnapshot, *, earlier: NodeSnapshot | None = None, **rest: Any
) -> Diagnosis:
    """What the rules say, with the prediction made."""
    return diagnose(Case(decided(snapshot), earlier=earlier, **rest))


def decided(snapshot: NodeSnapshot) -> Node:
    """The node with its prediction; of an equal machine it was made already, as in the app."""
    for place, known in enumerate(_decided):
        same = known.snapshot.machine == snapshot.machine
        if same and known.snapshot.assumptions == snapshot.assumptions:
            node = known.follow(snapshot)
            if node.decided:
                _decided.insert(0, _decided.pop(place))
                return node
    node = Node(snapshot).decide()
    _decided[:] = [node, *_decided[: KEPT - 1]]
    return node


def ids(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Ids of the findings, sorted, each once."""
    return tuple(sorted({finding.id for finding in diagnosis.findings}))


def severities(rule: str, snapshot: NodeSnapshot, **rest: Any) -> list[str]:
    """How bad the findings of one rule are."""
    return [
        finding.severity for finding in diagnosed(snapshot, **rest).findings if finding.id == rule
    ]


def _apply(document: Any, edit: dict[str, Any]) -> None:
    path = edit["path"]
    steps = [match.group(1) or f"[{match.group(2)}]" for match in _STEP.finditer(path)]
    assert "".join(f"[{s[1:-1]}]" if s[0] == "[" else f".{s}" for s in steps).lstrip(".") == path
    places = [document]
    for step in steps[:-1]:
        places = [found for place in places for found in _into(place, step)]
    if not places:
        raise KeyError(path)
    last = steps[-1]
    for place in places:
        _change(place, last, edit)


def _into(place: Any, step: str) -> list[Any]:
    if not step.startswith("["):
        if place.get(step) is None:
            place[step] = {}
        return [place[step]]
    return [place[index] for index in _indices(place, step[1:-1])]


def _indices(place: list[Any], which: str) -> list[int]:
    if which == "*":
        return list(range(len(place)))
    if which.isdecimal():
        return [int(which)]
    wanted = [part.partition("=")[::2] for part in which.split(",")]
    found = [
        index
        for index, one in enumerate(place)
        if all(str(one.get(field)) == value for field, value in wanted)
    ]
    if not found:
        raise KeyError(which)
    return found


def _change(place: Any, last: str, edit: dict[str, Any]) -> None:
    if last.startswith("["):
        for index in reversed(_indices(place, last[1:-1])):
            if edit.get("remove"):
                del place[index]
            else:
                place[index] = edit["value"]
        return
    gaps = place.get("gaps") or []
    if "append" in edit:
        place[last] = [*(place.get(last) or []), edit["append"]]
    elif "times" in edit:
        place[last] *= edit["times"]
    elif edit.get("remove"):
        place.pop(last, None)
        why = edit.get("why", "not asked")
        gaps = [*gaps, {"field": last, "why": why}]
    else:
        place[last] = edit["value"]
    if "gaps" in place or edit.get("remove"):
        place["gaps"] = [gap for gap in gaps if gap["field"] != last or edit.get("remove")]
