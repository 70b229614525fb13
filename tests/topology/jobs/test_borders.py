"""What is decided about jobs at its borders: how many are named, counted, waited for, read."""

from __future__ import annotations

import selectors
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from gputop.topology.jobs import evidence, saved, traffic
from gputop.topology.jobs.evidence import bound_together
from gputop.topology.jobs.flight.comparing import ranks_text
from gputop.topology.jobs.grouping import communicators
from gputop.topology.jobs.ras import client, text
from gputop.topology.jobs.ras.answer import RasError
from gputop.topology.jobs.traffic import CarriedTraffic, TrafficLook, traffic_delta
from gputop.topology.model.severity import NOTICE, SLOW
from gputop.topology.recorded.formats.ncclras import TOOL
from gputop.topology.recorded.pasted import PastedSection
from gputop.topology.sources.nvidia.library import GpuLost
from gputop.topology.sources.nvidia.traffic import NVLINK_TX_RX

UNHEARD = ("*",)


def user(pid: int, **facts: Any) -> Any:
    known = {
        "pid": pid, "rank": None, "world_size": None, "rendezvous": None, "namespaces": None,
        "job": None, "parent": 77, "cpu_group": None, "cpu_quota": None, "cpu_affinity": None,
    }  # fmt: skip
    return SimpleNamespace(pid=pid, gpus=(), reading=SimpleNamespace(**{**known, **facts}))


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "rank 0"), (2, "ranks 0 and 1"), (3, "ranks 0, 1 and 2"),
        (8, "ranks 0, 1, 2, 3, 4, 5, 6 and 7"), (9, "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 1 more"),
    ],
)  # fmt: skip
def test_some_ranks_are_named(count: int, said: str) -> None:
    assert ranks_text(range(count)) == said


def test_communicators_are_in_the_order_of_their_first_ranks() -> None:
    def rank(pid: int, number: int, where: str, **facts: Any) -> Any:
        return user(pid, rank=number, world_size=2, rendezvous=f"{where}:29500", **facts)

    users = [rank(9, 0, "h2"), rank(1, 1, "h2"), rank(3, 0, "h1"), rank(8, 1, "h1")]
    assert [[one.pid for one in group] for group in communicators(users)] == [[3, 8], [9, 1]]
    assert communicators([*users[:2], rank(5, 1, "h2")]) == ()
    helper = rank(5, 1, "h2", parent=1)
    assert len(communicators([*users[:2], helper])) == 1
    local = [rank(n, n, "127.0.0.1", namespaces=(("net", "n1"),)) for n in (0, 1)]
    assert len(communicators(local)) == 1
    local[1].reading.namespaces = (("net", "n2"),)
    assert communicators(local) == ()
    for facts in ({"job": "slurm 4.0"}, {"job": "torchrun x", "parent": 7}):
        made = [user(n, rank=n, world_size=2, **facts) for n in (0, 1)]
        assert len(communicators(made)) == 1
        made[0].reading.world_size = 1
        assert communicators(made) == ()


def quota_findings(monkeypatch: pytest.MonkeyPatch, *users: Any, **more: Any) -> list[Any]:
    demand: Any = more.pop("demand", ())
    monkeypatch.setattr(evidence, "quotas", lambda processes: demand)
    activities = {
        1: SimpleNamespace(stopped_periods=((more["group"], more["periods"]),))
    } if more else {}  # fmt: skip
    job: Any = SimpleNamespace(processes=users)
    return list(evidence._quota(job, activities))  # type: ignore[arg-type]


def test_cpu_time_that_a_cgroup_grants(monkeypatch: pytest.MonkeyPatch) -> None:
    free, unnamed = user(1, cpu_group="a"), user(2, cpu_quota=4.0)
    assert quota_findings(monkeypatch, free, unnamed) == []
    two = user(3, cpu_group="a", cpu_quota=2.0), user(4, cpu_group="a", cpu_quota=2.0)
    assert quota_findings(monkeypatch, *two) == []
    demand = (SimpleNamespace(users=two, threads=64),)
    (few,) = quota_findings(monkeypatch, *two, demand=demand)
    assert (few.severity, few.brief) == (NOTICE, "")
    assert few.title.endswith("; OMP_NUM_THREADS of all together is 64")
    one = tuple(user(n, cpu_group="a", cpu_quota=1.0) for n in (3, 4))
    (less,) = quota_findings(monkeypatch, *one, demand=(SimpleNamespace(users=one, threads=64),))
    assert (less.severity, less.brief) == (SLOW, "2 processes share 1 CPUs' worth of time")
    (stopped,) = quota_findings(monkeypatch, *two, group="a", periods=(50, 7))
    assert stopped.severity == SLOW
    assert "used up in 7 of 50 periods" in stopped.title
    assert quota_findings(monkeypatch, *two, group="a", periods=(50, 0)) == []


def test_ranks_share_cpus_unless_each_may_use_all() -> None:
    users = [user(n, cpu_affinity="0-1") for n in (1, 2, 3)]
    assert [one.pid for one in bound_together(users, 8)] == [1, 2, 3]
    assert [one.pid for one in bound_together(users, None)] == [1, 2, 3]
    assert bound_together(users, 2) == ()
    assert bound_together(users[:2], 8) == ()
    assert len(bound_together(users, 3)) == 3


def line(**facts: Any) -> Any:
    known = {
        "sending": b"", "ended": False, "greeted": False, "asked": False, "trouble": None,
        "read": lambda most: most, "write": lambda: None, "socket": socket,
    }  # fmt: skip
    made = SimpleNamespace(**{**known, **facts})
    made.ask = lambda: setattr(made, "asked", True)
    return made


def test_a_service_that_sends_too_much_is_left() -> None:
    read, one = selectors.EVENT_READ, line()
    client._step(one, read, [one], [9])
    assert (one.ended, one.trouble) == (True, client.TOO_MUCH)
    small = line(read=lambda most: 8)
    client._step(small, read, [small], [9])
    assert (small.ended, small.trouble) == (False, None)
    over = line(ended=True)
    client._step(over, read, [over], [9])
    assert over.trouble is None
    waiting, others = line(greeted=True), [line(asked=True), line(asked=True)]
    client._step(waiting, 0, [waiting, *others], [9])
    assert not waiting.asked
    client._step(waiting, 0, [waiting, others[0]], [9])
    assert waiting.asked


def test_so_many_missing_ranks_are_read_and_no_part_of_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text, "LIMIT_RANKS", 3)
    here: dict[str, Any] = {"missing": []}
    text._missing(here, range(3), unresponsive=True)
    assert [one.rank for one in here["missing"]] == [0, 1, 2]
    with pytest.raises(RasError, match="more than 3 missing ranks, which is gputop's limit"):
        text._missing(here, (3,), unresponsive=True)


def test_an_answer_that_may_be_cut_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(words: str) -> Any:
        return [RasError("odd")]

    monkeypatch.setattr(saved, "_read", fails)
    section = PastedSection(TOOL, 1, ("abcd", "efgh"))
    for kept, cut in ((20, False), (19, True)):
        monkeypatch.setattr(saved, "KEPT_BYTES", kept)
        ((_, why),) = saved.in_sections("a", [section]).refused
        assert why.startswith("no answer of RAS that can be read: odd")
        assert why.endswith(saved.CUT) is cut


class Counting:
    """A driver that counts what NVLinks carry, for some GPUs."""

    def handle(self, name: str, address: bytes) -> str | None:
        if address == b"lost":
            raise GpuLost
        return None if address == b"none" else address.decode()

    def fields(self, handle: str | None, wanted: Any, scope: int) -> dict[str, Any]:
        assert handle is not None
        values = (5,) if handle == "half" else range(1, len(wanted) + 1)
        return {str(number): {"value": value} for number, value in enumerate(values)}


def test_gpus_without_whole_counters_are_left_out() -> None:
    count = len(NVLINK_TX_RX)
    found = traffic.look(("none", "lost", "half", "a"), Counting, lambda: 7.0)  # type: ignore[arg-type]
    assert found == TrafficLook(7.0, {"a": sum(range(1, count + 1))})
    many = tuple(f"g{number}" for number in range(traffic.MOST_GPUS + 1))
    found = traffic.look(many, Counting, lambda: 7.0)  # type: ignore[arg-type]
    assert found is not None
    assert len(found.nvlink_kib) == traffic.MOST_GPUS


def test_what_was_carried_between_two_looks() -> None:
    first, second = (
        TrafficLook(1.0, {"a": 5, "b": 9, "c": 1}),
        TrafficLook(3.0, {"a": 5, "b": 8, "d": 2}),
    )
    assert traffic_delta(first, second) == CarriedTraffic(2.0, {"a": 0})
    more = TrafficLook(3.0, {"a": 7})
    assert traffic_delta(first, more) == CarriedTraffic(2.0, {"a": 2 * traffic.KIB})
    for pair in (
        (first, None),
        (None, first),
        (second, first),
        (first, TrafficLook(1.0, {"a": 9})),
    ):
        assert traffic_delta(*pair) is None
    assert traffic_delta(first, TrafficLook(2.0, {"b": 1})) is None
