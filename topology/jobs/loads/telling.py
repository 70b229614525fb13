"""What was watched of a job's GPUs and processes, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...model.english import listing, plural
from ...model.finding import Finding
from ...model.readings import ProcessState, Readings
from ...model.severity import NOTICE, SLOW, JobVerdict
from ...model.units import gbs, percent
from ..activity import FULL_CORE, Activity
from ..flight.comparing import ranks_text
from ..grouping import Job
from ..lateness import Lateness, about, at_most, is_late, wait_for_it, who_waits
from ..standing import KnownBy, Sentence, job_finding
from .judging import JudgedLoads, LateRank, RankLoad

MOST_NAMED = 3
ABOUT = "about"
NO_P2P = ("NCCL_P2P_DISABLE", "1")
WAITS_FOR_CPU = 0.25
"""Share of the time that a thread stands in the queue of its CPUs, from which that is a reason."""
SLEEPS = {
    "nanosleep": "it sleeps by a timer",
    "flock": "it waits for a lock on a file",
    "lock_inode": "it waits for a lock on a file",
    "futex": "it waits for another thread or a lock of its own",
    "pipe": "it waits for another process at a pipe",
    "poll": "it waits for a pipe or a socket",
    "select": "it waits for a pipe or a socket",
    "skb": "it waits for a socket",
    "accept": "it waits for a socket",
    "io_schedule": "it waits for a disk",
    "folio": "it waits for a disk",
    "page_bit": "it waits for a disk",
    "fsync": "it waits for a disk",
    "jbd2": "it waits for a disk",
    "wait": "it waits for a process that it started",
}
"""Parts of the names of kernel functions, in the order in which they are looked for."""
OFTEN = 0.2
"""Share of the looks from which a place of sleep is a reason."""
BY_DESIGN = "whether it should: a rank with more data or more layers computes for longer by design"
LONGER, NO_WORK = "it computes for longer than all", "its GPU has no work meanwhile"
"""What is seen of a rank that is late by its GPU, and by its process."""
WORKS = "its process keeps a core busy while its GPU has no work"
"""Others keep one busy too: they ask their GPU all the time whether it is done."""
APART = 0.15
"""What a rank does for so much more of the time than any other one is what tells it from them."""
UNEQUAL = "as with stages of unequal depth, an evaluation or a checkpoint of one rank"


DOES = ("computing", "transferring or waiting", "without work")
ALIKE, MOST_GROUPS = 10, 6
"""Ranks are told together whose shares are equal in tenths; so many groups are told."""


def _of_late(late: LateRank, others: int, reason: str) -> Sentence:
    """What one rank does while the others wait for it."""
    if not late.equal:
        does = "has no work for its GPU" if late.how is Lateness.HOST else "computes"
        return Sentence(
            f"runs: rank {late.rank} {does} while {who_waits(others)}, about "
            f"{percent(100 * late.waiting)} of the time, {UNEQUAL}",
            JobVerdict.RUNS,
        )
    seen = LONGER if late.how is Lateness.GPU else NO_WORK
    brief = is_late(late.rank, about(late.waiting), reason or seen)
    waits = wait_for_it(others, late.waiting, ABOUT)
    return Sentence(f"{brief}; {waits}", JobVerdict.SLOW, brief)


def sentence(judged: JudgedLoads, reason: str) -> Sentence | None:
    """What stands out, behind "4 ranks, "; None where nothing does."""
    if judged.late is not None:
        return _of_late(judged.late, len(judged.ranks) - 1, reason)
    if judged.launching:
        most = percent(100 * max(one.computing for one in judged.ranks))
        return Sentence(
            f"each rank keeps a core busy while no GPU computes for more than about {most} of the "
            "time: starting kernels, or other work of the CPUs, is what takes long, not the links",
            JobVerdict.SLOW,
        )
    if judged.over_pcie:
        rate = gbs(max(one.pcie_gbs or 0.0 for one in judged.ranks))
        why = f": {reason}" if reason else ""
        share = min(one.in_library for one in judged.ranks)
        text = (
            f"their data goes over PCIe, {rate} each way, and none over NVLink{why}; "
            f"{at_most(share)}"
        )
        return Sentence(text, JobVerdict.SLOW)
    return None


def reason(
    judged: JudgedLoads, job: Job, activities: Mapping[int, Activity], readings: Readings
) -> str:
    """Why the rank is late, or why the links are not used; "" where nothing tells."""
    if judged.late is None:
        told = [dict(user.reading.variables or ()) for user in job.processes]
        off = judged.over_pcie and all(one.get(NO_P2P[0]) == NO_P2P[1] for one in told)
        return f"{'='.join(NO_P2P)} is set" if off else ""
    if judged.late.how is Lateness.GPU:
        return _why_gpu(judged.late, job, readings)
    others = [user.pid for user in job.ranked if user.pid != judged.late.pid]
    return _why_host(judged.late, others, activities, judged.sleeps)


def _why_gpu(late: LateRank, job: Job, readings: Readings) -> str:
    own = {user.pid for user in job.ranked}
    user = next(user for user in job.processes if user.pid == late.pid)
    for gpu in (readings.gpu(address) for address in user.gpus):
        others = [one.pid for one in (gpu.processes or () if gpu else ()) if one.pid not in own]
        if others:
            pids = listing([f"pid {pid}" for pid in others], MOST_NAMED)
            return f"another program is on its GPU ({pids})"
    return ""


def _why_host(
    late: LateRank,
    others: Sequence[int],
    activities: Mapping[int, Activity],
    sleeps: Mapping[int, Mapping[str, int]],
) -> str:
    """What the process of the late rank does, and those of others do not as much."""
    activity = activities.get(late.pid)
    if activity is None:
        return ""
    beside = [one for pid in others if (one := activities.get(pid)) is not None]
    queued = activity.queued or 0.0
    if queued >= max([WAITS_FOR_CPU, *((one.queued or 0.0) + APART for one in beside)]):
        taken = percent(100 * queued)
        return f"its first thread waits for a CPU {taken} of the time, which others use"
    if activity.stayed == ProcessState.DISK_SLEEP:
        return "it waits for a disk"
    if (activity.cores or 0.0) >= FULL_CORE:
        return WORKS
    if place := sleeps_in(sleeps.get(late.pid, {}), [sleeps.get(pid, {}) for pid in others]):
        return place
    runs = (activity.user_cores or 1.0) + queued
    alike = any((one.user_cores or 1.0) < runs + APART for one in beside)
    return "its process sleeps" if runs < 1 - OFTEN and not alike else ""


def sleeps_in(places: Mapping[str, int], others: Iterable[Mapping[str, int]] = ()) -> str:
    """Where a process sleeps, by functions of the kernel and how often each was seen; or "".

    Not where one of the `others` is seen nearly as often.
    """
    beside = list(others)
    for place in sorted(filter(None, places), key=lambda place: -places[place]):
        told = next((text for part, text in SLEEPS.items() if part in place), None)
        often = _share_of(places, place)
        most = max((_share_of(one, place) for one in beside), default=0.0)
        if told is not None and often >= OFTEN and often >= most + APART * bool(beside):
            return f"{told} ({place})"
    return ""


def place_of(places: Mapping[str, int]) -> str | None:
    """The function of the kernel in which a process sleeps most often; None where it is seldom."""
    often = max(filter(None, places), key=lambda place: places[place], default="")
    return often if often and _share_of(places, often) >= OFTEN else None


def _share_of(places: Mapping[str, int], place: str) -> float:
    return places.get(place, 0) / max(sum(places.values()), 1)


def findings(judged: JudgedLoads) -> Iterator[Finding]:
    """What each GPU did, and who is late."""
    if judged.ranks:
        late = judged.late.rank if judged.late is not None and judged.late.equal else None
        severity = NOTICE if late is None else SLOW
        ranks = () if late is None else (late,)
        groups: dict[tuple[int, ...], list[RankLoad]] = {}
        for one in judged.ranks:
            groups.setdefault(tuple(round(share * ALIKE) for share in _shares(one)), []).append(one)
        parts = sorted(groups.values(), key=len)
        text = "; ".join(map(_composition, parts[:MOST_GROUPS]))
        left = sum(map(len, parts[MOST_GROUPS:]))
        more = f"; and {plural(left, 'more rank')}" if left else ""
        yield job_finding("step", f"{text}{more}", KnownBy.DRIVER, severity, ranks=ranks)


def _shares(one: RankLoad) -> tuple[float, float, float]:
    return one.computing, one.in_library, one.idle


def _composition(alike: Sequence[RankLoad]) -> str:
    """The text "ranks 0 and 1 about 84 % computing, ..." of ranks that do about the same."""
    means = [sum(shares) / len(alike) for shares in zip(*map(_shares, alike), strict=True)]
    told = [f"{percent(100 * share)} {what}" for share, what in zip(means, DOES, strict=True)]
    return f"{ranks_text([one.rank for one in alike])} about {listing(told, len(told))}"


def in_short(ranks: Iterable[RankLoad]) -> str:
    """What a step of a job is made of that runs; "" where it is not known."""
    every = list(ranks)
    if not every:
        return ""
    mean = [sum(shares) / len(every) for shares in zip(*map(_shares, every), strict=True)]
    words = ("compute", "transfer or wait", "have no work")
    return (
        "its GPUs "
        + listing(
            [
                f"{word} about {percent(100 * share)}"
                for word, share in zip(words, mean, strict=True)
            ],
            3,
        )
        + " of the time"
    )


def unknown(judged: JudgedLoads, *, several: bool) -> Iterator[str]:
    """What the watch leaves open."""
    late = judged.late
    if late is not None and late.equal and late.how is Lateness.GPU:
        yield BY_DESIGN
    if several and not judged.ranks:
        yield (
            "what a step is made of: the driver gives no shares of these GPUs' units; NCCL's "
            "Inspector records it: NCCL_PROFILER_PLUGIN=libnccl-profiler-inspector.so "
            "NCCL_INSPECTOR_ENABLE=1 NCCL_INSPECTOR_DUMP_VERBOSE=1 "
            "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=500000 "
            "NCCL_INSPECTOR_DUMP_DIR=DIR, then `gputop jobs`"
        )
