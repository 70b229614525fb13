"""The work that the Jobs screen leaves to a thread: explaining the variables of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gputop.topology.flags.account.overview import SetVariable, overview
from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.flags.values.values import Reading, for_library
from gputop.topology.flags.what_if.study import Stopped, Study
from gputop.topology.hardware.terms import terms_of
from gputop.topology.model.severity import FlagStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gputop.topology.jobs.grouping import GpuUser, Job
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.model.versions import Library

ORIGIN = "environment"
VISIBLE = "_VISIBLE_DEVICES"
"""A rank often sees its own GPU alone, but NCCL decides by the GPUs of all ranks."""


class JobRequest(NamedTuple):
    """A request: explain the variables of one rank on the GPUs of its job."""

    prediction: object
    """The prediction of the node; another one means that the node is another."""
    gpus: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    pid: int

    def same(self, other: JobRequest | None) -> bool:
        """Whether the other one is about the same node, too."""
        return other is not None and self.prediction is other.prediction and self[1:] == other[1:]


class VariableDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The variables of one process, each with what it does on this node."""

    entries: tuple[SetVariable, ...] = ()
    rules: str = ""
    """The library version whose rules apply: "nccl-2.28.9"."""
    whose: str = ""
    """"rank 0 (pid 4711)"."""
    trouble: str = ""
    """Why nothing could be worked out."""


def process_with_variables(job: Job, user: GpuUser | None) -> GpuUser | None:
    """The process whose variables represent a line of the list; None where none may be read."""
    users = job.processes if user is None else (user,)
    return next((user for user in users if user.reading.variables is not None), None)


def work_out(
    snapshot: NodeSnapshot,
    gpus: Sequence[str],
    user: GpuUser,
    overtaken: Callable[[], bool] = lambda: False,
    library: str | None = None,
) -> VariableDetails | None:
    """Explain each variable on the GPUs of the job; None when a newer request overtook this one.

    `library`: what the job has loaded, whose rules hold for it.
    """
    values = dict(user.reading.variables or ())
    rank = user.reading.rank
    whose = f"pid {user.pid}" if rank is None else f"rank {rank} (pid {user.pid})"
    if not values:
        nothing = "none of those that {library}, {runtime} or PyTorch read is set"
        return VariableDetails(whose=whose, trouble=terms_of(snapshot.machine.gpus).fill(nothing))
    here = {gpu.address for gpu in snapshot.machine.gpus}
    chosen = [address for address in gpus if address in here]
    decided = {name: value for name, value in values.items() if VISIBLE not in name}
    study = Study(snapshot, library=library, gpus=chosen or None, values=decided)
    study = study.stop_when(overtaken)
    try:
        entries = overview(study, dict.fromkeys(values, ORIGIN)) if decided else ()
        rules = study.whose()
    except Stopped:
        return None
    seen = (_plain(name, values[name], rules) for name in sorted(values) if name not in decided)
    entries = (*entries, *seen)
    return VariableDetails(entries=entries, rules=f"{rules.name}-{rules.version}", whose=whose)


def _plain(name: str, value: str, library: Library) -> SetVariable:
    """A variable in the catalogue's words, without predicting with and without it."""
    flag = catalogue().flag(name)
    return SetVariable(
        name=name,
        value=value,
        origin=ORIGIN,
        known=flag is not None,
        reading=Reading(effective=value),
        said="" if flag is None else for_library(flag, library).changes,
        status=FlagStatus.NOT_PREDICTED,
    )
