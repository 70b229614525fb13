"""What only hints at how a job stands: traffic of links, ranks without a GPU, sleeps that end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..model.machine import Machine
from ..model.readings import Readings
from ..model.units import gbs, size
from ..wiring.gpu_names import gpu_names
from .activity import Activity
from .flight.comparing import RecordedGroup
from .grouping import Job
from .judging import sleep_told
from .silence import moving, theirs
from .standing import DRIVER, LONG_SECONDS, PROC, RAS, WAITS, JobFact, RankStanding
from .traffic import CarriedTraffic
from .words import joined

LOCAL_WORLD = "LOCAL_WORLD_SIZE"
POLLED = "kernels of NCCL that wait poll over it, so that is no sign of progress"
MOST_RANKS = 4096


def traffic_fact(
    job: Job, machine: Machine, traffic: CarriedTraffic | None, shared: Sequence[str] = ()
) -> Iterator[JobFact]:
    """What NVLink carried for the GPUs of a job; nothing unless all of them are known.

    `shared`: those of them that other jobs use too.
    """
    if traffic is None or len(job.gpus) < 2:
        return
    carried = {gpu: traffic.nvlink_bytes.get(gpu) for gpu in job.gpus}
    known = {gpu: value for gpu, value in carried.items() if value is not None}
    if len(known) < len(carried):
        return
    window = f"in {traffic.seconds:.2g} s"
    quiet = tuple(gpu for gpu, value in known.items() if value == 0)
    # Every byte is sent by one GPU and received by another.
    moved = sum(known.values()) / 2
    if len(quiet) == len(known):
        text = (
            f"NVLink of {gpu_names(quiet, machine)} carried nothing {window}: a hint that ranks "
            "wait, no proof, as ranks that compute send nothing either"
        )
    elif quiet:
        text = (
            f"NVLink of {gpu_names(quiet, machine)} carried nothing {window}, while that of the "
            f"job's other GPUs carried {size(moved)}"
        )
    else:
        pace = gbs(moved / traffic.seconds / 1e9)
        text = f"NVLink carried {size(moved)} {window} ({pace}): {moving(shared, machine)}"
    yield JobFact(text=text, origin=DRIVER)


def pcie_fact(
    job: Job, machine: Machine, readings: Readings, shared: Sequence[str] = ()
) -> Iterator[JobFact]:
    """What PCIe carries for the GPUs of a job; nothing unless all of them are known.

    The driver's counters are read twice, 25 ms apart. On an H200 two ranks of one job moved 0.86
    GB/s, and 0.15 GB/s with one of them stopped: PCIe is silent only where no kernel polls over it.
    """
    rates: dict[str, float] = {}
    for gpu in job.gpus:
        found = readings.gpu(gpu)
        sent = None if found is None else found.pcie_tx_bytes_per_second
        received = None if found is None else found.pcie_rx_bytes_per_second
        if sent is None or received is None:
            return
        rates[gpu] = sent + received
    if len(job.processes) < 2 or not rates:
        return
    quiet = tuple(gpu for gpu, rate in rates.items() if rate == 0)
    moves = gbs(sum(rates.values()) / 1e9)
    if len(quiet) == len(rates):
        text = (
            f"PCIe of {gpu_names(quiet, machine)} carried nothing between two reads of its "
            "counters: a hint that nothing goes on, no proof"
        )
    elif quiet:
        text = (
            f"PCIe of {gpu_names(quiet, machine)} carried nothing between two reads of its "
            f"counters, while that of the job's other GPUs carried {moves}"
        )
    else:
        text = (
            f"PCIe of {gpu_names(tuple(rates), machine)} carries {moves}, both ways; "
            f"{theirs(shared, machine) or POLLED}"
        )
    yield JobFact(text=text, origin=DRIVER)


def started_here(job: Job, activities: Mapping[int, Activity]) -> int | None:
    """Ranks that were started on this node, by LOCAL_WORLD_SIZE; None where they do not agree."""
    values = {
        dict((found.variables if found is not None else None) or ()).get(LOCAL_WORLD, "")
        for user in job.processes
        for found in (activities.get(user.pid),)
    }
    text = values.pop() if len(values) == 1 else ""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 5 else 0
    return number if 0 < number <= MOST_RANKS else None


def missing_here(job: Job, activities: Mapping[int, Activity]) -> Iterator[JobFact]:
    """Ranks that were started on this node and hold no GPU."""
    local = started_here(job, activities)
    own = {user.reading.local_rank for user in job.processes}
    if local is None or None in own or len(own) < len(job.processes):
        return
    gone = sorted(set(range(local)) - {each for each in own if each is not None})
    if gone:
        which = joined([str(rank) for rank in gone], 8)
        one = len(gone) == 1
        yield JobFact(
            text=f"local rank{'s' * (not one)} {which} of the {local} that were started here "
            f"hold{'s' * one} no GPU: ended, or not yet begun",
            origin=PROC,
        )


def short_sleeps(
    job: Job, activities: Mapping[int, Activity], ranks: Sequence[RankStanding]
) -> Iterator[JobFact]:
    """Processes and threads in uninterruptible sleeps that are nobody's trouble."""
    labels = {rank.pid: rank.label for rank in ranks}
    fine = {rank.pid for rank in ranks if rank.trouble is None}
    ran = [
        labels[user.pid]
        for user in job.processes
        if (activity := activities.get(user.pid)) is not None
        and activity.stayed == "disk sleep"
        and not activity.asleep
    ]
    if ran:
        yield JobFact(
            text=f"{joined(ran, 4)} {'was' if len(ran) == 1 else 'were'} in uninterruptible "
            "sleep (D) in both readings and ran in between, as with files that are read or written",
            origin=PROC,
        )
    for user in job.processes:
        told = sleep_told(user, activities.get(user.pid)) if user.pid in fine else None
        if told is not None:
            text = f"{labels[user.pid]} {told[0]}; nothing shows that others wait for it"
            yield JobFact(text=text, origin=PROC)


def slow_or_stuck(ranks: Sequence[RankStanding], verdict: str) -> Iterator[str]:
    """Of ranks that only are behind, as those are that take longer than others."""
    named = [r for r in ranks if r.trouble is not None and not r.left]
    late = [r for r in named if r.short or r.origin == RAS]
    if verdict == WAITS:
        who = joined([rank.label for rank in late]) if late else "those that are behind"
        yield (
            f"whether {who} still come{'s' * (len(late) == 1)}: a rank that evaluates, writes a "
            "checkpoint or loads data alone looks the same; `gputop jobs --ras --over 60` watches "
            f"for longer, and no progress for {LONG_SECONDS / 60:.0f} min is called a hang"
        )


def undated(groups: Iterable[RecordedGroup]) -> Iterator[str]:
    """What files that somebody names leave open about ranks that seem to wait."""
    if any(group.waiting for group in groups):
        yield (
            "how long ranks had waited: a dump does not say when it was written, and its file may "
            "be a later copy"
        )
