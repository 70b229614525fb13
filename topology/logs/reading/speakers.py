"""Which processes named a variable, to find the ranks that never did."""

from __future__ import annotations

from collections.abc import Iterable

from .building import CommBuilder, Process

MAX_SPEAKERS = 100_000
"""Most pairs of a variable's value and a process; beyond them no rank is called silent."""
MAX_RANKS_NAMED = 64

READ_FOR_PLAN = {
    "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_CUMEM_ENABLE", "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_CROSS_NIC",
}  # fmt: skip
"""Variables that every rank has read when it prints its trees (graph/paths.cc, graph/search.cc)."""
READ_AT_START = {
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_NTHREADS", "NCCL_BUFFSIZE", "NCCL_LL_BUFFSIZE",
    "NCCL_LL128_BUFFSIZE",
}  # fmt: skip
"""Variables that every rank has read when it is ready (graph/tuning.cc, init.cc)."""

ProcessKey = tuple[str, int]
"""Host and process id."""


class Speakers:
    """Gathers who said what; asked once the log is read."""

    def __init__(self) -> None:
        self._by_value: dict[tuple[str, str], set[ProcessKey]] = {}
        self._from_start: set[ProcessKey] = set()
        """Processes of which the log has the first lines."""
        self._planned: set[ProcessKey] = set()
        """Processes that printed their trees."""
        self._count = 0

    def began(self, process: Process) -> None:
        """Note that the log has the beginning of what this process prints."""
        if len(self._from_start) < MAX_SPEAKERS:
            self._from_start.add((process.host, process.pid))

    def planned(self, process: Process) -> None:
        """Note that a process has decided on its channels."""
        if len(self._planned) < MAX_SPEAKERS:
            self._planned.add((process.host, process.pid))

    def said(self, key: tuple[str, str], process: Process) -> None:
        """Note that a process says that it read a variable; `key` is its name and value."""
        self.began(process)
        if self._count < MAX_SPEAKERS:
            known = self._by_value.setdefault(key, set())
            self._count += (process.host, process.pid) not in known
            known.add((process.host, process.pid))

    def ranks(self, key: tuple[str, str], comm: CommBuilder | None) -> tuple[int, ...]:
        """The ranks that read this value, at most MAX_RANKS_NAMED."""
        said = self._by_value.get(key, set())
        return tuple(sorted(_ranks(comm, said))[:MAX_RANKS_NAMED])

    def silent(self, name: str, comm: CommBuilder | None) -> tuple[int, ...]:
        """The ranks that never read `name`, came far enough for it, and whose lines are there."""
        if comm is None or self._count >= MAX_SPEAKERS:
            return ()
        if name in READ_FOR_PLAN:
            far = self._planned
        elif name in READ_AT_START:
            far = {
                (rank.host, rank.pid)
                for rank in comm.ranks.values()
                if rank.state != "started" and rank.host is not None and rank.pid is not None
            }
        else:
            return ()
        said = {who for (seen, _), by in self._by_value.items() if seen == name for who in by}
        quiet = (far & self._from_start) - said
        return tuple(sorted(_ranks(comm, quiet))[:MAX_RANKS_NAMED]) if far & said else ()


def _ranks(comm: CommBuilder | None, processes: Iterable[ProcessKey]) -> list[int]:
    known = set(processes)
    ranks = comm.ranks.values() if comm is not None else ()
    return [rank.rank for rank in ranks if (rank.host, rank.pid) in known]
