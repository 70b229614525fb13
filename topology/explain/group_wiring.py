"""GPUs of a node by number: how each two are joined, and which groups of them are of one kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import permutations
from math import comb, prod
from typing import NamedTuple

from ..expectation.devices import peak_of
from ..expectation.links import host_link, link_of_pair
from ..model.gathered import gathered
from ..model.machine import Gpu, PciDevice, PciKind
from ..node import Node
from ..wiring.graph import gpu_numa

MOST_GROUPS = 13_000
"""C(16, 8) is 12,870. With more groups than this a part of them is looked at."""
REFINED = 2
"""Rounds in which GPUs are told apart by what their neighbours are."""
MOST_ORDERED = 8
"""All orders of so many ranks are compared; longer ones are made rank by rank."""
NEAR_NIC = ("PIX", "PXB")
_NEARNESS = {"PIX": 9, "PXB": 8, "PHB": 7, "NODE": 6, "SYS": 5}
SWITCHED = "NVSwitch"
OWN_LINKS = ("NV1", "NV2", "NV3", "NV4", "NV5", "NV6", "NV7", "NV8", "NV9", "XGMI")
"""Letters of pairs with links of their own, each of which is looked at."""
_FAST_LINK = 100
"""Nearness of any pair that NVLink or xGMI joins; NVLinks are added to it."""


class GpuTraits(NamedTuple):
    """What a group takes over from one GPU."""

    model: str
    peak: float
    """TFLOP/s of BF16 or FP16, dense, by the data sheet; 0 where any GPU's is not known."""
    numa: int | None
    near_nic: bool
    host_gbs: float
    ailing: bool
    busy: bool
    unsure: bool


class GroupWiring:
    """GPUs of one vendor, by number, with how each pair is joined."""

    def __init__(
        self,
        node: Node,
        gpus: Sequence[Gpu],
        flaws: tuple[Collection[str], Collection[str], Collection[str]],
    ) -> None:
        self.gpus = list(gpus)
        self.size = len(gpus)
        near = _near_nics(node)
        self._nics = [near.get(gpu.address, ()) for gpu in self.gpus]
        peaks = [_peak(node, gpu) for gpu in self.gpus]
        self.traits = [
            GpuTraits(
                gpu.name or "",
                peak if all(peaks) else 0.0,
                gpu_numa(gpu),
                bool(nics),
                _host_gbs(node, gpu),
                *(gpu.address in several for several in flaws),
            )
            for gpu, nics, peak in zip(self.gpus, self._nics, peaks, strict=True)
        ]
        self._pairs = pairs_of_gpus(node, self.gpus)
        levels = {pair: at for at, pair in enumerate(sorted(set(self._pairs.values())))}
        numbers = range(len(self.gpus))
        self._level = [[0] * len(numbers) for _ in numbers]
        """How well each pair is joined, from 0."""
        self._bond = [[0] * len(numbers) for _ in numbers]
        """The same, with whether they share a NUMA node and a NIC."""
        for (i, j), pair in self._pairs.items():
            self._level[i][j] = self._level[j][i] = levels[pair]
            numa = self.traits[i].numa == self.traits[j].numa
            nic = bool(self._nics[i]) and self._nics[i] == self._nics[j]
            self._bond[i][j] = self._bond[j][i] = 4 * levels[pair] + 2 * numa + nic
        self._twins = self._alike()

    def _alike(self) -> list[list[int]]:
        """Numbers of GPUs that could be swapped for each other."""
        found: list[list[int]] = []
        for number in range(len(self.gpus)):
            for several in found:
                if self._swaps(several[0], number):
                    several.append(number)
                    break
            else:
                found.append([number])
        return found

    def _swaps(self, one: int, other: int) -> bool:
        if self.traits[one] != self.traits[other]:
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
        """One group around each kind of start: always the GPU that fits best is added."""
        for first in self._starts():
            yield sorted(self.around(first, count)), 1

    def _starts(self) -> list[int]:
        """One GPU of each kind: of equal traits, with equal bonds to equal others."""
        kinds: list[object] = [traits[3:] for traits in self.traits]
        for _ in range(REFINED):
            rows = [
                (kinds[i], sorted(Counter(zip(row, kinds, strict=True)).items(), key=repr))
                for i, row in enumerate(self._bond)
            ]
            numbers = {repr(row): at for at, row in enumerate(rows)}
            kinds = [numbers[repr(row)] for row in rows]
        return list({kind: at for at, kind in reversed(list(enumerate(kinds)))}.values())[::-1]

    def around(self, first: int, count: int) -> list[int]:
        """A group that grows from one GPU; how each of the rest fits is kept, not worked out."""
        members = [first]
        fits = {at: (bond, bond) for at, bond in enumerate(self._bond[first]) if at != first}
        while len(members) < count:
            new = max(fits, key=lambda at: (*fits[at], -at))
            members.append(new)
            del fits[new]
            bonds = self._bond[new]
            for at, (least, all_of_them) in fits.items():
                fits[at] = min(least, bonds[at]), all_of_them + bonds[at]
        return members

    def kind(self, members: Sequence[int]) -> object:
        """What groups have in common that nothing tells apart."""
        rows = sorted(
            (self.traits[i][3:], sorted(self._bond[i][j] for j in members if j != i))
            for i in members
        )
        models = Counter(self.traits[i].model for i in members)
        return repr((rows, sorted(models.items()), len(self.nics_of(members))))

    def worth(self, members: Sequence[int]) -> tuple[float, ...]:
        """The order in which kinds are predicted: a ring needs two good ways at each GPU."""
        traits = [self.traits[i] for i in members]
        ways = 2 if len(members) > 2 else 1
        rows = [
            sorted((self._level[i][j] for j in members if j != i), reverse=True) for i in members
        ]
        least = min((row[ways - 1] for row in rows if row), default=0)
        return (
            -len({one.model for one in traits}),
            min(one.peak for one in traits),
            least,
            sum(map(sum, rows)),
            -len({one.numa for one in traits}),
            len(self.nics_of(members)),
            min(one.host_gbs for one in traits),
            -sum(one.ailing for one in traits),
            -sum(one.busy for one in traits),
            -sum(one.unsure for one in traits),
        )

    def nics_of(self, members: Sequence[int]) -> tuple[str, ...]:
        """The NICs near them."""
        return tuple(dict.fromkeys(nic for i in members for nic in self._nics[i]))

    def narrowest(self, members: Sequence[int]) -> tuple[float | None, tuple[str, str] | None]:
        """GB/s one way of the worst pair, and this pair; of one GPU its link to the host."""
        if len(members) == 1:
            return self.traits[members[0]].host_gbs or None, None
        ends = [(i, j) for i in members for j in members if i < j]
        i, j = min(ends, key=self._pairs.__getitem__)
        return self._pairs[i, j].gbs or None, (self.gpus[i].address, self.gpus[j].address)

    def order(self, members: Sequence[int]) -> Sequence[int]:
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


class PairWorth(NamedTuple):
    """How two GPUs are joined; the better one is the greater one."""

    worth: float
    """GB/s one way; 0 over other GPUs, since a ring does not go there."""
    nearness: int
    gbs: float
    letters: str


def pairs_of_gpus(node: Node, gpus: Sequence[Gpu]) -> dict[tuple[int, int], PairWorth]:
    """How each two are joined. Pairs that no fact tells apart are looked at once."""
    ends = [WayEnd.of(node, gpu) for gpu in gpus]
    known: dict[object, PairWorth] = {}
    found = {}
    for i, one in enumerate(gpus):
        for j in range(i + 1, len(gpus)):
            letters = node.pairs.kind(one.address, gpus[j].address)
            key = (i, j) if letters.startswith(OWN_LINKS) else ends[i].with_other(ends[j], letters)
            pair = known.get(key)
            if pair is None:
                pair = known[key] = pair_of_gpus(node, one, gpus[j], letters)
            found[i, j] = pair
    return found


class WayEnd(NamedTuple):
    """What a way between two GPUs takes over from one of them."""

    model: str
    switches: tuple[tuple[str | None, int], ...]
    """NVSwitches and the links to each."""
    above: tuple[str, ...]
    """PCI addresses from the root down to the GPU."""
    links: tuple[object, ...]
    """Rates and lanes of these."""
    numa: int | None

    @classmethod
    def of(cls, node: Node, gpu: Gpu) -> WayEnd:
        """That of a GPU."""
        up: list[PciDevice] = []
        at = node.devices.pci(gpu.address)
        while at is not None and at not in up:
            up.append(at)
            at = None if at.parent is None else node.devices.pci(at.parent)
        switches = Counter(link.remote_address for link in gpu.nvlinks_up)
        return cls(
            gpu.name or "",
            tuple(sorted(switches.items(), key=repr)),
            tuple(device.address for device in reversed(up)),
            (
                *((one.link_speed_max_gts, one.link_width_max, one.link_width_now) for one in up),
                gpu.pcie_gen_max,
                gpu.pcie_width_max,
                gpu.c2c_enabled,
            ),
            gpu_numa(gpu),
        )

    def with_other(self, other: WayEnd, letters: str) -> object:
        """What a pair has that others have too: the places where both meet count, not names."""
        if letters == SWITCHED:
            return letters, self.model, self.switches, other.model, other.switches
        shared = len(set(self.above) & set(other.above))
        both = (self.model, self.links, self.numa), (other.model, other.links, other.numa)
        return letters, shared, *both


def pair_of_gpus(node: Node, one: Gpu, other: Gpu, letters: str) -> PairWorth:
    """How two GPUs of these letters are joined."""
    nearness, sku = _nearness(letters), node.devices.sku(one)
    if letters == SWITCHED and sku is not None:
        link = link_of_pair(node, one, other, sku)  # without the graph, which 8,000 pairs feel
        if link is not None:
            return PairWorth(link.now_gbs, nearness, link.now_gbs, letters)
    path = node.pairs.path(one.address, other.address)
    rate = 0.0 if path is None or path.payload_gbs is None else path.payload_gbs
    worth = 0.0 if path is not None and path.relayed else rate
    return PairWorth(worth, nearness, rate, letters)


def _peak(node: Node, gpu: Gpu) -> float:
    sku = node.devices.sku(gpu)
    found = None if sku is None else peak_of(sku, "bf16") or peak_of(sku, "fp16")
    return found or 0.0


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
            of = gathered((row.cells[at].code, node.devices.name(rows[at].address)) for at in nics)
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
