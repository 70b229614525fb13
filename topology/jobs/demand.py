"""What the processes of a job want of the host, against what they were given: CPUs and memory."""

from collections.abc import Sequence

import msgspec

from ..model.cpulist import members
from .grouping import GpuUser


class ThreadDemand(msgspec.Struct, frozen=True, kw_only=True):
    """Threads that OMP_NUM_THREADS asks for in all, on the CPUs that the processes may use."""

    users: tuple[GpuUser, ...]
    threads: int
    cpus: int

    @property
    def fitting(self) -> int:
        """The largest OMP_NUM_THREADS that all processes find CPUs for; 1 at the least."""
        return max(self.cpus // len(self.users), 1)


class QuotaDemand(msgspec.Struct, frozen=True, kw_only=True):
    """Processes that share the CPU time that one cgroup grants."""

    users: tuple[GpuUser, ...]
    quota: float
    """CPUs' worth of time."""
    threads: int
    """Threads that want CPUs: OMP_NUM_THREADS of each process, one where that is not set."""


class MemoryDemand(msgspec.Struct, frozen=True, kw_only=True):
    """Processes below one memory limit."""

    users: tuple[GpuUser, ...]
    limit_bytes: int
    used_bytes: int
    """What no file backs in them together; what they share and page tables come on top."""


def threads_over_cpus(users: Sequence[GpuUser]) -> ThreadDemand | None:
    """More threads than CPUs; None where they fit, or where one process does not say.

    OMP_NUM_THREADS bounds the threads of one parallel region: only ranks that compute on CPUs at
    the same time get in each other's way.
    """
    allowed: set[int] = set()
    threads = 0
    for user in users:
        own = members(user.reading.cpu_affinity)
        if user.reading.omp_threads is None or not own:
            return None
        threads += user.reading.omp_threads
        allowed |= own
    # One thread each on fewer CPUs than ranks is a matter of binding, not of threads.
    if not users or threads <= max(len(allowed), len(users)):
        return None
    return ThreadDemand(users=tuple(users), threads=threads, cpus=len(allowed))


def quotas(users: Sequence[GpuUser]) -> tuple[QuotaDemand, ...]:
    """The processes of each cgroup that grants CPU time, where it is less than their threads want.

    Processes in containers of their own have a quota each, however equal these are.
    """
    by: dict[tuple[str, float], list[GpuUser]] = {}
    for user in users:
        group, quota = user.reading.cpu_group, user.reading.cpu_quota
        if group is not None and quota is not None:
            by.setdefault((group, quota), []).append(user)
    found = []
    for (_, quota), sharing in by.items():
        threads = sum(user.reading.omp_threads or 1 for user in sharing)
        if quota < threads:
            found.append(QuotaDemand(users=tuple(sharing), quota=quota, threads=threads))
    return tuple(found)


def memory_limits(users: Sequence[GpuUser]) -> tuple[MemoryDemand, ...]:
    """The processes of each cgroup that limits memory, with what they hold of it."""
    by: dict[tuple[str, int], list[GpuUser]] = {}
    for user in users:
        group, limit = user.reading.memory_group, user.reading.memory_limit_bytes
        if group is not None and limit is not None and user.reading.anonymous_bytes is not None:
            by.setdefault((group, limit), []).append(user)
    return tuple(
        MemoryDemand(
            users=tuple(sharing),
            limit_bytes=limit,
            used_bytes=sum(user.reading.anonymous_bytes or 0 for user in sharing),
        )
        for (_, limit), sharing in by.items()
    )
