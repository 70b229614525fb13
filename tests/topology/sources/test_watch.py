"""Threads that read, and what a hanging or failing one does to the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gputop.topology.model.machine import Gpu
from gputop.topology.model.part import PartialNode
from gputop.topology.model.readings import GpuProcess, GpuReading, GpuUse, ProcessReading
from gputop.topology.model.source import Source, SourceAbsent
from gputop.topology.model.versions import LoadedLibrary, RunningLibrary
from gputop.topology.sources.live import LiveFeed

GPU = Gpu(address="0000:01:00.0", vendor="nvidia", index=0)


def source(
    name: str, read: Callable[[], Any], parse: Callable[[Any], PartialNode], **more: Any
) -> Source:
    return Source(
        id=name,
        interval_seconds=more.get("interval", 0.02),
        deadline_seconds=more.get("deadline", 0.1),
        reader=lambda: read,
        parse=parse,
    )


def until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return False


@pytest.fixture
def feeds() -> Iterator[list[LiveFeed]]:
    opened: list[LiveFeed] = []
    yield opened
    for feed in opened:
        feed.close()


def test_a_hanging_source_delays_only_itself(feeds: list[LiveFeed]) -> None:
    release = threading.Event()
    feed = LiveFeed(
        [
            source("stuck", lambda: release.wait(60), lambda _: PartialNode()),
            source("quick", lambda: {}, lambda _: PartialNode(gpus=(GPU,))),
        ]
    )
    feeds.append(feed)
    assert until(lambda: bool(feed.snapshot().machine.gpus))
    late = {"stuck"}  # on a busy machine the quick one may be late for a moment too
    assert until(
        lambda: late == {p.source for p in feed.snapshot().problems if p.kind == "not answering"}
    )
    started = time.perf_counter()
    feed.snapshot()
    feed.close()
    assert time.perf_counter() - started < 60
    release.set()


def test_a_failing_source_says_so_and_recovers(feeds: list[LiveFeed]) -> None:
    state = {"broken": True}

    def read() -> dict[str, str]:
        if state["broken"]:
            raise RuntimeError("driver said no")
        return {}

    feed = LiveFeed([source("shaky", read, lambda _: PartialNode(gpus=(GPU,)))])
    feeds.append(feed)
    assert until(lambda: any("driver said no" in p.text for p in feed.snapshot().problems))
    state["broken"] = False
    assert until(lambda: bool(feed.snapshot().machine.gpus) and not feed.snapshot().problems)


def test_absence_is_a_kind_of_problem_not_a_failure(feeds: list[LiveFeed]) -> None:
    def read() -> None:
        raise SourceAbsent("no driver here", kind="absent")

    feed = LiveFeed([source("nothing", read, lambda _: PartialNode())])
    feeds.append(feed)
    assert until(lambda: bool(feed.snapshot().problems))
    (problem,) = feed.snapshot().problems
    assert (problem.kind, problem.text) == ("absent", "no driver here")


def test_the_machine_stays_the_same_object_while_only_readings_move(feeds: list[LiveFeed]) -> None:
    ticks = iter(range(1_000_000))

    def readings(_: Any) -> PartialNode:
        return PartialNode(gpu_readings=(GpuReading(address=GPU.address, power_watts=next(ticks)),))

    feed = LiveFeed(
        [
            source("wiring", lambda: {}, lambda _: PartialNode(gpus=(GPU,))),
            source("moving", lambda: {}, readings),
        ]
    )
    feeds.append(feed)
    assert until(lambda: feed.snapshot().readings.gpus != () and feed.snapshot().machine.gpus != ())
    first = feed.snapshot()
    assert until(lambda: feed.snapshot().readings != first.readings)
    assert feed.snapshot().machine is first.machine


def test_an_old_answer_stays_with_its_age_when_the_source_fails_later(
    feeds: list[LiveFeed],
) -> None:
    calls = {"count": 0}

    def read() -> dict[str, str]:
        calls["count"] += 1
        if calls["count"] > 1:
            raise OSError("gone")
        return {}

    feed = LiveFeed([source("once", read, lambda _: PartialNode(gpus=(GPU,)))])
    feeds.append(feed)
    assert until(lambda: bool(feed.snapshot().problems))
    assert feed.snapshot().machine.gpus == (GPU,)
    first = feed.snapshot().states[0].age_seconds
    calls_then = calls["count"]
    assert until(lambda: calls["count"] > calls_then + 2), "it goes on asking"
    assert (feed.snapshot().states[0].age_seconds or 0) > (first or 0), "a failure is no answer"


def test_settled_means_answered_not_merely_late(feeds: list[LiveFeed]) -> None:
    release = threading.Event()
    feed = LiveFeed([source("slow", lambda: release.wait(60), lambda _: PartialNode(gpus=(GPU,)))])
    feeds.append(feed)
    assert until(lambda: any(p.kind == "not answering" for p in feed.snapshot().problems))
    assert not feed.settled(), "a driver that wakes its GPUs is late, and still worth waiting for"
    release.set()
    assert until(feed.settled)
    assert feed.snapshot().machine.gpus == (GPU,)


def test_the_processes_of_the_gpus_are_described_before_all_is_settled(
    feeds: list[LiveFeed],
) -> None:
    """A plain command takes one snapshot: the driver's PIDs come after the first look at none."""

    class Describer:
        pids: frozenset[int] = frozenset()
        with_args = False

        def __call__(self) -> list[int]:
            assert self.with_args or not self.pids
            return sorted(self.pids)

    def readings() -> tuple[GpuReading, ...]:
        time.sleep(0.1)
        users = (GpuProcess(pid=7, kind=GpuUse.COMPUTE),)
        return (GpuReading(address=GPU.address, processes=users),)

    described = Source(
        id="processes",
        interval_seconds=3600.0,
        deadline_seconds=1.0,
        reader=Describer,
        parse=lambda pids: PartialNode(processes=tuple(ProcessReading(pid=pid) for pid in pids)),
    )
    watched = source("nvml_readings", readings, lambda found: PartialNode(gpu_readings=found))
    feed = LiveFeed([described, watched], with_args=True, thorough=True)
    feeds.append(feed)
    assert until(feed.settled)
    assert feed.snapshot().readings.processes == (ProcessReading(pid=7),)


@pytest.mark.parametrize(("gpus", "received"), [((GPU,), []), ((), ["amdsmi"])])
def test_a_driver_whose_maker_has_no_gpu_here_is_no_problem_beside_another(
    feeds: list[LiveFeed], gpus: tuple[Gpu, ...], received: list[str]
) -> None:
    def refuse() -> Any:
        raise SourceAbsent("the Python package amdsmi is not installed")

    feed = LiveFeed(
        [
            source("nvml", lambda: gpus, lambda found: PartialNode(gpus=found)),
            source("amdsmi", refuse, lambda _: PartialNode()),
        ]
    )
    feeds.append(feed)
    assert until(feed.settled)
    feed.snapshot()
    assert [problem.source for problem in feed.snapshot().problems] == received


@pytest.mark.parametrize(
    ("gpus", "interval", "seconds"), [(64, None, 1.0), (65, None, 2.0), (65, 0.5, 0.5)]
)
def test_very_many_gpus_are_read_half_as_often_unless_somebody_says_how_often(
    feeds: list[LiveFeed],
    monkeypatch: pytest.MonkeyPatch,
    gpus: int,
    interval: float | None,
    seconds: float,
) -> None:
    many = tuple(Gpu(address=f"0000:{number:02x}:00.0", vendor="nvidia") for number in range(gpus))
    slept: list[float | None] = []
    wait = threading.Event.wait

    def note(event: threading.Event, timeout: float | None = None) -> bool:
        if threading.current_thread().name == "source many":
            slept.append(timeout)
            timeout = 0.01
        return wait(event, timeout)

    monkeypatch.setattr(threading.Event, "wait", note)
    quick = source("many", lambda: {}, lambda _: PartialNode(gpus=many), interval=1.0)
    feed = LiveFeed([quick], interval=interval)
    feeds.append(feed)
    assert until(lambda: len(feed.snapshot().machine.gpus) == gpus)
    slept.clear()
    assert until(lambda: len(slept) > 1)
    assert slept[-1] == seconds


def test_processes_are_described_though_the_driver_answers_before_their_source_is_there(
    feeds: list[LiveFeed],
) -> None:
    answered = threading.Event()
    gpu = GpuReading(address=GPU.address, processes=(GpuProcess(pid=7, kind=GpuUse.COMPUTE),))

    class Describer:
        pids: frozenset[int] = frozenset()

        def __call__(self) -> list[int]:
            return sorted(self.pids)

    class Late(list[Source]):
        """The second source takes its time to be imported."""

        def __iter__(self) -> Iterator[Source]:
            yield source("x_readings", lambda: {}, driver, interval=600.0)
            assert answered.wait(60)
            time.sleep(0.01)
            yield Source(
                id="processes",
                interval_seconds=600.0,
                deadline_seconds=1.0,
                reader=Describer,
                parse=lambda pids: PartialNode(
                    processes=tuple(ProcessReading(pid=pid) for pid in pids)
                ),
            )

    def driver(_: Any) -> PartialNode:
        answered.set()
        return PartialNode(gpus=(GPU,), gpu_readings=(gpu,))

    feed = LiveFeed(Late())
    feeds.append(feed)
    assert until(lambda: bool(feed.snapshot().readings.processes))


def test_a_loaded_library_makes_no_new_machine_of_an_equal_one(feeds: list[LiveFeed]) -> None:
    library, turn = LoadedLibrary(path="/w/libnccl.so.2", version="2.30.7"), iter(range(10**6))

    def described(_: object) -> PartialNode:
        one = ProcessReading(pid=7, job="torchrun a", memory_bytes=next(turn), library=library)
        return PartialNode(processes=(one,))

    feed = LiveFeed(
        [
            source("machine", lambda: {}, lambda _: PartialNode(gpus=(GPU,))),
            source("processes", lambda: {}, described),
        ]
    )
    feeds.append(feed)
    assert until(lambda: feed.snapshot().machine.software is not None)
    assert until(lambda: bool(feed.snapshot().machine.gpus))
    before = feed.snapshot()
    assert until(lambda: feed.snapshot().readings != before.readings)
    assert feed.snapshot().machine is before.machine
    assert before.machine.software is not None
    assert before.machine.software.running == (
        RunningLibrary(path="/w/libnccl.so.2", version="2.30.7", job_names=("torchrun a",)),
    )
