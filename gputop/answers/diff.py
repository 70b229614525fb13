"""What differs between two readings of a node, or between two nodes, and what that means."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from gputop.answers.question import Answer, Option, Question, Request, problem_lines
from gputop.exits import USAGE, Exit
from gputop.reading import load_files, load_snapshot, read_snapshot
from gputop.terminal.clean import clean
from gputop.terminal.lines import warn
from gputop.terminal.size import text_width
from gputop.topology.diff.diff import NodeDiff, diff
from gputop.topology.diff.record import (
    DiffRelation,
    DiffSide,
    DiffVerdict,
    NodeChange,
    Uncompared,
)
from gputop.topology.diff.side import side_of, side_of_node, side_of_report
from gputop.topology.fleet.reading import read_bytes, read_file
from gputop.topology.fleet.record import Interned, NodeReport
from gputop.topology.model.english import first
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import (
    Block,
    Bullets,
    Entries,
    Findings,
    Heading,
    Page,
    PageEntry,
    Role,
    Text,
)
from gputop.topology.model.severity import Severity, Verdict
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.recorded.demos import demo
from gputop.topology.recorded.load import STDIN

LIVE, THIS = "-", "this machine"
MOST_NAMED = 6
_LONGEST = 80


class DiffRequest(Request, frozen=True, kw_only=True):
    """Say what differs between A and B and what that means, most harmful first.

    A and B are files or folders as --from takes them, saved checks, names of demos, or - for this
    machine as it is now; without B, A is held against this machine. Exit codes: 0 the same or
    harmless, 1 B is worse, 3 cannot tell.
    """

    before: Annotated[str, Option("A", "the first", "A", "files")]
    now: Annotated[str | None, Option("B", "the second", "[B]", "files")] = None


class DiffEnd(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two, in short."""

    name: str
    node: str | None
    """Its host name."""
    taken_at: float | None
    """Seconds since the epoch; null where the text does not tell."""
    product: str
    verdict: Verdict


class DiffAnswer(Answer, frozen=True, kw_only=True, tag="gputop.diff/1"):
    """What is other in the second, most harmful first."""

    before: DiffEnd
    now: DiffEnd
    relation: DiffRelation
    verdict: DiffVerdict
    answer: tuple[str, ...]
    """What it comes to, and what was compared."""
    came: tuple[Finding, ...]
    """Findings of `check` that only the second has."""
    gone: tuple[Finding, ...]
    """Findings that only the first has."""
    changes: tuple[NodeChange, ...]
    unproven: tuple[Finding, ...]
    """Findings of the second about what the first does not tell: they may be old."""
    uncompared: tuple[Uncompared, ...]

    @property
    def exit_code(self) -> int:
        """1 where the second is worse, 3 where nobody can tell."""
        return self.verdict.exit_code


def answer(asked: DiffRequest) -> DiffAnswer:
    """Read both, and say how they compare. Raises Exit."""
    return answer_of(compared(asked))


def compared(asked: DiffRequest) -> NodeDiff:
    """Read both, and compare them. Raises Exit."""
    now = LIVE if asked.now is None else asked.now
    if asked.before == now == LIVE:
        raise Exit("A and B are both this machine: keep one with `gputop snapshot -o FILE`", USAGE)
    alike = Path(asked.before).name == Path(now).name
    return diff(_read(asked.before, "A", alike), _read(now, "B", alike))


def held_against(name: str, shown: Node, pasted: bytes = b"") -> DiffAnswer:
    """Hold a node that is decided against what `name` names; with `pasted` that is a text.

    Raises Exit.
    """
    snapshot = shown.snapshot
    now = side_of_node(THIS if snapshot.is_live else ", ".join(snapshot.source), shown)
    if pasted:
        read = load_files((STDIN,), pasted, stdin_name=name).snapshot
        return answer_of(diff(side_of(name, read), now))
    before = _read(name, "A", False, lambda one: load_files((one,)).snapshot)
    return answer_of(diff(before, now))


def answer_of(found: NodeDiff) -> DiffAnswer:
    """The answer that a comparison gives."""
    ends = (_end(found.before, found.before.verdict), _end(found.now, found.verdict_now))
    nodes = (found.before.node, found.now.node)
    notes = (note for node in nodes if node is not None for note in node.snapshot.assumptions)
    return DiffAnswer(
        source=(ends[0].name, ends[1].name),
        assumptions=tuple(dict.fromkeys(notes)),
        before=ends[0],
        now=ends[1],
        relation=found.relation,
        verdict=found.verdict,
        answer=found.answer,
        came=found.came,
        gone=found.gone,
        changes=found.changes,
        unproven=found.unproven,
        uncompared=found.uncompared,
    )


def shown_names(before: NodeSnapshot, now: NodeSnapshot) -> tuple[str, str]:
    """What two readings are called that came without a name; never the same."""
    first, second = (
        THIS if one.is_live else clean(", ".join(one.source), _LONGEST) for one in (before, now)
    )
    return (first, second) if first != second else (f"{first} before", f"{second} now")


def _end(side: DiffSide, verdict: Verdict) -> DiffEnd:
    return DiffEnd(
        name=side.name,
        node=side.host,
        taken_at=side.taken_at or None,
        product=side.product,
        verdict=verdict,
    )


def _loaded(name: str) -> NodeSnapshot:
    return load_snapshot((name,))


def _read(
    name: str, place: str, whole: bool, load: Callable[[str], NodeSnapshot] = _loaded
) -> DiffSide:
    """One of the two as it is named; `whole`: called by its whole path. Raises Exit."""
    if name == "":
        raise Exit(f"{place} is empty: name a file, a folder, a demo, or - for this machine", USAGE)
    if name == LIVE:
        snapshot = read_snapshot((), None)
        for line in problem_lines(snapshot, absences=False):
            warn(line)
        return side_of(THIS, snapshot)

    if name in demo.names():
        return side_of(f"demo {name}", read_snapshot((), name))
    path = Path(name)
    shown = clean(name if whole else path.name or name, _LONGEST)
    report = read_file(str(path.parent), path.name, Interned()) if _is_file(path) else None
    if not isinstance(report, NodeReport):
        return side_of(shown, load(name))
    with suppress(Exit):
        return side_of(shown, load(name))
    return side_of_report(shown, report, _examined(path))


class _Check(msgspec.Struct):
    examined: list[str] = []


def _examined(path: Path) -> frozenset[str]:
    """The rules that a check had evidence for, by its file, which was read once already."""
    try:
        data = read_bytes(str(path.parent), path.name)
        return frozenset(msgspec.json.decode(data, type=_Check).examined)
    except ValueError:
        return frozenset()


def _is_file(path: Path) -> bool:
    try:
        return os.path.isfile(path)
    except ValueError:
        return False


def page(found: DiffAnswer) -> Page:
    """The answer in two lines, then findings, changes, what is gone, and what nobody can tell."""
    return Page(title="diff", blocks=tuple(_blocks(found)))


def _blocks(found: DiffAnswer) -> Iterator[Block]:
    said, compared = found.answer
    role = Role(found.verdict.ink)
    yield Text.marked(found.verdict, (f" {said}", role))
    yield Text(compared, role=Role.MUTED)
    loud = tuple(one for one in found.came if one.severity.counts)
    if found.came:
        yield Heading(f"Found in {found.now.name} alone")
        yield Findings(found.came, leading=loud[:1])
    for title, rows in _changed(found):
        yield Heading(title)
        heads = ("", found.before.name, found.now.name)
        yield Entries(tuple(map(_change, rows)), whole=True, heads=heads)
    if found.gone:
        yield Heading(f"Found in {found.before.name} alone")
        yield Findings(found.gone)
    if found.unproven:
        yield Heading(f"Found in {found.now.name}, where {found.before.name} does not tell")
        yield Findings(found.unproven)
    if found.uncompared:
        yield Heading("Cannot be compared")
        yield Bullets(tuple(map(_untold, found.uncompared)))


def _changed(found: DiffAnswer) -> Iterator[tuple[str, list[NodeChange]]]:
    """The changes that do harm and the others, each with what stands above them."""
    harmful = [one for one in found.changes if one.severity is not Severity.NOTICE]
    rest = [one for one in found.changes if one.severity is Severity.NOTICE]
    if harmful:
        yield "Changed, and harmful", harmful
    if rest:
        yield "Changed", rest


def _change(one: NodeChange) -> PageEntry:
    """A line with both values, and what it means below."""
    values = one.moved if one.before or one.now else ""
    between = ": " if values else ""
    said = (f" {one.what}", Role.LABEL), (f"{between}{values}", Role.PLAIN)
    return PageEntry(
        line=Text.marked(one.severity, *said),
        more=(Text(one.meaning, hanging=0),) if one.meaning else (),
        devices=one.devices,
        mark=one.severity,
        cells=(one.what, *((one.before or "none", one.now or "none") if values else ("", ""))),
    )


def _untold(one: Uncompared) -> str:
    return f"{one.part}: {first(one.what, MOST_NAMED)}; {one.why}"


QUESTION = Question(name="diff", request=DiffRequest, answer=answer, page=page, width=text_width)
