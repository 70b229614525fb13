"""Tab Groups: nodes that are alike in all their facts, and how a group differs from the largest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gputop.screens.fleet.tab import FleetFacts, FleetTab, counted
from gputop.terminal.clean import clean
from gputop.topology.fleet.finding import differences
from gputop.topology.fleet.grouping import AlikeNodes
from gputop.topology.fleet.section import CATEGORIES
from gputop.widgets.spans import Line, heads, left, right, wrapped

NOT_READ = "not read"


class GroupsTab(FleetTab):
    """A row for each group, the largest first."""

    nothing = ((" no node has written a file that can be used", "muted"),)

    def __init__(self, facts: FleetFacts) -> None:
        super().__init__(facts)
        # Named by a node: the groups of a growing fleet change their number and their place.
        self._groups = {group.hosts[0]: group for group in facts.fleet.groups}

    @property
    def names(self) -> Sequence[str]:
        """Groups, by their first node."""
        return tuple(self._groups)

    def caption(self) -> str:
        """How many there are."""
        return f"{counted(len(self._groups), 'group')} of equal nodes, the largest first"

    def head(self, width: int) -> Line:
        """Number, who, what they are."""
        who = f"  {left('who', self._who(width))}  "
        return heads(right("nodes", 7), who, "what they are and run")

    def _who(self, width: int) -> int:
        longest = max(
            (len(self.facts.folded(one.hosts)) for one in self._groups.values()), default=0
        )
        return max(min(longest, width // 3, 36), 4)

    def row(self, name: str, width: int, selected: bool = False) -> Line:
        """One group."""
        group = self._groups[name]
        who = self._who(width)
        product = clean(group.product or "no GPU", 200).replace("NVIDIA ", "")
        about = " · ".join(filter(None, (product, clean(group.summary, 200))))
        if self._reference(group) and (
            other := differences(self.facts.fleet.by_host.get(group.hosts[0], ()))
        ):
            about = f"the same, but {clean(other, 300)}"
        return (
            (right(f"{len(group.hosts):,}", 7), "" if group.reference else "warn"),
            (f"  {left(self.facts.folded(group.hosts), who)}  ", "strong"),
            (left(about, max(width - who - 11, 4)), ""),
        )

    def title(self, name: str) -> str:
        """What the nodes are."""
        return clean(self._groups[name].product or "no GPU", 100)

    def detail(self, name: str, width: int, height: int) -> Sequence[Line]:
        """What differs from the largest group of this product; of that group, its facts."""
        group = self._groups[name]
        who = f"{counted(len(group.hosts), 'node')}: "
        lines = [
            *wrapped(
                ((who, "key bold"), (clean(self.facts.folded(group.hosts), 2000), "")), width, 2
            )
        ]
        other = self._reference(group)
        mine = self._of(group)
        if not any(mine.values()):
            return [*lines, (), (("an older gputop wrote these files: no facts", "muted"),)]
        if other is None:
            lines += [(), (("The largest group of this product", "key bold"),)]
            return [*lines, *_facts(mine, width)]
        title = f"What differs from the {len(other.hosts):,} of {self.facts.folded(other.hosts)}"
        lines += [(), *wrapped(((clean(title, 300), "key bold"),), width, 2)]
        theirs = self._of(other)
        differing = _differing(mine, theirs, width)
        return [*lines, *(differing or [(("only facts that one side did not read", "muted"),)])]

    def _of(self, group: AlikeNodes) -> dict[str, Mapping[str, str]]:
        report = self.facts.fleet.nodes[group.hosts[0]]
        return {category: report.category(category) for category in CATEGORIES}

    def _reference(self, group: AlikeNodes) -> AlikeNodes | None:
        if group.reference:
            return None
        return next(
            (
                one
                for one in self._groups.values()
                if one.product == group.product and one.reference
            ),
            None,
        )

    def hosts(self, name: str) -> tuple[str, ...]:
        """The nodes of a group."""
        return self._groups[name].hosts

    def copied(self, name: str) -> tuple[str, ...]:
        """The nodes, as Slurm's tools take them."""
        return (self.facts.chosen(self._groups[name].hosts),)


def _facts(facts: Mapping[str, Mapping[str, str]], width: int) -> list[Line]:
    lines: list[Line] = []
    for category, known in facts.items():
        if known:
            lines += [(), ((category.capitalize(), "strong"),)]
        for what, value in known.items():
            lines += wrapped(
                ((f"  {clean(what, 80)}: ", "muted"), (clean(value, 600), "")), width, 4
            )
    return lines


def _differing(
    mine: Mapping[str, Mapping[str, str]], theirs: Mapping[str, Mapping[str, str]], width: int
) -> list[Line]:
    lines: list[Line] = []
    for category in CATEGORIES:
        for what in dict.fromkeys((*theirs[category], *mine[category])):
            here, there = (
                facts.get(what, "not set" if category == "environment" else NOT_READ)
                for facts in (mine[category], theirs[category])
            )
            if here != there:
                lines += wrapped(((f"▽ {clean(what, 80)} ", "warn"), (category, "muted")), width, 2)
                lines += wrapped((("  here   ", "muted"), (clean(here, 600), "strong")), width, 9)
                lines += wrapped((("  there  ", "muted"), (clean(there, 600), "")), width, 9)
    return lines
