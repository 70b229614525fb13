"""Which GPU to try next after a GPU (search.cc:ncclTopoSearchNextGpuSort)."""

from __future__ import annotations

from ..system import Link, Node, System
from .draft import BALANCED_TREE, RING
from .ledger import Ledger

FREE, TOWARDS_NIC, AWAY = 0, 1, -1
"""Is the way back to the NIC no matter, the next step, or a later one?"""


class Orders:
    """The order of preference out of each GPU, by index."""

    def __init__(self, system: System, ledger: Ledger, *, neighbours_only: bool) -> None:
        self._gpus = system.nodes["GPU"]
        self._nets = system.nodes["NET"]
        self._switched = bool(system.nodes["NVS"])
        self._neighbours_only = neighbours_only
        self._ledger = ledger
        self._pci = [_pci_links(gpu) for gpu in self._gpus]
        self._ranked: dict[int, list[int]] = {}
        self.pci_mask = ledger.mask(link for links in self._pci for link in links)
        """The part of a state that the order depends on where NICs matter."""

    def after(
        self, gpu: int, used: int, towards: int, net: int, pattern: int, state: int
    ) -> list[int]:
        """The GPUs to try after `gpu`, without those whose bit is set in `used`.

        `net`: the NIC that the channel started from; it and the state of the ledger count
        unless `towards` is FREE.
        """
        if towards == FREE:
            found = [other for other in self._inside(gpu) if not used >> other & 1]
        else:
            found = self._with_nic(gpu, used, net, state)
        if towards == AWAY and self._alike(gpu, found):
            found.reverse()
        return self._neighbours_first(gpu, found, pattern) if self._switched else found

    def _inside(self, gpu: int) -> list[int]:
        """All other GPUs: widest, then nearest, then next by index."""
        ranked = self._ranked.get(gpu)
        if ranked is None:
            ranked = sorted(self._others(gpu), key=lambda other: self._score(gpu, other))
            self._ranked[gpu] = ranked
        return ranked

    def _with_nic(self, gpu: int, used: int, net: int, state: int) -> list[int]:
        """The GPUs that the NIC reaches best come first, by what their PCI links have left."""
        back = self._nets[net].paths["GPU"]

        def score(other: int) -> tuple[int, ...]:
            pci = min(
                (self._ledger.whole_gbs(state, link) for link in self._pci[other]), default=-1
            )
            outside = (-int(back[other].bandwidth_gbs), -pci, back[other].hops)
            return (*outside, *self._score(gpu, other))

        return sorted((one for one in self._others(gpu) if not used >> one & 1), key=score)

    def _others(self, gpu: int) -> list[int]:
        paths = self._gpus[gpu].paths["GPU"]
        return [other for other, path in enumerate(paths) if other != gpu and path.links]

    def _score(self, gpu: int, other: int) -> tuple[int, int, int]:
        path = self._gpus[gpu].paths["GPU"][other]
        return -int(path.bandwidth_gbs), path.hops, (other - gpu) % len(self._gpus)

    def _alike(self, gpu: int, others: list[int]) -> bool:
        paths = self._gpus[gpu].paths["GPU"]
        return len({(int(paths[other].bandwidth_gbs), paths[other].hops) for other in others}) < 2

    def _neighbours_first(self, gpu: int, found: list[int], pattern: int) -> list[int]:
        """NVSwitches work better when each GPU talks to few peers: those beside it by index."""
        before, behind = (gpu - 1) % len(self._gpus), (gpu + 1) % len(self._gpus)
        if pattern == RING:
            wanted = [behind, before]
        elif pattern == BALANCED_TREE:
            wanted = [before, behind]
        else:
            wanted = [behind]
        if self._neighbours_only and before == behind:
            wanted = wanted[:1]
        real = 0
        for one in wanted:
            if one in found:
                found.remove(one)
                found.insert(0, one)
                real += 1
        return found[:real] if self._neighbours_only else found


def _pci_links(gpu: Node) -> tuple[Link, ...]:
    """Both directions of the GPU's PCI link."""
    for link in gpu.links:
        if link.kind != "PCI":
            continue
        for back in link.to.links:
            if back.to is gpu:
                return link, back
    return ()
