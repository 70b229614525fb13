"""`gputop probe --history`: compares the last runs on this node with the earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click
import msgspec

from gputop import __version__
from gputop.commands.probe.node import live_snapshot
from gputop.commands.probe.table import table, wrapped
from gputop.exits import CANNOT_TELL, Exit
from gputop.measuring import history
from gputop.measuring.history_compare import compare_last
from gputop.measuring.quantities import quantity
from gputop.measuring.runs import request_for
from gputop.terminal.clean import clean
from gputop.terminal.lines import print_json
from gputop.topology.model import units

if TYPE_CHECKING:
    from gputop.measuring.history_compare import FigureChange, RunComparison

MOST_CHANGES = 16
_LONGEST = 44


def print_history(names: tuple[str, ...], *, as_json: bool) -> None:
    """Print the history of this node; it reads files only, so GPUs may be busy."""
    machine = live_snapshot().machine
    labels = dict(request_for("p2p", machine, ()).names)
    key = history.node_key(machine)
    kept = history.runs(key)
    found = compare_last(kept, names)
    if as_json:
        print_json(
            {
                "schema": "gputop.history/1",
                "gputop": __version__,
                "source": ["live"],
                "assumptions": [],
                "node": key,
                "runs": len(kept),
                "comparisons": [msgspec.to_builtins(comparison) for comparison in found],
            }
        )
        return
    if not found:
        what = f" of {', '.join(names)}" if names else ""
        raise Exit(f"no run{what} on this node is kept{_where()}", CANNOT_TELL)
    click.echo("\n\n".join(text_of(comparison, labels) for comparison in found))


def _where() -> str:
    try:
        return f" in {history.folder()}"
    except OSError as error:
        return f": {error}"


def text_of(comparison: RunComparison, names: Mapping[str, str]) -> str:
    """One probe: a few lines and a table of changes."""
    when = units.moment(comparison.taken_at, "%Y-%m-%d %H:%M")
    level = clean(comparison.level, 10)
    head = f"{clean(comparison.probe, 20)}, {when}, level {level}: {_beside(comparison)}"
    lines = [wrapped(head)]
    for what, entries in (("versions", comparison.stack), ("variables", comparison.environment)):
        if entries:
            said = "; ".join(
                f"{clean(name, 40)} {_or(', '.join(was))} -> {_or(now)}"
                for name, was, now in entries
            )
            lines.append(wrapped(clean(f"other {what}: {said}", 600)))
    rows = [_row(comparison.probe, change, names) for change in comparison.marked[:MOST_CHANGES]]
    if rows:
        lines.append(table(["earlier", "now", "change", "runs"], rows))
    if len(comparison.marked) > MOST_CHANGES:
        lines.append(f"... and {len(comparison.marked) - MOST_CHANGES} more; --json has all")
    return "\n".join(lines)


def _beside(comparison: RunComparison) -> str:
    if not comparison.earlier_runs:
        return "the first run that is kept"
    known = [change for change in comparison.changes if change.percent is not None]
    runs = f"{comparison.earlier_runs} earlier run{'s' * (comparison.earlier_runs != 1)}"
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
