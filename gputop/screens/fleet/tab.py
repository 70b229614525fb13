"""The listings of the screen Fleet, and what several of them make of a fleet."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from functools import cached_property

from gputop.screens.listing import Listing
from gputop.terminal.clean import clean
from gputop.topology.fleet.draining import Drain, drains
from gputop.topology.fleet.fleet import Fleet
from gputop.topology.fleet.hosts import fold
from gputop.topology.model.copied import may_stand
from gputop.widgets.spans import Line, wrapped


class FleetTab(Listing):
    """A listing of a fleet; made anew of each reading."""

    def __init__(self, facts: FleetFacts) -> None:
        self.facts = facts

    room = 66
    """Cells of a row, for a tab that puts several nodes into one."""

    def hosts(self, name: str) -> tuple[str, ...]:
        """The nodes that a row is about."""
        raise NotImplementedError


class FleetFacts:
    """A fleet, with what several tabs make of it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.links = fleet.links
        self._folded: dict[tuple[str, ...], str] = {}

    @cached_property
    def _drains(self) -> tuple[Drain, ...]:
        return drains(self.fleet, slight=True)

    def drains(self, hosts: Iterable[str]) -> tuple[str, ...]:
        """The lines for `scontrol` that take these nodes out of service."""
        wanted = frozenset(hosts)
        found = [one.command for one in self._drains if not wanted.isdisjoint(one.hosts)]
        return tuple(filter(None, found))

    def chosen(self, hosts: tuple[str, ...]) -> str:
        """The option by which Slurm's tools take these nodes; "" for a name that none can hold."""
        if not hosts or not all(may_stand(host, "name") for host in hosts):
            return ""
        return shlex.quote(f"--nodelist={self.folded(hosts)}")

    def folded(self, hosts: tuple[str, ...]) -> str:
        """Hosts as a list, as plain text; folding ten thousand takes a while."""
        found = self._folded.get(hosts)
        if found is None:
            found = self._folded[hosts] = clean(fold(hosts), 20_000) if hosts else ""
        return found


def said_drains(commands: Sequence[str], width: int) -> list[Line]:
    """These lines for the panel, with what they are for."""
    if not commands:
        return []
    lines: list[Line] = [(), (("To drain them in Slurm", "key bold"), (" (y copies)", "muted"))]
    for command in commands[:6]:
        lines += wrapped(((clean(command, 4000), "key"),), width, 2)
    if len(commands) > 6:
        lines.append(((f"and {len(commands) - 6} more", "muted"),))
    return lines


def counted(number: int, word: str) -> str:
    """A number with its noun: "1 node", "12 nodes"."""
    return f"{number:,} {word}{'s' * (number != 1)}"
