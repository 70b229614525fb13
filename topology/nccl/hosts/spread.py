"""Which channels run on what was searched, and what an all-reduce on them reaches."""

from ..prediction import AlgorithmChoice


class Spread:
    """Which channels run on which searched one (graph/connect.cc:ncclTopoPostset).

    All searched ones are there twice, the second time with the second tree. What is more than
    these, or than `kept` of them, are copies from the first on.
    """

    def __init__(self, searched: int, total: int, kept: int) -> None:
        self.searched = searched
        twice = max(1, 2 * searched)
        self._sources = [channel % max(1, kept) % twice for channel in range(total)]

    def of_rings(self) -> list[tuple[int, ...]]:
        """The channels on each ring."""
        count = self.searched
        return [
            tuple(at for at, source in enumerate(self._sources) if source % count == channel)
            for channel in range(count)
        ]

    def of_trees(self, which: int) -> list[tuple[int, ...]]:
        """The channels on each tree, the first or the second one."""
        wanted = [channel + which * self.searched for channel in range(self.searched)]
        return [
            tuple(at for at, source in enumerate(self._sources) if source == channel)
            for channel in wanted
        ]


def bus_gbs(choice: AlgorithmChoice, ranks: int) -> float:
    """Bus bandwidth of an all-reduce, as nccl-tests count it."""
    return round(choice.bytes / (choice.time_us * 1000) * 2 * (ranks - 1) / ranks, 1)
