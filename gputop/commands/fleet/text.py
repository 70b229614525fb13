"""A fleet as text: the verdict first, then who is meant, what differs, and what to do."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from gputop.printing.fleet import verdict_line
from gputop.printing.render import finding_blocks, texts
from gputop.terminal.clean import clean
from gputop.topology.fleet.draining import drains
from gputop.topology.fleet.finding import HEALTHY, FleetFinding
from gputop.topology.fleet.fleet import Fleet
from gputop.topology.fleet.hosts import fold
from gputop.topology.fleet.since import FleetChange
from gputop.topology.model.severity import NOTICE

_MOST_GROUPS = 6
_MOST_NOTICES = 12
_LONGEST_LIST = 400
"""Letters of a list of hosts; a longer one is cut behind a whole name, with their number."""


def lines(
    fleet: Fleet, width: int | None, *, verbose: bool = False, change: FleetChange | None = None
) -> Iterator[str]:
    """All lines, wrapped at `width` columns; None: as long as they are."""
    yield from _wrap(verdict_line(fleet), width, "  ")
    for item in fleet.findings:
        if item.severity != NOTICE or verbose:
            yield from _finding(item, width, verbose=verbose)
    notices = [item for item in fleet.findings if item.severity == NOTICE]
    if notices and not verbose:
        for item in notices[:_MOST_NOTICES]:
            yield from _finding(item, width, verbose=False)
        if len(notices) > _MOST_NOTICES:
            yield f"• {len(notices) - _MOST_NOTICES} more notices; -v shows them"
    yield from _groups(fleet, width)
    if change is not None:
        yield from _change(change, width)
    yield from _drains(fleet, verbose=verbose)
    if verbose:
        yield from _by_host(fleet, width)


def _finding(item: FleetFinding, width: int | None, *, verbose: bool) -> Iterator[str]:
    sign, _, _ = item.severity.shown
    who = f"{_listed(item.hosts)}: " if item.hosts else ""
    yield from _wrap(f"{sign} {who}{item.title} [{item.id}]", width, "  ")
    if not verbose:
        return
    yield from texts(finding_blocks(item), width, 4)
    left = len(item.hosts) - len(item.evidence)
    if item.evidence and left > 0 and len(item.evidence) > 1:
        yield f"    and {left} nodes more"


def _listed(hosts: Sequence[str]) -> str:
    """Hosts as a list; names without order make a long one."""
    folded = fold(hosts)
    if len(folded) <= _LONGEST_LIST:
        return folded
    end = _LONGEST_LIST
    while end > 0 and not (
        folded[end] == "," and folded.count("[", 0, end) == folded.count("]", 0, end)
    ):
        end -= 1
    return f"{folded[: end or _LONGEST_LIST]},… ({len(hosts):,} nodes; --json names all)"


def _groups(fleet: Fleet, width: int | None) -> Iterator[str]:
    if not fleet.groups:
        return
    yield ""
    yield "Nodes that are alike"
    # A line that says "one more" takes as much room as the one that it stands for.
    most = _MOST_GROUPS + (len(fleet.groups) == _MOST_GROUPS + 1)
    for group in fleet.groups[:most]:
        many = f"{len(group.hosts)} × " if len(group.hosts) > 1 else ""
        about = ", ".join(filter(None, (group.product or "no GPU", group.summary)))
        yield from _wrap(f"  {many}{_listed(group.hosts)}: {about}", width, "    ")
    left = fleet.groups[most:]
    if left:
        count = sum(len(group.hosts) for group in left)
        yield f"  {count} node{'s' * (count != 1)} in {len(left)} more groups; --json lists them"


def _change(change: FleetChange, width: int | None) -> Iterator[str]:
    yield ""
    yield "Since the earlier reading"
    moved = (("worse", change.worse), ("better", change.better), ("changed", change.other))
    for word, items in moved:
        kinds: dict[str, list[str]] = {}
        for item in items:
            text = f"{item.before or 'not there'} → {item.now or 'not there'}"
            kinds.setdefault(text, []).append(item.host)
        for text, hosts in kinds.items():
            yield from _wrap(f"  {word}: {_listed(hosts)}: {text}", width, "    ")
    for word, found in (("came", change.came), ("gone", change.gone)):
        for finding in found:
            who = f"{_listed(finding.hosts)}: " if finding.hosts else ""
            yield from _wrap(f"  {word}: {who}{finding.title} [{finding.id}]", width, "    ")
    if not any((change.worse, change.better, change.other, change.came, change.gone)):
        yield "  nothing changed"


def _drains(fleet: Fleet, *, verbose: bool) -> Iterator[str]:
    found = drains(fleet, slight=verbose)
    if found:
        yield ""
        yield "To take them out of a Slurm cluster (copy; gputop runs nothing)"
        for drain in found:
            yield f"  {drain.command}"


def _by_host(fleet: Fleet, width: int | None) -> Iterator[str]:
    rows = [host for host in fleet.hosts if fleet.states[host] != HEALTHY]
    if not rows:
        return
    yield ""
    yield "Node by node"
    for host in rows:
        ids = dict.fromkeys(item.id for item in fleet.by_host.get(host, ()))
        yield from _wrap(f"  {host}: {fleet.states[host].word}: {', '.join(ids)}", width, "    ")


def _wrap(text: str, width: int | None, hanging: str) -> Iterable[str]:
    shown = clean(text, 4000)
    if width is None:
        return [shown]
    indent = shown[: len(shown) - len(shown.lstrip())]
    return textwrap.wrap(
        shown.strip(),
        max(width, 40),
        initial_indent=indent,
        subsequent_indent=hanging,
        break_on_hyphens=False,
        break_long_words=False,
    )
