"""Which GPU to try next after a GPU (search.cc:ncclTopoSearchNextGpuSort)."""

from typing import Literal

from ..nodes import GPU, NET, NVS, PCIE, System, SystemLink, SystemNode
from .draft import BALANCED_TREE, RING
from .ledger import Ledger

FREE, TOWARDS_NIC, AWAY = 0, 1, -1
"""Whether the way back to the NIC is irrelevant, the next step, or a later one."""

WIDEST = 1 << 14
"""More than any bandwidth in GB/s."""
PCI_BITS = 48
"""Where the PCI link stands in a rank: below what the NIC reaches, above how far it is."""


class Orders:
    """The order of preference out of each GPU, by index."""

    def __init__(
        self, system: System, ledger: Ledger, neighbours: Literal["any", "first", "only"]
    ) -> None:
        """`neighbours`: what beside an NVSwitch comes first, as search.toml has it."""
        self._gpus = system.nodes[GPU]
        self._nets = system.nodes[NET]
        self._prefers = bool(system.nodes[NVS]) and neighbours != "any"
        self._only_neighbours = self._prefers and neighbours == "only"
        self._ledger = ledger
        self.pci = [_pci_links(gpu) for gpu in self._gpus]
        """Both directions of each GPU's PCI link."""
        self._ranked: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._shapes: dict[int, list[tuple[int, int]]] = {}
        self._left: dict[int, list[int]] = {}
        watched = () if self._only_neighbours else (link for pair in self.pci for link in pair)
        self.pci_mask = ledger.mask(watched)
        """The part of a state that the order depends on where NICs matter."""

    def after(
        self, gpu: int, used: int, towards: int, net: int, pattern: int, state: int
    ) -> list[int]:
        """The GPUs to try after `gpu`, without those whose bit is set in `used`.

        `net`: the NIC that the channel started from; it and the state of the ledger count
        unless `towards` is FREE.
        """
        if self._only_neighbours:
            paths = self._gpus[gpu].paths[GPU]
            wanted = reversed(self._neighbours(gpu, pattern))
            return [other for other in wanted if not used >> other & 1 and paths[other].links]
        ranks = self._ranks(gpu, net if towards != FREE else -1)
        found = [(rank, other) for rank, other in ranks if not used >> other & 1]
        if towards != FREE:
            pci = self.pci_gbs(state)
            found = sorted((rank - (pci[other] << PCI_BITS), other) for rank, other in found)
        order = [other for _, other in found]
        if towards == AWAY and self._alike(gpu, order):
            order.reverse()
        if self._prefers:
            for neighbour in self._neighbours(gpu, pattern):
                if neighbour in order:
                    order.remove(neighbour)
                    order.insert(0, neighbour)
        return order

    def _ranks(self, gpu: int, net: int) -> list[tuple[int, int]]:
        """The other GPUs with their rank, lowest first: all that counts, in one number.

        Most weighs what the NIC reaches best; within the node wide paths, then short ones,
        then the next by index.
        """
        ranks = self._ranked.get((gpu, net))
        if ranks is None:
            count = len(self._gpus)
            ranks = [
                ((WIDEST - int(path.bandwidth_gbs) << 12 | len(path.links)) << 10
                 | (other - gpu) % count, other)
                for other, path in enumerate(self._gpus[gpu].paths[GPU])
                if other != gpu and path.links
            ]  # fmt: skip
            if net >= 0:
                ranks = [(rank + self._back(net, other), other) for rank, other in ranks]
            ranks.sort()
            self._ranked[gpu, net] = ranks
        return ranks

    def _back(self, net: int, other: int) -> int:
        """The part of a GPU's rank that the way from a NIC adds."""
        back = self._nets[net].paths[GPU][other]
        return (WIDEST - int(back.bandwidth_gbs) << PCI_BITS + 16) + (back.hops << PCI_BITS - 12)

    def pci_gbs(self, state: int) -> list[int]:
        """The rest of each GPU's PCI link, in whole GB/s; -1 without one."""
        key = state & self.pci_mask
        found = self._left.get(key)
        if found is None:
            found = self._left[key] = [
                min((self._ledger.whole_gbs(state, link) for link in links), default=-1)
                for links in self.pci
            ]
        return found

    def _alike(self, gpu: int, others: list[int]) -> bool:
        shapes = self._shapes.get(gpu)
        if shapes is None:
            shapes = self._shapes[gpu] = [
                (int(path.bandwidth_gbs), path.hops) for path in self._gpus[gpu].paths[GPU]
            ]
        return len({shapes[other] for other in others}) < 2

    def _neighbours(self, gpu: int, pattern: int) -> list[int]:
        """NVSwitches work better when a GPU talks to few peers: those beside it, last first."""
        before, behind = (gpu - 1) % len(self._gpus), (gpu + 1) % len(self._gpus)
        if before == behind or pattern not in (RING, BALANCED_TREE):
            return [behind]
        return [behind, before] if pattern == RING else [before, behind]


def _pci_links(gpu: SystemNode) -> tuple[SystemLink, ...]:
    """Both directions of the GPU's PCI link."""
    for link in gpu.links:
        if link.kind is not PCIE:
            continue
        for back in link.to.links:
            if back.to is gpu:
                return link, back
    return ()
