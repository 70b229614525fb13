"""Which tab of the screen Fleet is in sight, which row is selected, which nodes were chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from gputop.screens.fleet.cells import per_cell
from gputop.screens.fleet.figures import FiguresTab
from gputop.screens.fleet.groups import GroupsTab
from gputop.screens.fleet.keys import TABS
from gputop.screens.fleet.nodes import NodesTab
from gputop.screens.fleet.odd import OddTab
from gputop.screens.fleet.tab import FleetFacts, FleetTab, counted
from gputop.terminal.clean import clean
from gputop.topology.fleet.planning.maps import HeatCell, LeafMap
from gputop.topology.model.severity import BROKEN, SLOW
from gputop.widgets.spans import Line, Span, centre, left, wrapped

if TYPE_CHECKING:
    from gputop.live.fleet_watch import FleetState

# Tab Links: node by rail and leaf by leaf, as shares of the median of equal figures.
_CELL, _WIDE_CELL = 5, 11
_WELL = 0.9
"""Share of the median from which a cell is a dot."""
_MOST_SAID = 6


class LinksTab(FleetTab):
    """Nodes side by side; one with a bad link begins a row, the worst first."""

    nothing = ((" no pair was measured", "muted"),)
    commands = (
        ("gputop fleet plan DIR", "says which pairs to measure"),
        ("gputop probe net", "measures one, started on both nodes"),
    )

    @property
    def marked(self) -> int:
        """The name alone, so that the heat of its row stays in sight."""
        return self._longest + 2

    def __init__(self, facts: FleetFacts) -> None:
        super().__init__(facts)
        self._links = facts.links
        self._nodes = {row.host: row for row in facts.links.rails.nodes}
        self._longest = min(max(8, *map(len, self._nodes), 0), 20)
        several = len(facts.links.rails.rails) > 1
        self._cell = _CELL if several else _WIDE_CELL
        self._bad = tuple(host for host, row in self._nodes.items() if row.harm[0] < 0)

    @property
    def _across(self) -> int:
        """How many nodes stand side by side."""
        one = self._longest + 3 + self._cell * len(self._links.rails.rails)
        return max((self.room + 1) // one, 1)

    @property
    def _rows(self) -> dict[str, tuple[str, ...]]:
        """Name of a row -> its nodes; one with a bad link leads its row.

        Where a look did not finish, the node has the row alone: how many is said behind it.
        """
        rest = iter([host for host in self._nodes if host not in self._bad])
        rows = [
            (host, *islice(rest, 0 if self._lost(host) else self._across - 1)) for host in self._bad
        ]
        while row := tuple(islice(rest, self._across)):
            rows.append(row)
        return {hosts[0]: hosts for hosts in rows}

    def _lost(self, host: str) -> int:
        """How many looks at one rail of the node did not finish."""
        cells = self._nodes[host].cells
        return max((one.unfinished for one in cells if one is not None), default=0)

    @property
    def names(self) -> Sequence[str]:
        """The first node of each row."""
        return tuple(self._rows)

    def caption(self) -> str:
        """How many, and what a figure means."""
        if not self._nodes:
            return "Links between nodes"
        many = counted(len(self._nodes), "node")
        return f"{many} by rail, worst first · % of the median; · is {_WELL * 100:.0f} or more"

    def head(self, width: int) -> Line:
        """The rails."""
        names = [
            "all rails" if rail is None else f"rail {rail}" for rail in self._links.rails.rails
        ]
        if len(names) > 1:
            names = [name.removeprefix("rail ") for name in names]
        spans: list[Span] = []
        for _ in range(max(map(len, self._rows.values()), default=1)):
            spans.append((f" {left('↓ rail →', self._longest + 1)}", "muted"))
            spans += [(centre(name, self._cell), "muted") for name in names]
            spans.append((" ", ""))
        return tuple(spans)

    def row(self, name: str, width: int, selected: bool = False) -> Line:
        """The nodes of a row, side by side."""
        spans: list[Span] = []
        for host in self._rows[name]:
            ink = "strong" if host in self._bad else "muted"
            spans.append((f" {left(clean(host, 64), self._longest)} ", ink))
            spans += [_dotted(one, self._cell) for one in self._nodes[host].cells]
            spans.append((" ", ""))
        if lost := self._lost(name):
            looks = max(one.looks for one in self._nodes[name].cells if one)
            spans.append((f"  ✗ {lost} of {looks} did not finish", "bad"))
        return tuple(spans)

    def title(self, name: str) -> str:
        """What the panel shows."""
        links = self._links
        leaves = f" · {links.word} by {links.word}" if links.leaves.leaves else ""
        return f"{counted(links.looks, 'look')} at pairs{leaves}"

    def detail(self, name: str, width: int, height: int) -> Sequence[Line]:
        """Whom the looks accuse, and the map of the leaves."""
        lines = [*self._accused(width), ()]
        for host in self.hosts(name):
            figures = [_cell(one, self._cell) for one in self._nodes[host].cells]
            lines.append(((f"{left(clean(host, 64), self._longest)} ", "strong"), *figures))
        lines.append(())
        lines += leaf_lines(self._links.leaves, self._links.word, width)
        if self._links.assumption:
            lines += [(), *wrapped(((clean(self._links.assumption, 300), "warn"),), width, 2)]
        if not self._links.leaves.leaves:
            lines += wrapped(
                (("No leaves are known: --topology FILE names them.", "muted"),), width
            )
        if bad := self._links.unusable:
            said = f"{counted(len(bad), 'file')} of pairs cannot be used: "
            first = f"{bad[0][0]}: {bad[0][1]}"
            lines += [(), *wrapped(((said, "warn"), (clean(first, 300), "")), width, 2)]
        return lines

    def _accused(self, width: int) -> list[Line]:
        links = self._links
        culprits, suspects = links.found.culprits, links.found.suspects
        lines: list[Line] = []
        for culprit in culprits[:_MOST_SAID]:
            sign, ink, _ = (BROKEN if culprit.fails else SLOW).shown
            lines += wrapped(
                ((f"{sign} ", ink), (clean(culprit.said, 400), "strong"),
                 (f" {clean(culprit.because, 300)}", "muted")), width, 2,
            )  # fmt: skip
        if len(culprits) > _MOST_SAID:
            lines.append(((f"  and {len(culprits) - _MOST_SAID} more", "muted"),))
        if suspects:
            names = self.facts.folded(tuple(one.host for one in suspects))
            said = f"? {counted(len(suspects), 'suspect')}, to be measured with others: "
            lines += wrapped(((said, "warn"), (clean(names, 600), "")), width, 2)
        for doubt in links.doubts[:3]:
            lines += wrapped((("? ", "warn"), (clean(doubt, 400), "muted")), width, 2)
        if not lines:
            lines.append((("· no look accuses anybody", "good"),))
        if links.unfinished:
            lines.append(
                ((f"{counted(links.unfinished, 'look')} did not come to an end", "muted"),)
            )
        return lines

    def hosts(self, name: str) -> tuple[str, ...]:
        """Its nodes; of a row that one with a bad link leads, that one."""
        return (name,) if name in self._bad else self._rows[name]

    def copied(self, name: str) -> tuple[str, ...]:
        """What is accused, else the nodes of the row."""
        said = tuple(clean(culprit.said, 400) for culprit in self._links.found.culprits)
        return said or (self.facts.chosen(self.hosts(name)),)


def _pale(share: float) -> str:
    """The ink of a cell of which no look was bad: colour only where it is not healthy."""
    return "muted" if share >= _WELL else "warn"


def _dotted(cell: HeatCell | None, width: int) -> Span:
    """The same; a dot for what is healthy."""
    well = cell is not None and not cell.mostly_bad and (cell.share or 0.0) >= _WELL
    return (centre("·", width), "muted") if well else _cell(cell, width)


def _cell(cell: HeatCell | None, width: int) -> Span:
    """One cell: a share in percent; a sign and a colour where looks were bad."""
    if cell is None:
        return (centre("–", width), "muted")
    if cell.share is None:
        return (
            centre("✗" if cell.unfinished else "–", width),
            "bad" if cell.unfinished else "muted",
        )
    sign, ink = ("▼", "bad") if cell.mostly_bad else ("", _pale(cell.share))
    return (centre(f"{sign}{cell.share * 100:.0f}", width), ink)


def leaf_lines(leaves: LeafMap, word: str, width: int) -> list[Line]:
    """Leaves by leaves; where they are more than cells, a cell shows the worst of several."""
    names = leaves.leaves
    if not names:
        return []
    longest = min(max(map(len, names)), 14)
    wide = len(names) * 5 <= width - longest - 2
    cell = 5 if wide else 2
    most = max((width - longest - 2) // cell, 1)
    size = per_cell(len(names), most)
    groups = [names[start : start + size] for start in range(0, len(names), size)]
    lines: list[Line] = []
    said = f"{counted(len(names), word) if word != 'leaf' else _leaves(len(names))}"
    if size > 1:
        said += f", {size} to a row: the worst of them"
    lines.append((("▼", "bad"), (f" most looks bad · % of the median · {said}", "muted")))
    if wide:
        # Without what all names begin with; numbers stay whole.
        same = len(_common(names).rstrip("0123456789"))
        heads = [centre(clean(name[same:][-4:] or name[-4:]), cell) for name in names]
        lines.append(((" " * (longest + 2), ""), *((head, "muted") for head in heads)))
    for group in groups:
        row: list[Span] = [(f" {left(clean(group[0], 64), longest)} ", "strong")]
        for other in groups:
            found = [one for a in group for b in other if (one := leaves.cell(a, b)) is not None]
            worst = min(found, key=_harm, default=None)
            row.append(_cell(worst, cell) if wide else _small(worst))
        lines.append(tuple(row))
    return lines


def _common(names: Sequence[str]) -> str:
    """What all names begin with."""
    first, last = min(names), max(names)
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(one for one, _ in pairs)


def _leaves(count: int) -> str:
    return f"{count:,} {'leaf' if count == 1 else 'leaves'}"


def _harm(cell: HeatCell) -> tuple[int, float]:
    return -cell.mostly_bad - cell.unfinished, 1.0 if cell.share is None else cell.share


def _small(cell: HeatCell | None) -> Span:
    if cell is None:
        return ("  ", "")
    if cell.share is None:
        return ("✗ ", "bad")
    return ("▼ ", "bad") if cell.mostly_bad else ("· ", _pale(cell.share))


NODES = TABS[-1]
_MADE: dict[str, Callable[[FleetFacts], FleetTab]] = {
    "odd": OddTab,
    "groups": GroupsTab,
    "figures": FiguresTab,
    "links": LinksTab,
}


class FleetTabs:
    """The tabs of the newest fleet, each made when it is shown first."""

    def __init__(self) -> None:
        self.name = TABS[0]
        """The tab in sight."""
        self.facts: FleetFacts | None = None
        """What is shown; None before the first reading is done."""
        self.selected: dict[str, str] = {}
        """Tab -> its selected row."""
        self.words = ""
        """The filter of the nodes."""
        self._only: tuple[str, ...] = ()
        self._why = ""
        self._ordered = False
        self._from = ""
        """The tab that chose the nodes; Esc goes back to it."""
        self._made: dict[str, FleetTab] = {}

    def take(self, state: FleetState) -> None:
        """Take what the thread has read."""
        facts = self.facts
        if state.fleet is not None and (facts is None or facts.fleet is not state.fleet):
            self.facts = FleetFacts(state.fleet)
            self._made.clear()

    @property
    def tab(self) -> FleetTab | None:
        """The tab in sight; None before the first reading is done."""
        if self.facts is None:
            return None
        found = self._made.get(self.name)
        if found is None:
            if self.name in _MADE:
                found = _MADE[self.name](self.facts)
            else:
                found = NodesTab(
                    self.facts, self._only, self._why, self.words, ordered=self._ordered
                )
            self._made[self.name] = found
        return found

    @property
    def row(self) -> str:
        """The selected row of the tab in sight; "" for none."""
        return self.selected.get(self.name, "")

    @row.setter
    def row(self, name: str) -> None:
        self.selected[self.name] = name

    @property
    def narrowed(self) -> bool:
        """Whether the tab Nodes shows some nodes only."""
        return bool(self._only or self.words)

    def show(self, name: str) -> None:
        """Show a tab; of the nodes all."""
        if name == NODES and self.narrowed:
            self.show_all()
        self.name, self._from = name, ""

    def choose(self, hosts: tuple[str, ...], why: str, *, ordered: bool = False) -> None:
        """Show these nodes alone; `ordered`: in this order."""
        if self.name != NODES:
            self._from = self.name
        self._only, self._why, self._ordered, self.words = hosts, why, ordered, ""
        self._made.pop(NODES, None)
        self.selected[NODES] = ""
        self.name = NODES

    def filter(self, words: str) -> None:
        """Show the nodes that these words or this list name."""
        self.words = words
        self._made.pop(NODES, None)

    def show_all(self) -> None:
        """Show all nodes again."""
        self._only, self._why, self._ordered, self.words = (), "", False, ""
        self._made.pop(NODES, None)

    def back(self) -> None:
        """Undo a choice of nodes, and go back to where it was made."""
        if self.name == NODES and self.narrowed:
            self.show_all()
            self.name, self._from = self._from or NODES, ""
