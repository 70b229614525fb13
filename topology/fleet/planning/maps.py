"""Heat maps of the network between nodes: node by rail, and leaf by leaf.

A cell is a share of the median of equal figures (`judging`), so that near and far pairs, large and
small messages can stand in one map.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from .fabric import SwitchFabric
from .judging import JudgedLook, Judgements


@dataclass(frozen=True, slots=True)
class HeatCell:
    """What some looks say of one cell."""

    share: float | None
    """Middle of the lowest figure of each look, as a share of the median of its equals; None where
    no look came to its end or nothing is equal."""
    gbs: float | None
    """The same in GB/s."""
    looks: int
    bad: int
    """Looks with a bad figure here."""
    unfinished: int = 0
    """Looks that did not come to their end."""

    @property
    def mostly_bad(self) -> bool:
        """Whether most looks were bad: a look at a sick partner makes nobody else look sick."""
        return 2 * self.bad > self.looks - self.unfinished


@dataclass(frozen=True, slots=True)
class NodeRails:
    """One node on all rails."""

    host: str
    cells: tuple[HeatCell | None, ...]
    """In the order of `RailMap.rails`; None where nothing was measured."""

    @property
    def harm(self) -> tuple[int, float]:
        """For sorting, the worst first: bad rails, looks without an end, then the lowest share."""
        cells = [cell for cell in self.cells if cell is not None]
        bad = sum(cell.mostly_bad for cell in cells)
        bad += max((cell.unfinished for cell in cells), default=0)
        shares = [cell.share for cell in cells if cell.share is not None]
        return -bad, min(shares, default=1.0)


@dataclass(frozen=True, slots=True)
class RailMap:
    """Every node of a look by every rail."""

    rails: tuple[int | None, ...] = ()
    """None: all rails at once, where no rail was measured alone."""
    nodes: tuple[NodeRails, ...] = ()
    """The worst first."""


@dataclass(frozen=True, slots=True)
class LeafMap:
    """Leaves by leaves; a cell stands for all pairs between two, or within one."""

    leaves: tuple[str, ...] = ()
    cells: dict[tuple[str, str], HeatCell] | None = None
    """By two leaves in the order of `leaves`."""

    def cell(self, one: str, other: str) -> HeatCell | None:
        """The cell of two leaves, whichever comes first."""
        cells = self.cells or {}
        return cells.get((one, other)) or cells.get((other, one))


@dataclass(slots=True)
class _Gathered:
    shares: list[float]
    figures: list[float]
    looks: int = 0
    bad: int = 0
    unfinished: int = 0

    def cell(self) -> HeatCell:
        return HeatCell(
            share=median(self.shares) if self.shares else None,
            gbs=median(self.figures) if self.figures else None,
            looks=self.looks,
            bad=self.bad,
            unfinished=self.unfinished,
        )


def rail_map(judged: Judgements) -> RailMap:
    """Nodes by rails. A look at two nodes counts for both: it cannot tell which of them is bad."""
    lows = [_lows(judged, look) for look in judged.looks]
    rails = sorted({rail for low in lows for rail in low if rail is not None})
    columns: tuple[int | None, ...] = tuple(rails) or (None,)
    cells: dict[tuple[str, int | None], _Gathered] = {}
    for look, low in zip(judged.looks, lows, strict=True):
        if len(look.look.hosts) != 2:
            continue
        bad = {flow.rail for flow in look.bad}
        for host in look.look.hosts:
            for rail in columns:
                if look.look.finished and rail not in low:
                    continue
                _add(cells.setdefault((host, rail), _Gathered([], [])), look, low.get(rail),
                     bad=rail in bad)  # fmt: skip
    known = {place: found.cell() for place, found in cells.items()}
    hosts = dict.fromkeys(host for host, _ in cells)
    rows = [NodeRails(host, tuple(known.get((host, rail)) for rail in columns)) for host in hosts]
    # `sorted` keeps the order of equals.
    return RailMap(rails=columns, nodes=tuple(sorted(rows, key=lambda row: row.harm)))


def leaf_map(judged: Judgements, leaves: SwitchFabric) -> LeafMap:
    """Leaves by leaves; `leaves` may be a guess."""
    order = {leaf: place for place, leaf in enumerate(dict.fromkeys(leaves.leaf_of.values()))}
    cells: dict[tuple[str, str], _Gathered] = {}
    for look in judged.looks:
        ends = [leaf for host in look.look.hosts if (leaf := leaves.leaf(host)) is not None]
        if len(look.look.hosts) != 2 or len(ends) < 2:
            continue
        one, other = sorted(ends, key=order.__getitem__)
        low = _lows(judged, look)
        worst = min(low.values(), key=lambda pair: pair[0], default=None)
        _add(cells.setdefault((one, other), _Gathered([], [])), look, worst, bad=bool(look.bad))
    named = {leaf for pair in cells for leaf in pair}
    return LeafMap(
        leaves=tuple(leaf for leaf in order if leaf in named),
        cells={pair: found.cell() for pair, found in cells.items()},
    )


def _add(to: _Gathered, look: JudgedLook, low: tuple[float, float] | None, *, bad: bool) -> None:
    to.looks += 1
    to.bad += bad
    to.unfinished += not look.look.finished
    if low is not None:
        to.shares.append(low[0])
        to.figures.append(low[1])


def _lows(judged: Judgements, look: JudgedLook) -> dict[int | None, tuple[float, float]]:
    """Rail -> the lowest share of the median of its equals, and that figure in GB/s."""
    if not look.look.finished or len(look.look.hosts) != 2:
        return {}
    found: dict[int | None, tuple[float, float]] = {}
    for key, flow in zip(look.classes, look.look.results, strict=True):
        norm = judged.norms.get(key)
        if norm is None or not norm.median or flow.gbs is None:
            continue
        share = flow.gbs / norm.median
        if flow.rail not in found or share < found[flow.rail][0]:
            found[flow.rail] = (share, flow.gbs)
    return found
