"""Everything that a search reads of a system, prepared once: routes, orders and NICs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from ..nodes import (
    GPU,
    NET,
    NVLINK,
    NVS,
    PathType,
    System,
    SystemKind,
    SystemLink,
    SystemNode,
    SystemPath,
)
from ..settings import Settings
from ..versions import Version
from .draft import RING
from .ledger import Lanes, Ledger, Route
from .nics import Nics
from .orders import FREE, Orders
from .version import SearchVersion, search_version

Hop = list[int]
"""[GPU, its bit, what the way takes of the ledger or UNKNOWN, links crossed]."""
UNKNOWN = -1
"""In place of what a hop takes: `Ways.need` says it."""
LONG = 1 << 8 * 1024
"""Longer numbers are made whenever they are needed: kept for each hop they would take gigabytes."""
Way = tuple[int, int]
"""(what the way takes of the ledger, links crossed)."""
Share = tuple[int, int]
"""(number of a link, MB/s that are taken of it)."""
LaneWay = tuple[tuple[Share, ...], int]
"""(what the way takes, links crossed)."""
Key = tuple[int, int]
"""(what the order depends on of the ledger, GPUs used << 10 | GPU)."""
Carrier = tuple[int, bool]
"""(MB/s of a link, whether every use of it is a dear one)."""
Carriers = list[Counter[Carrier]]
"""By GPU: the links a channel may use there."""
MANY = 16
"""GPUs; with fewer, every order is computed once and kept."""

# Where a channel among many GPUs may go next, as far as that does not depend on its speed.
Ranked = tuple[tuple[int, ...], tuple[int, ...]]
"""(the GPUs to try after one, in order; the links, by number, that all ways to them share)."""


class Gates(NamedTuple):
    """Links that more than half of the ways to a GPU cross; sets of GPUs are bits.

    Where such a link is full, few GPUs can still reach those behind it.
    """

    behind: dict[int, int]
    """By number of a link: the GPUs that it is a gate of."""
    past: list[int]
    """By GPU: those it has a way to that does not cross all of their gates."""


class Choices:
    """The ways between GPUs that are no farther than a type, or `mutual`: nor the ways back."""

    def __init__(
        self, gpus: list[SystemNode], orders: Orders, lanes: Lanes, near: int, mutual: bool
    ) -> None:
        self._gpus, self._orders, self._lanes = gpus, orders, lanes
        self._near, self._mutual = near, mutual
        self._ranked: dict[int, Ranked] = {}

    def after(self, gpu: int) -> Ranked:
        """The GPUs to try after one, where their order depends on nothing else."""
        known = self._ranked.get(gpu)
        if known is None:
            order = self._orders.after(gpu, 0, FREE, -1, RING, 0)
            others = tuple(other for other in order if self._allowed(gpu, other))
            ways = self._gpus[gpu].paths[GPU]
            links = [ways[other].links for other in others]
            common = set(links[0]).intersection(*links[1:]) if links else set()
            known = self._ranked[gpu] = others, self._lanes.numbers(common)
        return known

    @cached_property
    def gates(self) -> Gates:
        """The gates of all GPUs."""
        behind: dict[int, int] = {}
        past = [0] * len(self._gpus)
        for gpu in range(len(self._gpus)):
            ways = self._ways_to(gpu)
            # A direct link is the way of one GPU alone.
            several = (links for links in ways.values() if len(links) > 1)
            crossed = Counter(link for links in several for link in links)
            gates = {link for link, count in crossed.items() if 2 * count > len(ways)}
            for link in self._lanes.numbers(gates):
                behind[link] = behind.get(link, 0) | 1 << gpu
            for other, links in ways.items():
                if not gates.issubset(links):
                    past[other] |= 1 << gpu
        return Gates(behind, past)

    def _ways_to(self, gpu: int) -> dict[int, tuple[SystemLink, ...]]:
        return {
            other: node.paths[GPU][gpu].links
            for other, node in enumerate(self._gpus)
            if other != gpu and self._allowed(other, gpu)
        }

    def _allowed(self, gpu: int, other: int) -> bool:
        gpus = self._gpus
        if gpus[gpu].paths[GPU][other].type > self._near:
            return False
        return not (self._mutual and gpus[other].paths[GPU][gpu].type > self._near)


class SharedLink(NamedTuple):
    """A link that several GPUs cannot do without."""

    gpus: frozenset[int]
    link: Carrier


class SearchSpace:
    """A system for one search; `inter` says whether channels start and end at NICs."""

    def __init__(self, system: System, version: Version, settings: Settings, *, nvls: bool) -> None:
        self.system, self.settings = system, settings
        self.version: SearchVersion = search_version(version)
        self.rccl = version.is_rccl
        known = {*version.path_types, PathType.NVB.name}
        self.path_types = tuple(kind for kind in PathType if kind.name in known)
        """The types that this version counts through, nearest first: each one more takes steps of
        the whole search's budget. RCCL counts NVB too, though it makes no such path."""
        has_nets = bool(system.nodes[NET])
        self.inter = system.inter and (has_nets or self.version.inter_without_nets)
        self.bounded_by_nets = has_nets if self.rccl else self.inter
        """NIC paths limit the GPU paths that are tried."""
        self.gpus, self.nets = system.nodes[GPU], system.nodes[NET]
        self.count = len(self.gpus)
        self.switched = bool(system.nodes[NVS])
        self.min_sm = system.min_sm
        self.by_rank = self.count > MANY and not self.inter and not self.switched
        """The order of GPUs depends on nothing but the GPU before, and is not kept by what is left
        of them: of many GPUs too much can be left."""
        self.ledger = Ledger(system, kinds_apart=version.kinds_apart)
        self.orders = Orders(system, self.ledger, self.version.neighbours)
        self.nics = Nics(system, version, settings)
        self.carriers: dict[int, tuple[Carriers, Carriers, int]] = {}
        """By farthest path type: links out of GPUs, links into them, fewest hops of a path. Kept
        here for all graphs of the system; bounds.py works them out."""
        self.leaving: dict[tuple[int, int], Counter[Carrier]] = {}
        """By farthest path types to GPUs and to NICs: GPUs by all that leads out of them."""
        self.narrows: dict[int, tuple[list[SharedLink], list[SharedLink]]] = {}
        self.joined: dict[tuple[int, int], bool] = {}
        """By farthest path type and speed: whether the ways between GPUs join all of them. Kept as
        the carriers are."""
        self._routes: dict[int, Route] = {}
        self._ways: dict[tuple[int, int, int, bool], Ways] = {}
        self._choices: dict[tuple[int, bool], Choices] = {}

    def route(self, path: SystemPath, kind: SystemKind, start: int) -> Route:
        """A path as numbers, computed once."""
        known = self._routes.get(id(path))
        if known is None:
            node = self.system.nodes[kind][start]
            known = self._routes[id(path)] = self.ledger.route(path, node)
        return known

    def carries(self, path: SystemPath, speed: int) -> bool:
        """Whether the links of a path have room for a channel while all of them are free."""
        for link in path.links:  # noqa: SIM110 - asked of each pair, and `all` takes twice as long
            if round(link.bandwidth_gbs * 1000) < speed:
                return False
        return True

    def ways(self, pattern: int, farthest: int, speed: int, *, mutual: bool) -> Ways:
        """The ways that one attempt may take; kept because attempts share them."""
        if self.by_rank:
            # Among many GPUs rings and trees try the same GPUs in the same order.
            pattern, mutual = RING, mutual and not self.same_back
        key = (pattern, farthest, speed, mutual)
        known = self._ways.get(key)
        if known is None:
            known = self._ways[key] = Ways(self, *key)
        return known

    def choices(self, farthest: int, *, mutual: bool) -> Choices:
        """Where channels may go among many GPUs; ways of several speeds share it."""
        key = max((kind for kind in self.gpu_types if kind <= farthest), default=-1), mutual
        known = self._choices.get(key)
        if known is None:
            known = self._choices[key] = Choices(self.gpus, self.orders, self.lanes, *key)
        return known

    @cached_property
    def lanes(self) -> Lanes:
        """The links by number, for many GPUs."""
        return Lanes(self.system, self.ledger)

    @cached_property
    def same_back(self) -> bool:
        """Whether GPUs are as far apart one way as the other."""
        types = [[path.type for path in gpu.paths[GPU]] for gpu in self.gpus]
        return types == [list(back) for back in zip(*types, strict=True)]

    @cached_property
    def direct(self) -> list[list[bool]]:
        """Whether the way from a GPU to another is one link of NVLink or xGMI, by both."""
        return [
            [len(path.links) == 1 and path.links[0].kind is NVLINK for path in gpu.paths[GPU]]
            for gpu in self.gpus
        ]

    @cached_property
    def gpu_types(self) -> list[int]:
        """The path types between different GPUs that exist, nearest first."""
        return sorted(
            {
                int(path.type)
                for gpu in self.gpus
                for other, path in enumerate(gpu.paths[GPU])
                if other != gpu.index
            }
        )

    @cached_property
    def net_types(self) -> list[int]:
        """The path types from GPUs to NICs that exist, nearest first."""
        return sorted({int(path.type) for gpu in self.gpus for path in gpu.paths.get(NET, ())})

    @cached_property
    def back_types(self) -> list[int]:
        """The path types from NICs to GPUs that exist."""
        return sorted({int(path.type) for net in self.nets for path in net.paths[GPU]})


class Ways:
    """Ways under one pattern, farthest path type and speed in MB/s (ncclTopoFollowPath)."""

    def __init__(
        self, space: SearchSpace, pattern: int, farthest: int, speed: int, mutual: bool
    ) -> None:
        self._space, self._pattern = space, pattern
        self._farthest, self._speed, self._mutual = farthest, speed, mutual
        self._hops: dict[int, Hop | None] = {}
        self._next: dict[tuple[int, int], dict[Key, tuple[Hop, ...]]] = {}
        self._lanes: dict[int, LaneWay | None] = {}
        self._leave: dict[tuple[int, int], Way | None] = {}
        self._enter: dict[tuple[int, int], Way | None] = {}
        self._heads: dict[int, Way | None] = {}

    def hop(self, gpu: int, other: int) -> Hop | None:
        """The hop from a GPU to another; None when the type forbids it."""
        key = gpu * self._space.count + other
        if key not in self._hops:
            there = self._space.gpus[gpu].paths[GPU][other]
            back = self._space.gpus[other].paths[GPU][gpu]
            allowed = self._allowed(there, back)
            self._hops[key] = [other, 1 << other, UNKNOWN, there.hops] if allowed else None
        return self._hops[key]

    def need(self, gpu: int, hop: Hop) -> int:
        """The number that a hop adds to the ledger, noted in the hop if it is not long."""
        need = hop[2]
        if need == UNKNOWN:
            path = self._space.gpus[gpu].paths[GPU][hop[0]]
            need = self._space.route(path, GPU, gpu).need(self._speed)
            if need < LONG:
                hop[2] = need
        return need

    def lanes(self, gpu: int, other: int) -> LaneWay | None:
        """The way from a GPU to another among many; None when the type forbids it."""
        key = gpu * self._space.count + other
        way = self._lanes.get(key)
        if way is None and key not in self._lanes:
            node = self._space.gpus[gpu]
            there, back = node.paths[GPU][other], self._space.gpus[other].paths[GPU][gpu]
            if self._allowed(there, back):
                way = self._space.lanes.need(there, node, self._speed), there.hops
            self._lanes[key] = way
        return way

    def next_of(self, towards: int, net: int) -> dict[Key, tuple[Hop, ...]]:
        """Hops already computed; `fill` adds the missing ones."""
        return self._next.setdefault((towards, net if towards != FREE else -1), {})

    def fill(
        self,
        known: dict[Key, tuple[Hop, ...]],
        key: Key,
        gpu: int,
        used: int,
        towards: int,
        net: int,
        state: int,
    ) -> tuple[Hop, ...]:
        """The hops to try after a GPU, in order, kept in `known` under `key`."""
        order = self._space.orders.after(gpu, used, towards, net, self._pattern, state)
        found = tuple(hop for other in order if (hop := self.hop(gpu, other)) is not None)
        known[key] = found
        return found

    @cached_property
    def choices(self) -> Choices:
        """The choices among many GPUs, whatever the speed."""
        return self._space.choices(self._farthest, mutual=self._mutual)

    def untried(self, gpu: int, free: list[int]) -> Iterator[int]:
        """The GPUs to try after one among many, in order; `free`: what is left of each link.

        There are none where all ways lead over one link, such as that of the GPU, with too little
        left.
        """
        others, shared = self.choices.after(gpu)
        for link in shared:
            if free[link] < self._speed:
                return iter(())
        return iter(others)

    def leave(self, gpu: int, net: int) -> Way | None:
        """The way from a GPU to a NIC."""
        key = (gpu, net)
        if key not in self._leave:
            there = self._space.gpus[gpu].paths[NET][net]
            back = self._space.nets[net].paths[GPU][gpu]
            self._leave[key] = self._way(there, back, GPU, gpu)
        return self._leave[key]

    def enter(self, net: int, gpu: int) -> Way | None:
        """The way from a NIC to a GPU."""
        key = (net, gpu)
        if key not in self._enter:
            there = self._space.nets[net].paths[GPU][gpu]
            back = self._space.gpus[gpu].paths[NET][net]
            self._enter[key] = self._way(there, back, NET, net)
        return self._enter[key]

    def head(self, gpu: int) -> Way | None:
        """All GPUs to and from the NVSwitch, with one GPU as head (ncclTopoSearchTryNvls)."""
        if gpu not in self._heads:
            self._heads[gpu] = self._head(gpu)
        return self._heads[gpu]

    def _head(self, head: int) -> Way | None:
        switch = self._space.system.nodes[NVS][0]
        need = hops = 0
        for gpu in self._space.gpus:
            share = 2 if gpu.index == head else 1
            down, up = switch.paths[GPU][gpu.index], gpu.paths[NVS][0]
            ways: tuple[tuple[SystemPath, SystemKind, int], ...]
            ways = (down, NVS, 0), (up, GPU, gpu.index)
            for path, kind, start in ways:
                # A head moves twice as much, and then the library does not look at the type.
                if path.type >= PathType.DIS or (share == 1 and path.type > self._farthest):
                    return None
                need += self._space.route(path, kind, start).need(self._speed * share)
                hops += path.hops * share
        return need, hops

    def _allowed(self, there: SystemPath, back: SystemPath) -> bool:
        if there.type >= PathType.DIS or there.type > self._farthest:
            return False
        return not (self._mutual and back.type > self._farthest)

    def _way(self, there: SystemPath, back: SystemPath, kind: SystemKind, start: int) -> Way | None:
        if not self._allowed(there, back):
            return None
        return self._space.route(there, kind, start).need(self._speed), there.hops
