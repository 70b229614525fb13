"""Which channels run on what was searched, and what an all-reduce on them reaches."""

from ...model.gathered import gathered
from ..prediction import AlgorithmChoice

Runs = dict[tuple[int, int], tuple[int, ...]]
"""(searched channel whose GPUs, searched channel whose NICs) -> the channels that use these."""


class Spread:
    """Which channels run on which searched one (graph/connect.cc:ncclTopoPostset).

    All searched ones are there twice, the second time with the second tree. What is more than
    these, or than `kept` of them, are copies from the first on. A copy takes the NICs by its own
    number (graph/search.cc:ncclTopoGetNetDev).
    """

    def __init__(self, searched: int, total: int, kept: int) -> None:
        self.searched = searched
        twice = max(1, 2 * searched)
        self._sources = [channel % max(1, kept) % twice for channel in range(total)]

    def of_rings(self) -> Runs:
        """The channels on each ring."""
        return self._runs(range(2 * self.searched))

    def of_trees(self, which: int) -> Runs:
        """The channels on each tree, the first or the second one."""
        first = which * self.searched
        return self._runs(range(first, first + self.searched))

    def _runs(self, sources: range) -> Runs:
        found = gathered(
            ((source % self.searched, at % self.searched), at)
            for at, source in enumerate(self._sources)
            if source in sources
        )
        return {key: tuple(channels) for key, channels in found.items()}


def bus_gbs(choice: AlgorithmChoice, ranks: int) -> float:
    """Bus bandwidth of an all-reduce, as nccl-tests count it."""
    return round(choice.bytes / (choice.expected_us * 1000) * 2 * (ranks - 1) / ranks, 1)
