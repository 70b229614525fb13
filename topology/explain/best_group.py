"""The best K GPUs of a node: sought by their wiring, then by what the library makes of the best.

GPUs that could be swapped for each other without a difference are of one kind, and so are groups
whose pairs are joined alike. Each kind of group is looked at once, and the library's decisions are
predicted for the few kinds whose wiring is best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import permutations
from math import comb, prod
from typing import NamedTuple

import msgspec

from ..expectation.collective_figures import LARGE_BYTES
from ..expectation.links import host_link, link_of_pair
from ..expectation.modelled import modelled, ring_gbs
from ..expectation.over_pcie import over_pcie
from ..flags.values.predicting import predict_with_flags
from ..model.machine import Gpu, PciKind
from ..nccl.decide.predict import NoGpusError
from ..nccl.prediction import Prediction
from ..node import Node
from ..wiring.graph import gpu_numa

MOST_GROUPS = 13_000
"""C(16, 8) is 12,870. With more groups than this a part of them is looked at."""
MOST_PREDICTED = {8: 8, 16: 4}
"""On nodes of so many GPUs; a prediction takes 10 to 200 ms."""
FEWEST = 2
MOST_ORDERED = 8
"""All orders of so many ranks are compared; longer ones are made rank by rank."""
NEAR_NIC = ("PIX", "PXB")
_NEARNESS = {"PIX": 9, "PXB": 8, "PHB": 7, "NODE": 6, "SYS": 5}
SWITCHED = "NVSwitch"
_FAST_LINK = 100
"""Nearness of any pair that NVLink or xGMI joins; NVLinks are added to it."""


class GpuGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Some GPUs of a node. GB/s; of an all-reduce of 1 GiB it is bus bandwidth."""

    gpus: tuple[str, ...]
    """PCI addresses by rank: neighbours are joined best."""
    alike: int
    """How many groups of this node are of this kind, itself included."""
    models: int
    """Different models of GPUs in it: it is as fast as the slowest."""
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
    found: dict[object, tuple[tuple[float, ...], list[int], int, _Wiring]] = {}
    possible, whole = 0, True
    for vendor in dict.fromkeys(gpu.vendor for gpu in node.machine.gpus):
        gpus = [
            gpu for gpu in node.machine.gpus if gpu.vendor == vendor and gpu.address in candidates
        ]
        if len(gpus) < count:
            continue
        possible += comb(len(gpus), count)
        wiring = _Wiring(node, gpus, (ailing, busy, unsure))
        whole = whole and wiring.is_small(count)
        for members, many in wiring.groups(count):
            kind = vendor, wiring.kind(members)
            known = found.get(kind)
            if known is None:
                found[kind] = wiring.worth(members), members, many, wiring
            else:
                found[kind] = *known[:2], known[2] + many, wiring
    ordered = sorted(found.values(), key=lambda one: one[0], reverse=True)
    most = next((n for size, n in MOST_PREDICTED.items() if len(candidates) <= size), FEWEST)
    groups = [wiring.group(members, many) for _, members, many, wiring in ordered[:most]]
    if count > 1:
        groups = [_predicted(node, group) for group in groups]
    groups.sort(key=_merit, reverse=True)
    best = groups[0] if groups else None
    second = None
    if best is not None:
        equal = [group for group in groups if _merit(group) == _merit(best)]
        best = msgspec.structs.replace(best, alike=sum(group.alike for group in equal))
        second = next((group for group in groups[len(equal) :]), None)
    return Ranking(best=best, second=second, possible=possible, kinds=len(found), whole=whole)


def _merit(group: GpuGroup) -> tuple[float, ...]:
    """What makes a group better than another, the weightiest first."""
    low, high = group.low_gbs, group.high_gbs
    if low is None or high is None:
        low = high = group.link_gbs
    return (
        -group.models,
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


class _Traits(NamedTuple):
    """What a group takes over from one GPU."""

    model: str
    numa: int | None
    near_nic: bool
    host_gbs: float
    ailing: bool
    busy: bool
    unsure: bool


class _Wiring:
    """GPUs of one vendor, by number, with how each pair is joined."""

    def __init__(
        self,
        node: Node,
        gpus: Sequence[Gpu],
        flaws: tuple[Collection[str], Collection[str], Collection[str]],
    ) -> None:
        self._gpus = list(gpus)
        near = _near_nics(node)
        self._nics = [near.get(gpu.address, ()) for gpu in self._gpus]
        self._traits = [
            _Traits(
                gpu.name or "",
                gpu_numa(gpu),
                bool(nics),
                _host_gbs(node, gpu),
                *(gpu.address in several for several in flaws),
            )
            for gpu, nics in zip(self._gpus, self._nics, strict=True)
        ]
        self._pairs = _pairs(node, self._gpus)
        levels = {pair: at for at, pair in enumerate(sorted(set(self._pairs.values())))}
        numbers = range(len(self._gpus))
        self._level = [[0] * len(numbers) for _ in numbers]
        """How well each pair is joined, from 0."""
        self._bond = [[0] * len(numbers) for _ in numbers]
        """The same, with whether they share a NUMA node and a NIC."""
        for (i, j), pair in self._pairs.items():
            self._level[i][j] = self._level[j][i] = levels[pair]
            numa = self._traits[i].numa == self._traits[j].numa
            nic = bool(self._nics[i]) and self._nics[i] == self._nics[j]
            self._bond[i][j] = self._bond[j][i] = 4 * levels[pair] + 2 * numa + nic
        self._twins = self._alike()

    def _alike(self) -> list[list[int]]:
        """Numbers of GPUs that could be swapped for each other."""
        found: list[list[int]] = []
        for number in range(len(self._gpus)):
            for several in found:
                if self._swaps(several[0], number):
                    several.append(number)
                    break
            else:
                found.append([number])
        return found

    def _swaps(self, one: int, other: int) -> bool:
        if self._traits[one] != self._traits[other]:
            return False
        mine, theirs = self._bond[one], self._bond[other]
        return all(mine[k] == theirs[k] for k in range(len(mine)) if k not in (one, other))

    def is_small(self, count: int) -> bool:
        """Whether the groups are few enough to look at all of them."""
        ways = [1] + [0] * count
        for several in self._twins:
            ways = [
                sum(ways[left - taken] for taken in range(min(left, len(several)) + 1))
                for left in range(count + 1)
            ]
        return ways[count] <= MOST_GROUPS

    def groups(self, count: int) -> Iterator[tuple[list[int], int]]:
        """Groups to look at, with how many are the same but for GPUs that could be swapped."""
        if not self.is_small(count):
            yield from self._grown(count)
            return
        for taken in _shares([len(several) for several in self._twins], count):
            pairs = list(zip(self._twins, taken, strict=True))
            members = sorted(number for several, n in pairs for number in several[:n])
            yield members, prod(comb(len(several), n) for several, n in pairs)

    def _grown(self, count: int) -> Iterator[tuple[list[int], int]]:
        """One group around each kind of GPU: always the GPU that fits best is added."""
        for several in self._twins:
            members = [several[0]]
            while len(members) < count:
                rest = [
                    next(number for number in alike if number not in members)
                    for alike in self._twins
                    if not set(alike) <= set(members)
                ]
                members.append(max(rest, key=lambda new: self._joins(members, new)))
            yield sorted(members), 1

    def _joins(self, members: Sequence[int], new: int) -> tuple[int, int, int]:
        """How well a GPU is joined to others, for the choice of one more."""
        bonds = [self._bond[new][number] for number in members]
        return min(bonds), sum(bonds), -new

    def kind(self, members: Sequence[int]) -> object:
        """What groups have in common that nothing tells apart."""
        rows = sorted(
            (self._traits[i][2:], sorted(self._bond[i][j] for j in members if j != i))
            for i in members
        )
        models = Counter(self._traits[i].model for i in members)
        return repr((rows, sorted(models.items()), len(self._nics_of(members))))

    def worth(self, members: Sequence[int]) -> tuple[float, ...]:
        """The order in which kinds are predicted: a ring needs two good ways at each GPU."""
        traits = [self._traits[i] for i in members]
        ways = 2 if len(members) > 2 else 1
        rows = [
            sorted((self._level[i][j] for j in members if j != i), reverse=True) for i in members
        ]
        least = min((row[ways - 1] for row in rows if row), default=0)
        return (
            -len({one.model for one in traits}),
            least,
            sum(map(sum, rows)),
            -len({one.numa for one in traits}),
            len(self._nics_of(members)),
            min(one.host_gbs for one in traits),
            -sum(one.ailing for one in traits),
            -sum(one.busy for one in traits),
            -sum(one.unsure for one in traits),
        )

    def group(self, members: Sequence[int], alike: int) -> GpuGroup:
        """The record of a group."""
        traits = [self._traits[i] for i in members]
        narrow, ends = self._narrowest(members)
        return GpuGroup(
            gpus=tuple(self._gpus[i].address for i in self._order(members)),
            alike=alike,
            models=len({one.model for one in traits}),
            ailing=sum(one.ailing for one in traits),
            busy=sum(one.busy for one in traits),
            unsure=sum(one.unsure for one in traits),
            numa_nodes=tuple(sorted({one.numa for one in traits}, key=lambda at: (at is None, at))),
            nics=self._nics_of(members),
            link_gbs=narrow,
            narrowest=ends,
        )

    def _nics_of(self, members: Sequence[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(nic for i in members for nic in self._nics[i]))

    def _narrowest(self, members: Sequence[int]) -> tuple[float | None, tuple[str, str] | None]:
        if len(members) == 1:
            return self._traits[members[0]].host_gbs or None, None
        ends = [(i, j) for i in members for j in members if i < j]
        i, j = min(ends, key=self._pairs.__getitem__)
        return self._pairs[i, j].gbs or None, (self._gpus[i].address, self._gpus[j].address)

    def _order(self, members: Sequence[int]) -> Sequence[int]:
        """Ranks so that a ring of them is as wide as can be, and pairs of them too."""
        if len({self._level[i][j] for i in members for j in members if i != j}) < 2:
            return members
        if len(members) <= MOST_ORDERED:
            orders = ((members[0], *rest) for rest in permutations(members[1:]))
            return max(orders, key=self._ring)  # of equals the first: by address
        order = [members[0]]
        while len(order) < len(members):
            rest = [number for number in members if number not in order]
            order.append(max(rest, key=lambda new: (self._level[order[-1]][new], -new)))
        return order

    def _ring(self, order: Sequence[int]) -> tuple[int, int, int]:
        steps = [self._level[a][b] for a, b in zip(order, (*order[1:], order[0]), strict=True)]
        return min(steps), sum(steps[::2]), sum(steps)


class _Pair(NamedTuple):
    """How two GPUs are joined; the better one is the greater one."""

    worth: float
    """GB/s one way; 0 over other GPUs, since a ring does not go there."""
    nearness: int
    gbs: float
    letters: str


def _pairs(node: Node, gpus: Sequence[Gpu]) -> dict[tuple[int, int], _Pair]:
    found = {}
    for i, one in enumerate(gpus):
        for j in range(i + 1, len(gpus)):
            found[i, j] = _pair(node, one, gpus[j])
    return found


def _pair(node: Node, one: Gpu, other: Gpu) -> _Pair:
    letters = node.pairs.kind(one.address, other.address)
    nearness, sku = _nearness(letters), node.devices.sku(one)
    if letters == SWITCHED and sku is not None:
        link = link_of_pair(node, one, other, sku)  # without the graph, which 8,000 pairs feel
        if link is not None:
            return _Pair(link.now_gbs, nearness, link.now_gbs, letters)
    path = node.pairs.path(one.address, other.address)
    rate = 0.0 if path is None or path.payload_gbs is None else path.payload_gbs
    worth = 0.0 if path is not None and path.relayed else rate
    return _Pair(worth, nearness, rate, letters)


def _nearness(letters: str) -> int:
    if letters.startswith(("NV", "XGMI")):
        return _FAST_LINK + int(letters[2:] if letters[2:].isdecimal() else 0)
    return _NEARNESS.get(letters, 0)


def _near_nics(node: Node) -> Mapping[str, tuple[str, ...]]:
    """PCI address of a GPU -> the NICs that a PCIe switch joins to it, the nearest ones."""
    if not node.machine.rdma:
        return {}
    rows = node.matrix.rows
    nics = [at for at, row in enumerate(rows) if row.kind is not PciKind.GPU]
    found = {}
    for row in rows:
        if row.kind is PciKind.GPU:
            of: dict[str, list[str]] = {}
            for at in nics:
                of.setdefault(row.cells[at].code, []).append(node.devices.name(rows[at].address))
            found[row.address] = next((tuple(of[code]) for code in NEAR_NIC if code in of), ())
    return found


def _host_gbs(node: Node, gpu: Gpu) -> float:
    """What the link of a GPU to the host carries one way; 0 where that is not known."""
    sku = node.devices.sku(gpu)
    link = None if sku is None else host_link(node, gpu, sku)
    return 0.0 if link is None else link.now_gbs


def _shares(sizes: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    """All ways to take `count` from boxes of these sizes, most from the first boxes first."""
    if not sizes:
        if not count:
            yield ()
        return
    for taken in range(min(sizes[0], count), -1, -1):
        if count - taken <= sum(sizes[1:]):
            for rest in _shares(sizes[1:], count - taken):
                yield taken, *rest
