"""Host memory of ranks that grows while little of it is left."""

from collections.abc import Iterable, Sequence

import msgspec

from ....jobs.demand import memory_limits
from ....jobs.grouping import GpuUser
from ....model.english import plural
from ....model.finding import Finding
from ....model.readings import Readings
from ....model.severity import NOTICE
from ....model.units import seconds as lasting
from ....model.units import size
from ...case import Case
from ...rule import Found, Proof, Rule
from ...shared.rank_groups import MOST_SHOWN, gpus_of, process_name, users_of


class Growth(msgspec.Struct, frozen=True):
    """What a process gained since the earlier reading."""

    user: GpuUser
    grown_bytes: int


def _check(case: Case) -> Found:
    users, earlier = users_of(case), case.earlier
    if earlier is None:
        return None
    seconds = case.snapshot.taken_at - earlier.taken_at
    growths = _growths(users, earlier.readings)
    if seconds <= 0 or (users and not growths):
        return None
    found: list[Finding] = []
    for demand in memory_limits(users):
        grown = [growths[user.pid] for user in demand.users if user.pid in growths]
        left = demand.limit_bytes - demand.used_bytes
        limit = (
            "memory limit of their cgroup",
            f"{size(demand.limit_bytes)}, of which they hold {size(demand.used_bytes)}",
            "memory.max of the cgroup in /proc/PID/cgroup",
        )
        found += _near(case, grown, left, demand.limit_bytes, limit, seconds)
    host = case.readings.host
    total = case.host.memory_bytes
    if host is not None and host.memory_available_bytes is not None and total:
        left = host.memory_available_bytes
        limit = (
            "memory of the host that is left",
            f"{size(left)} of {size(total)}",
            "/proc/meminfo, MemAvailable and MemTotal",
        )
        found += _near(case, list(growths.values()), left, total, limit, seconds)
    return found


def _growths(users: Iterable[GpuUser], earlier: Readings) -> dict[int, Growth]:
    """What each process gained whose memory both readings know."""
    before = {(process.pid, process.started_at): process for process in earlier.processes}
    growths: dict[int, Growth] = {}
    for user in users:
        now = user.reading
        was = before.get((user.pid, now.started_at))
        if was is None or was.anonymous_bytes is None or now.anonymous_bytes is None:
            continue
        growths[user.pid] = Growth(user, now.anonymous_bytes - was.anonymous_bytes)
    return growths


def _near(
    case: Case, growths: Sequence[Growth], left: int, limit_bytes: int, limit: Proof, seconds: float
) -> Iterable[Finding]:
    growing = [each for each in growths if each.grown_bytes > 0]
    grown = sum(each.grown_bytes for each in growing)
    if left > limit_bytes * case.threshold(GROWS, "left_share"):
        return
    if grown < case.threshold(GROWS, "minimum_bytes"):
        return
    users = [each.user for each in growing]
    gpus = gpus_of(users)
    pace = grown / seconds
    rest = lasting(max(left, 0) / pace)
    yield GROWS.finding(
        NOTICE,
        f"host memory of {plural(len(users), 'process', 'processes')} on {case.names(gpus)} "
        f"grows, and {size(max(left, 0))} are left",
        devices=gpus,
        evidence=[
            limit,
            *(
                (
                    f"memory of {process_name(each.user)} that no file backs",
                    f"{size(each.user.reading.anonymous_bytes)}, {size(each.grown_bytes)} more "
                    f"than {lasting(seconds)} before",
                    f"/proc/{each.user.pid}/status, RssAnon",
                )
                for each in growing[:MOST_SHOWN]
            ),
        ],
        impact=f"If it goes on at {size(round(pace))} a second, the rest lasts {rest}. Then "
        "the kernel ends a process, and every other rank waits for it in the next collective.",
        fix=[
            (
                "Look for what the program keeps: batches, losses with their graph, workers of "
                "data loaders. Or give the job more memory."
            ),
            ("See what a rank holds. $ cat /proc/{:pid}/smaps_rollup", users[0].pid),
        ],
    )


GROWS = Rule(
    id="rank-memory-grows",
    title="host memory of ranks that grows near the limit of their cgroup or of the host",
    evidence="memory of the processes on the GPUs in two readings, and what is left",
    disproof="an RssAnon in /proc/PID/status that stays the same",
    sources=("proc_pid_status(5), RssAnon", "Linux Documentation/admin-guide/cgroup-v2.rst"),
    check=_check,
    over_time=True,
    thresholds=(("left_share", 0.1), ("minimum_bytes", 256e6)),
)
RULES = (GROWS,)
