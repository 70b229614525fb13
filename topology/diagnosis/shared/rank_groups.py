"""The processes on the GPUs as rules see them: the ranks of each communicator."""

from collections.abc import Iterable

from ...jobs.grouping import GpuUser, communicators
from ..case import Case

MEETING = "rank, number of ranks and meeting place of the processes on the GPUs"
MOST_SHOWN = 8


def users_of(case: Case) -> tuple[GpuUser, ...] | None:
    """Processes on the examined GPUs; None where they are not known.

    An empty list proves nothing inside a container.
    """
    counted = {gpu.address for gpu in case.gpus}
    lists = [reading.processes for reading in case.readings.gpus if reading.address in counted]
    if not lists or None in lists:
        return None
    users = tuple(gpu_user for gpu_user in case.gpu_users if not counted.isdisjoint(gpu_user.gpus))
    return users if users or case.in_container is False else None


def ranks_of(case: Case) -> tuple[tuple[GpuUser, ...], ...] | None:
    """Communicators; None where the variables of no process may be read."""
    users = users_of(case)
    if users is None or (users and all(user.reading.variables is None for user in users)):
        return None
    return communicators(users)


def rank_name(user: GpuUser) -> str:
    """Name a rank by number and process: "rank 3 (pid 4711)"."""
    return f"rank {user.reading.rank} (pid {user.pid})"


def process_name(user: GpuUser) -> str:
    """Name a process by its rank where it has one: "rank 3 (pid 4711)", "process 4711"."""
    return f"process {user.pid}" if user.reading.rank is None else rank_name(user)


def gpus_of(users: Iterable[GpuUser]) -> list[str]:
    """The GPUs that these ranks use, by address."""
    return sorted({address for user in users for address in user.gpus})
