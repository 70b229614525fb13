"""What pairs of nodes measured, judged: the culprits, and the maps of rails and leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..hosts import in_order
from .culprits import Localisation
from .fabric import SwitchFabric
from .fabric_text import fabric_guessed
from .folder import FolderRead, PlanHead, once, silent
from .judging import judge
from .localising import localise
from .looks import WRONG_DATA, NetLook
from .maps import LeafMap, RailMap, leaf_map, rail_map


@dataclass(frozen=True, slots=True)
class FleetLinks:
    """The network between the nodes, as far as pairs measured it."""

    looks: int = 0
    """Measurements of two or more nodes."""
    unfinished: int = 0
    """Those that did not come to their end, also because no file came."""
    rails: RailMap = field(default_factory=RailMap)
    leaves: LeafMap = field(default_factory=LeafMap)
    word: str = "leaf"
    """What a group of nodes is called, for people."""
    found: Localisation = field(default_factory=Localisation)
    doubts: tuple[str, ...] = ()
    undecided: bool = False
    """Whether figures contradict each other, so that nobody could be accused."""
    wrong: tuple[tuple[str, ...], ...] = ()
    """Hosts of each look whose data arrived wrong."""
    wide: tuple[NetLook, ...] = ()
    """Looks at more than two nodes whose last one did not finish; no pair tells who is to blame."""
    assumption: str = ""
    """Why the leaves may be wrong; "" where a file names them, or where there are none."""
    unusable: tuple[tuple[str, str], ...] = ()
    """Files that cannot be used, and why."""


def links_of(
    items: Iterable[NetLook | PlanHead],
    fabric: SwitchFabric,
    kinds: Mapping[str, str],
    unusable: Sequence[tuple[str, str]] = (),
) -> FleetLinks:
    """Judge looks beside the plans that asked for them.

    `kinds`: host -> its hardware, where it is known; unlike hosts are not compared.
    """
    runs: dict[tuple[str, tuple[str, ...]], NetLook] = {}
    read = FolderRead()
    for item in items:
        if isinstance(item, NetLook):
            once(item, runs)
        else:
            read.plans.append(item)
    read.looks += runs.values()
    read.looks += silent(read)
    if not read.looks:
        return FleetLinks(unusable=tuple(unusable))
    judged = judge(read.looks, fabric, kinds)
    leaves = _leaves(read.looks, fabric)
    return FleetLinks(
        looks=len(read.looks),
        unfinished=sum(not look.finished for look in read.looks),
        rails=rail_map(judged),
        leaves=leaf_map(judged, leaves),
        word=leaves.word,
        found=localise(judged, fabric),
        doubts=judged.doubts,
        undecided=judged.undecided,
        wrong=tuple(dict.fromkeys(look.hosts for look in read.looks if _is_wrong(look))),
        wide=tuple(_wide(read.looks)),
        assumption=leaves.assumption,
        unusable=tuple(unusable),
    )


def _is_wrong(look: NetLook) -> bool:
    return any(flow.verdict == WRONG_DATA for flow in look.results)


def _wide(looks: Iterable[NetLook]) -> Iterable[NetLook]:
    last: dict[tuple[str, ...], NetLook] = {}
    for look in looks:
        if len(look.hosts) > 2:
            key = tuple(sorted(look.hosts))
            before = last.get(key)
            if before is None or (look.taken_at or 0.0) >= (before.taken_at or 0.0):
                last[key] = look
    return (look for look in last.values() if not look.finished)


def _leaves(looks: Sequence[NetLook], fabric: SwitchFabric) -> SwitchFabric:
    """The leaves for the map: those of the file, else a guess from the names of the nodes."""
    if fabric.leaf_of:
        return fabric
    try:
        return fabric_guessed(in_order({host for look in looks for host in look.hosts}))
    except ValueError:
        return SwitchFabric()
