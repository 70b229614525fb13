"""The ranks of a run through NCCL or RCCL alone."""

from collections.abc import Sequence
from typing import Any, Optional

from ..engine.nccl import Call, Nccl, NcclCommunicator
from .accelerator import NodesTopics, Topics
from .driver_accelerator import Numbers


class LibraryGroup:
    """One rank's view of the group, whose device is current in this thread."""

    def __init__(
        self, nccl: Nccl, stream: Any, store: Topics, rank: int, ranks: int, name: str = ""
    ) -> None:
        """`stream`: of the device of this rank; all calls are queued on it.

        `name`: tells the groups apart whose ranks meet in one store.
        """
        self._nccl = nccl
        self._stream = stream
        self._store = store
        self._rank = rank
        self._ranks = ranks
        self._topic = f"unique id{name and ' of '}{name}"

    def across(self, topics: NodesTopics, rank: int, ranks: int) -> "LibraryGroup":
        """See RankGroup."""
        return LibraryGroup(self._nccl, self._stream, topics, rank, ranks)

    def part(self, name: str, members: Sequence[int]) -> "Optional[LibraryGroup]":
        """See RankGroup; a communicator of its own, for which this one need not be opened."""
        if self._rank not in members:
            return None
        rank, ranks = members.index(self._rank), len(members)
        return LibraryGroup(self._nccl, self._stream, self._store, rank, ranks, name)

    def open(self, *, eager: bool) -> None:
        """See RankGroup; the library has no other way than at once."""
        if self._rank == 0:
            self._store.set(self._topic, self._nccl.unique_id().hex())
        unique_id = bytes.fromhex(self._store.get(self._topic))
        made = self._nccl.communicator(unique_id, self._rank, self._ranks)
        self._communicator: NcclCommunicator = made

    def all_reduce(self, data: Numbers) -> Call:
        """See RankGroup."""
        return self._communicator.all_reduce(_part(data), self._stream)

    def all_gather(self, given: Numbers, result: Numbers) -> Call:
        """See RankGroup."""
        return self._communicator.all_gather(_part(given), result.address, self._stream)

    def reduce_scatter(self, given: Numbers, result: Numbers) -> Call:
        """See RankGroup."""
        return self._communicator.reduce_scatter(given.address, _part(result), self._stream)

    def all_to_all(self, given: Numbers, result: Numbers) -> Call:
        """See RankGroup; sends and receives, as torch does it."""
        return self.exchange(self._parts(given), self._parts(result))

    def broadcast(self, data: Numbers, root: int) -> Call:
        """See RankGroup."""
        return self._communicator.broadcast(_part(data), root, self._stream)

    def exchange(
        self, sends: "Sequence[tuple[Numbers, int]]", receives: "Sequence[tuple[Numbers, int]]"
    ) -> Call:
        """See RankGroup."""
        given = [(_part(numbers), peer) for numbers, peer in sends]
        taken = [(_part(numbers), peer) for numbers, peer in receives]
        return self._communicator.exchange(given, taken, self._stream)

    def _parts(self, numbers: Numbers) -> "list[tuple[Numbers, int]]":
        """One part for each rank."""
        size = numbers.count // self._ranks
        return [(numbers[rank * size : (rank + 1) * size], rank) for rank in range(self._ranks)]


def _part(numbers: Numbers) -> "tuple[int, int]":
    return numbers.address, numbers.count
