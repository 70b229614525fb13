"""The best K GPUs of a node: sought by their wiring, then by what the library makes of the best.

GPUs that could be swapped for each other without a difference are of one kind, and so are groups
whose pairs are joined alike. Each kind of group is looked at once, and the library's decisions are
predicted for the few kinds whose wiring is best.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import comb

import msgspec

from ..expectation.collective_figures import LARGE_BYTES
from ..expectation.modelled import modelled, ring_gbs
from ..expectation.over_pcie import over_pcie
from ..flags.values.predicting import predict_with_flags
from ..nccl.decide.predict import NoGpusError
from ..nccl.prediction import Prediction
from ..node import Node
from .group_wiring import GroupWiring

MOST_PREDICTED = {8: 8, 16: 4}
"""On nodes of so many GPUs; a prediction takes 10 to 200 ms."""
FEWEST = 2


class GpuGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Some GPUs of a node. GB/s; of an all-reduce of 1 GiB it is bus bandwidth."""

    gpus: tuple[str, ...]
    """PCI addresses by rank: neighbours are joined best."""
    alike: int
    """How many groups of this node are of this kind, itself included."""
    models: tuple[str, ...]
    """Different models of GPUs in it: it is as fast as the slowest."""
    slowest_tflops: float
    """The data sheet's dense BF16 or FP16 of the slowest; 0 where any candidate's is not known."""
    ailing: int
    busy: int
    unsure: int
    numa_nodes: tuple[int | None, ...]
    nics: tuple[str, ...]
    """NICs below one PCIe switch with a GPU of it."""
    link_gbs: float | None
    """What the narrowest way between two of them carries one way; of one GPU that to the host."""
    narrowest: tuple[str, str] | None
    """These two; None of one GPU."""
    low_gbs: float | None = None
    """The least that the library's decisions for these GPUs give."""
    high_gbs: float | None = None
    prediction: Prediction | None = None


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """The best group, the best of another kind, and how many were looked at."""

    best: GpuGroup | None
    second: GpuGroup | None
    possible: int
    kinds: int
    whole: bool
    """Whether every kind of group was looked at."""


def best_groups(
    node: Node,
    candidates: Sequence[str],
    count: int,
    *,
    ailing: Collection[str] = (),
    busy: Collection[str] = (),
    unsure: Collection[str] = (),
) -> Ranking:
    """Rank the groups of `count` among these GPUs, all of one vendor each.

    `candidates`: PCI addresses. `ailing`: those with a fault, `busy`: those in use, `unsure`:
    those of which nobody knows it; they only break ties. A few predictions are made.
    """
    seen = _Seen()
    for vendor in dict.fromkeys(gpu.vendor for gpu in node.machine.gpus):
        gpus = [
            gpu for gpu in node.machine.gpus if gpu.vendor == vendor and gpu.address in candidates
        ]
        if len(gpus) >= count:
            seen.look_at(vendor, GroupWiring(node, gpus, (ailing, busy, unsure)), count)
    most = next((n for size, n in MOST_PREDICTED.items() if len(candidates) <= size), FEWEST)
    groups = seen.best(most)
    if count > 1:
        groups = [_predicted(node, group) for group in groups]
    best, second = _first_two(sorted(groups, key=_merit, reverse=True))
    return Ranking(
        best=best,
        second=second,
        possible=seen.possible,
        kinds=len(seen.kinds),
        whole=seen.whole,
    )


def _first_two(groups: Sequence[GpuGroup]) -> tuple[GpuGroup | None, GpuGroup | None]:
    """The best group with all that are as good, and the first that is worse; `groups`: in order."""
    if not groups:
        return None, None
    equal = [group for group in groups if _merit(group) == _merit(groups[0])]
    second = next(iter(groups[len(equal) :]), None)
    alike = sum(group.alike for group in equal)
    return msgspec.structs.replace(equal[0], alike=alike), second


class _Kind(msgspec.Struct):
    """Groups that nothing tells apart: one of them, and how many there are."""

    worth: tuple[float, ...]
    members: list[int]
    wiring: GroupWiring
    many: int = 0


class _Seen:
    """The kinds of groups of a node, of each vendor."""

    def __init__(self) -> None:
        self.kinds: dict[object, _Kind] = {}
        self.possible, self.whole = 0, True

    def look_at(self, vendor: str, wiring: GroupWiring, count: int) -> None:
        """Take in the groups of the GPUs of one vendor."""
        self.possible += comb(wiring.size, count)
        self.whole = self.whole and wiring.is_small(count)
        for members, many in wiring.groups(count):
            key = vendor, wiring.kind(members)
            kind = self.kinds.get(key)
            if kind is None:
                kind = self.kinds[key] = _Kind(wiring.worth(members), members, wiring)
            kind.many += many

    def best(self, most: int) -> list[GpuGroup]:
        """One group of each of the best kinds by their wiring, the best first."""
        ordered = sorted(self.kinds.values(), key=lambda kind: kind.worth, reverse=True)
        return [_group(kind) for kind in ordered[:most]]


def _merit(group: GpuGroup) -> tuple[float, ...]:
    """What makes a group better than another, the weightiest first."""
    low, high = group.low_gbs, group.high_gbs
    if low is None or high is None:
        low = high = group.link_gbs
    return (
        -len(group.models),
        group.slowest_tflops,
        _rounded(low),
        _rounded(high),
        _rounded(group.link_gbs),
        -group.ailing,
        -group.busy,
        -len(group.numa_nodes),
        len(group.nics),
        -group.unsure,
    )


def _rounded(value: float | None) -> float:
    """Three digits: smaller differences are no reason."""
    return -1.0 if value is None else float(f"{value:.3g}")


def _predicted(node: Node, group: GpuGroup) -> GpuGroup:
    """The group with what the library decides for it."""
    try:
        made = predict_with_flags(node.snapshot, gpus=group.gpus)
    except NoGpusError:
        return group
    over = over_pcie(made, node)
    if over is not None:
        low, high = over.low, over.high
    else:
        known = [modelled(made, LARGE_BYTES)]
        if made.library.is_rccl:
            known.append(ring_gbs(made))  # its tables can be blind to what its rings lose
        figures = [figure for figure in known if figure is not None]
        if not figures:
            return msgspec.structs.replace(group, prediction=made)
        low = high = min(figures)
    return msgspec.structs.replace(group, low_gbs=low, high_gbs=high, prediction=made)


def _group(kind: _Kind) -> GpuGroup:
    """The record of a group."""
    wiring, members = kind.wiring, kind.members
    traits = [wiring.traits[i] for i in members]
    narrow, ends = wiring.narrowest(members)
    return GpuGroup(
        gpus=tuple(wiring.gpus[i].address for i in wiring.order(members)),
        alike=kind.many,
        models=tuple(sorted({one.model for one in traits})),
        slowest_tflops=min(one.peak for one in traits),
        ailing=sum(one.ailing for one in traits),
        busy=sum(one.busy for one in traits),
        unsure=sum(one.unsure for one in traits),
        numa_nodes=tuple(sorted({one.numa for one in traits}, key=lambda at: (at is None, at))),
        nics=wiring.nics_of(members),
        link_gbs=narrow,
        narrowest=ends,
    )
