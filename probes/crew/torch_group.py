"""The ranks of a run through torch.distributed: NCCL or RCCL, gloo in the self-test."""

import datetime
import inspect
from collections.abc import Sequence
from typing import Any, Callable, Optional

from .accelerator import Call, NodesTopics
from .torch_accelerator import TorchAccelerator

_FOREVER = datetime.timedelta(days=2)
"""torch's own deadline must never come first, because torch would write dumps and abort."""


class TorchGroup:
    """One rank's view of the group."""

    def __init__(
        self,
        here: TorchAccelerator,
        dist: Any,
        open_store: Callable[[], Any],
        rank: int,
        ranks: int,
        members: Sequence[int] = (),
        process_group: Any = None,
    ) -> None:
        """`dist`: torch.distributed. `open_store`: gives the store in which torch's ranks meet.

        `members` and `process_group`: of a part, its ranks among all, and torch's name of it.
        """
        self._here = here
        self._dist = dist
        self._open_store = open_store
        self._rank = rank
        self._ranks = ranks
        self._members = tuple(members) or tuple(range(ranks))
        self._among: dict[str, Any] = {"group": process_group} if members else {}

    def across(self, topics: NodesTopics, rank: int, ranks: int) -> "TorchGroup":
        """See RankGroup."""
        return TorchGroup(self._here, self._dist, lambda: topics.torch_store(ranks), rank, ranks)

    def part(self, name: str, members: Sequence[int]) -> "Optional[TorchGroup]":
        """See RankGroup; torch counts its groups itself."""
        made = self._dist.new_group(list(members))
        if self._rank not in members:
            return None
        rank, ranks = members.index(self._rank), len(members)
        return TorchGroup(
            self._here, self._dist, self._open_store, rank, ranks, members, made
        )  # fmt: skip

    def open(self, *, eager: bool) -> None:
        """See RankGroup; old torches make the communicator with the first collective."""
        if self._among:
            return  # torch made it together with all others
        here, dist = self._here, self._dist
        store = self._open_store()
        store.set_timeout(_FOREVER)
        more: dict[str, Any] = {}
        known = inspect.signature(dist.init_process_group).parameters
        if eager and here.backend == "nccl" and "device_id" in known:
            more["device_id"] = here.torch_device()
        dist.init_process_group(
            here.backend,
            store=dist.PrefixStore("group", store),
            rank=self._rank,
            world_size=self._ranks,
            timeout=_FOREVER,
            **more,
        )

    def all_reduce(self, data: Any) -> Call:
        """See RankGroup."""
        return lambda: self._dist.all_reduce(data, **self._among)

    def all_gather(self, given: Any, result: Any) -> Call:
        """See RankGroup."""
        gather = self._newest("all_gather_single", "all_gather_into_tensor")
        return lambda: gather(result, given, **self._among)

    def reduce_scatter(self, given: Any, result: Any) -> Call:
        """See RankGroup."""
        scatter = self._newest("reduce_scatter_single", "reduce_scatter_tensor")
        return lambda: scatter(result, given, **self._among)

    def all_to_all(self, given: Any, result: Any) -> Call:
        """See RankGroup."""
        return lambda: self._dist.all_to_all_single(result, given, **self._among)

    def broadcast(self, data: Any, root: int) -> Call:
        """See RankGroup."""
        return lambda: self._dist.broadcast(data, self._members[root], **self._among)

    def exchange(
        self, sends: "Sequence[tuple[Any, int]]", receives: "Sequence[tuple[Any, int]]"
    ) -> Call:
        """See RankGroup; a batch, as torch makes a communicator of two for a bare send."""
        dist = self._dist
        parts = [(dist.isend, *part) for part in sends] + [(dist.irecv, *part) for part in receives]
        operations = [
            dist.P2POp(way, data, self._members[peer], **self._among) for way, data, peer in parts
        ]

        def exchange() -> None:
            for work in dist.batch_isend_irecv(operations):
                work.wait()

        return exchange

    def _newest(self, *names: str) -> Any:
        """The first of these functions in this torch; older names warn at each call."""
        return next(getattr(self._dist, name) for name in names if hasattr(self._dist, name))
