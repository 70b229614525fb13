"""Commands that tell more of a job, to be copied: gputop runs none of them."""

from collections.abc import Iterator, Sequence

from ..hardware.vendors import AMD, NVIDIA
from ..model.copied import copied, may_stand
from ..model.machine import Machine
from ..model.readings import ProcessState
from ..model.severity import JobVerdict
from .standing import RankState

MOST_STEPS = 6

DEBUGGERS = {
    NVIDIA.id: "cuda-gdb -p {:pid} -batch -ex 'info cuda kernels'",
    AMD.id: "rocgdb -p {:pid} -batch -ex 'info threads'",
}
"""Which kernels a GPU runs, by vendor."""


def debugger(machine: Machine) -> str:
    """What tells the kernels of a process on these GPUs; "" for those of several vendors."""
    vendors = {gpu.vendor for gpu in machine.gpus}
    return DEBUGGERS.get(vendors.pop(), "") if len(vendors) == 1 else ""


def steps_of(
    ranks: Sequence[RankState], verdict: JobVerdict, late: int | None = None, kernels: str = ""
) -> tuple[str, ...]:
    """Commands for the ranks that something is wrong with, then for one that waits.

    `late`: the process that the others wait for; `kernels`: what tells those of a process.
    """
    steps = [step for rank in ranks if rank.trouble is not None for step in _steps(rank)]
    if late is not None:
        steps.append(copied("py-spy dump --pid {:pid}", late))
    waits = next(
        (
            rank.pid
            for rank in ranks
            if rank.trouble is None and rank.pid not in (None, late) and rank.activity is not None
        ),
        None,
    )
    if waits is not None and verdict is not JobVerdict.RUNS:
        steps.append(copied("py-spy dump --pid {:pid}", waits))
        if kernels and verdict in (JobVerdict.HANGS, JobVerdict.WAITS):
            steps.append(copied(kernels, waits))
    return tuple(filter(None, dict.fromkeys(steps[:MOST_STEPS])))


def _steps(rank: RankState) -> Iterator[str]:
    """Commands for a rank with a trouble."""
    trouble, activity, pid = rank.trouble, rank.activity, rank.pid
    if rank.elsewhere is not None:
        host, there = rank.elsewhere
        where = host if host and may_stand(host, "name") else "its machine"
        yield copied(f"py-spy dump --pid {{:pid}}  # at {where}", there)
    if trouble is None or pid is None or trouble.over:
        return
    if trouble.step:
        yield copied(trouble.step, pid)
    elif activity is not None and activity.asleep_thread is not None:
        number = activity.asleep_thread.rpartition("(")[2].rstrip(")")
        yield copied("sudo cat /proc/{:pid}/task/{:pid}/stack", pid, number)
    elif activity is not None and activity.stayed == ProcessState.DISK_SLEEP:
        yield copied("sudo cat /proc/{:pid}/stack", pid)
    else:
        yield copied("py-spy dump --pid {:pid}", pid)
