"""The ranks of a run through torch.distributed: NCCL or RCCL, gloo in the self-test."""

import datetime
import inspect
from collections.abc import Sequence
from typing import Any

from .accelerator import Call
from .torch_accelerator import TorchAccelerator

_FOREVER = datetime.timedelta(days=2)
"""torch's own deadline must never come first, because torch would write dumps and abort."""


class TorchGroup:
    """One rank's view of the group."""

    def __init__(self, here: TorchAccelerator, dist: Any, path: str, rank: int, ranks: int) -> None:
        """`dist`: torch.distributed. `path`: a file in which torch's ranks meet."""
        self._here = here
        self._dist = dist
        self._path = path
        self._rank = rank
        self._ranks = ranks

    def open(self, *, eager: bool) -> None:
        """See RankGroup; old torches make the communicator with the first collective."""
        here, dist = self._here, self._dist
        store = dist.FileStore(self._path, self._ranks)
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
        return lambda: self._dist.all_reduce(data)

    def all_gather(self, given: Any, result: Any) -> Call:
        """See RankGroup."""
        gather = self._newest("all_gather_single", "all_gather_into_tensor")
        return lambda: gather(result, given)

    def reduce_scatter(self, given: Any, result: Any) -> Call:
        """See RankGroup."""
        scatter = self._newest("reduce_scatter_single", "reduce_scatter_tensor")
        return lambda: scatter(result, given)

    def all_to_all(self, given: Any, result: Any) -> Call:
        """See RankGroup."""
        return lambda: self._dist.all_to_all_single(result, given)

    def broadcast(self, data: Any, root: int) -> Call:
        """See RankGroup."""
        return lambda: self._dist.broadcast(data, root)

    def exchange(
        self, sends: "Sequence[tuple[Any, int]]", receives: "Sequence[tuple[Any, int]]"
    ) -> Call:
        """See RankGroup; a batch, as torch makes a communicator of two for a bare send."""
        dist = self._dist
        operations = [
            *(dist.P2POp(dist.isend, data, peer) for data, peer in sends),
            *(dist.P2POp(dist.irecv, data, peer) for data, peer in receives),
        ]

        def exchange() -> None:
            for work in dist.batch_isend_irecv(operations):
                work.wait()

        return exchange

    def _newest(self, *names: str) -> Any:
        """The first of these functions in this torch; older names warn at each call."""
        return next(getattr(self._dist, name) for name in names if hasattr(self._dist, name))
