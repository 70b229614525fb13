"""How the last runs of probes on this node differ from earlier ones: `gputop probe --history`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from gputop.answers.figures import WIDTH, apart, table
from gputop.answers.measured import live_snapshot
from gputop.answers.question import Answer, Question, Request
from gputop.exits import CANNOT_TELL, Exit
from gputop.measuring import history
from gputop.measuring.history_compare import FigureChange, RunComparison, compare_last
from gputop.measuring.quantities import quantity
from gputop.measuring.runs import request_for
from gputop.terminal.clean import clean
from gputop.topology.model import units
from gputop.topology.model.english import plural
from gputop.topology.model.page import Block, Page, Text

MOST_CHANGES = 16
_LONGEST = 44


class HistoryRequest(Request, frozen=True, kw_only=True):
    """Compare the last runs on this node with earlier ones."""

    names: tuple[str, ...] = ()


class HistoryAnswer(Answer, frozen=True, kw_only=True, tag="gputop.history/1"):
    """The last run of each probe beside the earlier ones."""

    hidden: ClassVar[tuple[str, ...]] = ("labels",)
    node: str
    """The key of the node in the history."""
    runs: int
    """How many runs are kept."""
    comparisons: tuple[RunComparison, ...]
    labels: dict[str, str]


def answer(asked: HistoryRequest) -> HistoryAnswer:
    """Compare the history of this node; it reads files only, so GPUs may be busy."""
    machine = live_snapshot().machine
    key = history.node_key(machine)
    kept = history.runs(key)
    found = compare_last(kept, asked.names)
    if not found and not asked.as_json:
        what = f" of {', '.join(asked.names)}" if asked.names else ""
        raise Exit(f"no run{what} on this node is kept{_where()}", CANNOT_TELL)
    return HistoryAnswer(
        node=key,
        runs=len(kept),
        comparisons=tuple(found),
        labels=dict(request_for("p2p", machine, ()).names),
    )


def _where() -> str:
    try:
        return f" in {history.folder()}"
    except OSError as error:
        return f": {error}"


def page(found: HistoryAnswer) -> Page:
    """A few lines and a table of changes for each probe."""
    groups = [tuple(compared(each, found.labels)) for each in found.comparisons]
    return Page(title="history", blocks=apart(groups))


def compared(comparison: RunComparison, names: Mapping[str, str]) -> Iterator[Block]:
    """One probe: what is new about its run, and its changed figures."""
    when = units.moment(comparison.taken_at, "%Y-%m-%d %H:%M")
    level = clean(comparison.level, 10)
    yield Text(f"{clean(comparison.probe, 20)}, {when}, level {level}: {_beside(comparison)}")
    for what, entries in (("versions", comparison.stack), ("variables", comparison.environment)):
        changes = "; ".join(
            f"{clean(name, 40)} {_or(', '.join(was))} -> {_or(now)}" for name, was, now in entries
        )
        if changes:
            yield Text(clean(f"other {what}: {changes}", 600))
    rows = [_row(comparison.probe, change, names) for change in comparison.marked[:MOST_CHANGES]]
    if rows:
        yield table(("earlier", "now", "change", "runs"), rows)
    if len(comparison.marked) > MOST_CHANGES:
        yield Text(f"... and {len(comparison.marked) - MOST_CHANGES} more; --json has all")


def _beside(comparison: RunComparison) -> str:
    if not comparison.earlier_runs:
        return "the first run that is kept"
    known = [change for change in comparison.changes if change.percent is not None]
    runs = plural(comparison.earlier_runs, "earlier run")
    if not known:
        return f"none of its figures is in the {runs}"
    far = max(known, key=lambda change: abs(change.percent or 0.0))
    return (
        f"{len(comparison.marked)} of {len(known)} figures differ by more than 5 % from the median "
        f"of {runs} (at most {far.percent:+.1f} %)"
    )


def _or(text: str) -> str:
    return clean(text, 120) or "not set"


def _row(probe: str, change: FigureChange, names: Mapping[str, str]) -> list[str]:
    ends = [names.get(end, clean(end, 16)) for end in (change.src, change.dst) if end]
    label = f"{change.quantity.replace('_', ' ')} {change.variant or ''}".strip()
    if change.bytes_per_copy and quantity(change.quantity, probe).over_sizes:
        label += f" {units.size(change.bytes_per_copy)}"
    label = clean(f"{label} {' -> '.join(ends)}".strip(), _LONGEST)
    earlier = f"{units.figure(change.earlier)} {clean(change.unit or '', 8)}".strip()
    return [label, earlier, units.figure(change.now), f"{change.percent:+.1f} %", str(change.runs)]


COMPARED = Question(
    name="history", request=HistoryRequest, answer=answer, page=page, width=lambda: WIDTH
)
