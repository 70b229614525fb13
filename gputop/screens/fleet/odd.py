"""Tab Odd: what is found about the nodes, the most harmful first."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.printing.render import finding_lines
from gputop.screens.fleet.tab import FleetFacts, FleetTab, counted, said_drains
from gputop.terminal.clean import clean
from gputop.topology.fleet.finding import FleetFinding
from gputop.widgets.spans import Line, heads, left, right, wrapped

_WIDE = 100


class OddTab(FleetTab):
    """A row for each finding, with the nodes that it is about."""

    nothing = ((" no findings about any node", "muted"),)

    def __init__(self, facts: FleetFacts) -> None:
        super().__init__(facts)
        self._found: dict[str, FleetFinding] = {}
        for item in facts.fleet.findings:
            # Titles hold counts, which change while files come; what stands before them stays.
            stem = f"{item.id} {item.severity} {item.title.split(':')[0][:40]}"
            name, number = stem, 1
            while name in self._found:
                number += 1
                name = f"{stem} {number}"
            self._found[name] = item

    @property
    def names(self) -> Sequence[str]:
        """Findings."""
        return tuple(self._found)

    def caption(self) -> str:
        """How many there are."""
        return f"{counted(len(self._found), 'finding')}, the most harmful first"

    def head(self, width: int) -> Line:
        """Sign, number of nodes, who, what."""
        names = self._names_width(width)
        return heads("   ", right("nodes", 6), f"  {left('who', names)}  ", "what")

    def row(self, name: str, width: int, selected: bool = False) -> Line:
        """One finding."""
        item = self._found[name]
        sign, ink, _ = item.severity.shown
        names = self._names_width(width)
        who = self.facts.folded(item.hosts) if item.hosts else "–"
        room = max(width - names - 13, 4)
        return (
            (f" {sign} ", ink),
            (right(f"{len(item.hosts):,}" if item.hosts else "–", 6), ""),
            (f"  {left(who, names)}  ", "strong"),
            (left(clean(item.title, 600), room), ""),
        )

    def _names_width(self, width: int) -> int:
        longest = max(
            (len(self.facts.folded(one.hosts)) for one in self._found.values()), default=0
        )
        return max(min(longest, 30 if width > _WIDE else 18), 4)

    def title(self, name: str) -> str:
        """The rule."""
        return clean(self._found[name].id, 60)

    def detail(self, name: str, width: int, height: int) -> Sequence[Line]:
        """Proof, impact, who, what to do, and the lines for Slurm."""
        item = self._found[name]
        first, *rest = finding_lines(item, width)
        lines = [first, *rest]
        if item.hosts:
            who = f"{counted(len(item.hosts), 'node')}: "
            lines[2:2] = wrapped(
                ((who, "key bold"), (clean(self.facts.folded(item.hosts), 2000), "")), width, 2
            )
        return [*lines, *said_drains(self.facts.drains(item.hosts), width)]

    def hosts(self, name: str) -> tuple[str, ...]:
        """The nodes of a finding."""
        return self._found[name].hosts

    def copied(self, name: str) -> tuple[str, ...]:
        """Lines for Slurm, else the commands of the fix, else the nodes."""
        item = self._found[name]
        commands = tuple(fix.command for fix in item.fix if fix.command)
        return self.facts.drains(item.hosts) or commands or (self.facts.chosen(item.hosts),)
