"""The processes on the GPUs as rules see them: the ranks of each communicator."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...jobs.grouping import GpuUser, communicators
from ...model.finding import Finding
from ...model.severity import Severity
from ..case import Case
from ..rule import NotRead, Proof, Rule

MEETING = "rank, world size and rendezvous of the processes on the GPUs"
MOST_SHOWN = 8


def users_of(case: Case, field: str = "pid") -> tuple[GpuUser, ...]:
    """Processes on the examined GPUs; ends the rule where nobody knows them, or `field` of any.

    An empty list proves nothing inside a container.
    """
    counted = {gpu.address for gpu in case.gpus}
    lists = [reading.processes for reading in case.readings.gpus if reading.address in counted]
    users = tuple(user for user in case.gpu_users if not counted.isdisjoint(user.gpus))
    known = any(getattr(user.reading, field) is not None for user in users)
    if not lists or None in lists or not (known if users else case.in_container is False):
        raise NotRead
    return users


def ranks_of(case: Case) -> tuple[tuple[GpuUser, ...], ...]:
    """Communicators; ends the rule where the variables of no process may be read."""
    return communicators(users_of(case, "variables"))


def of_users(
    rule: Rule,
    case: Case,
    users: Sequence[GpuUser],
    severity: Severity,
    title: str,
    proof: Callable[[GpuUser], Proof],
    **rest: Any,
) -> Finding:
    """Make a finding about the GPUs of these processes, named in `title` by "{gpus}".

    Its evidence is a proof of each of the first processes.
    """
    gpus = gpus_of(users)
    return rule.finding(
        severity,
        title.replace("{gpus}", case.names(gpus)),
        devices=gpus,
        evidence=map(proof, users[:MOST_SHOWN]),
        **rest,
    )


def rank_name(user: GpuUser) -> str:
    """Name a rank by number and process: "rank 3 (pid 4711)"."""
    return f"rank {user.reading.rank} (pid {user.pid})"


def process_name(user: GpuUser) -> str:
    """Name a process by its rank where it has one: "rank 3 (pid 4711)", "process 4711"."""
    return f"process {user.pid}" if user.reading.rank is None else rank_name(user)


def gpus_of(users: Iterable[GpuUser]) -> list[str]:
    """The GPUs that these ranks use, by address."""
    return sorted({address for user in users for address in user.gpus})
