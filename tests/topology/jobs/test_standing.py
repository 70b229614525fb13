"""Where a job stands, by made-up readings of /proc, RAS and dumps of a demo's six ranks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gputop.topology.jobs.activity import Activity
from gputop.topology.jobs.asking import answer
from gputop.topology.jobs.flight.dump import parse as parse_dump
from gputop.topology.jobs.flight.files import FoundDumps
from gputop.topology.jobs.from_files import of_files
from gputop.topology.jobs.next_steps import steps_of
from gputop.topology.jobs.ras.answer import parse
from gputop.topology.jobs.ras.client import RasReply
from gputop.topology.jobs.ras.comparing import communicator_states
from gputop.topology.jobs.ras.places import place
from gputop.topology.jobs.standing import (
    JobState,
    KnownBy,
    RankState,
    RankTrouble,
    TroubleKind,
    job_finding,
)
from gputop.topology.jobs.waiting import need_not_wait
from gputop.topology.model.readings import ProcessState
from gputop.topology.model.severity import NOTICE, SLOW, JobVerdict
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.versions import LoadedLibrary
from gputop.topology.recorded.feeds import DemoFeed
from tests.topology.jobs.flight.test_compare import dumped, entry
from tests.topology.jobs.ras.service import document, missing, rank

PIDS = tuple(range(41000, 41006))


@pytest.fixture(scope="module")
def snapshot() -> NodeSnapshot:
    return DemoFeed("hgx-h100-8", version="test").at(0)


def activities(**states: str) -> dict[int, Activity]:
    """Six running processes of train.py, but for those named by `p41002="stopped"`."""
    found = {}
    for pid in PIDS:
        state = ProcessState(states.get(f"p{pid}", "running"))
        found[pid] = Activity(
            pid=pid,
            seconds=0.4,
            states=(state, state),
            user_cores=0.0 if state == "stopped" else 1.0,
            program="train.py",
            variables=(),
        )
    return found


def asked(first: bytes, second: bytes | None = None) -> Any:
    here = place("localhost:28028")
    replies = [RasReply(place=here, answers=(parse(data),)) for data in (first, second or first)]
    return communicator_states([replies[1]], [replies[0]])


def counts(*launched: int, lost: tuple[dict[str, Any], ...] = ()) -> bytes:
    gone = {each["rank"] for each in lost}
    left = [number for number in range(6) if number not in gone]
    ranks = [rank(n, PIDS[n], count) for n, count in zip(left, launched, strict=True)]
    return document(ranks, lost)


def told(snapshot: NodeSnapshot, found: dict[int, Activity], ras: Any, **more: Any) -> JobState:
    (job,) = answer(snapshot, found, ras, asked=bool(ras), **more).jobs
    return job


def test_a_stopped_rank_is_named_and_those_that_wait_are_counted(snapshot: NodeSnapshot) -> None:
    ras = asked(counts(*[1042] * 5, lost=(missing(2, 41002),)))
    job = told(snapshot, activities(p41002="stopped"), ras)
    assert job.sentence == (
        "train.py: 6 ranks, 5 wait in all-reduce 1042, rank 2 (pid 41002, GPU2) is stopped (T)"
    )
    assert job.verdict == JobVerdict.HANGS
    assert [finding.sources for finding in job.findings[:2]] == [("/proc",), ("RAS",)]
    assert "kill -CONT 41002" in job.steps


@pytest.mark.parametrize("first_busy", [0.0, None])
def test_ranks_wait_though_a_gpu_idles_on_which_they_have_contexts_too(
    snapshot: NodeSnapshot, first_busy: float | None
) -> None:
    """Programs make them on the first GPU by mistake: its share proves nothing of the others'."""
    busy = 100.0 if first_busy is not None else 0.0
    first, *others = snapshot.readings.gpus
    strangers = [user for gpu in others for user in gpu.processes or ()]
    first = replace(
        first, utilization_percent=first_busy, processes=(*(first.processes or ()), *strangers)
    )
    others = [replace(gpu, utilization_percent=busy) for gpu in others]
    node = replace(snapshot, readings=replace(snapshot.readings, gpus=(first, *others)))
    job = told(node, activities(), asked(counts(*[7] * 5, lost=(missing(0, PIDS[0]),))))
    assert job.verdict == JobVerdict.HANGS
    assert "5 wait in all-reduce 7, rank 0 (pid 41000, GPU0)" in job.sentence


def test_a_stopped_rank_without_ras_is_a_fault_and_the_rest_is_unknown(
    snapshot: NodeSnapshot,
) -> None:
    job = told(snapshot, activities(p41002="stopped"), ())
    assert job.verdict == JobVerdict.FAULTY
    assert "is stopped (T); what the others are in is not known: RAS was not asked" in job.sentence


def test_a_rank_that_a_debugger_holds_is_not_sent_a_signal(snapshot: NodeSnapshot) -> None:
    job = told(snapshot, activities(p41002="traced"), asked(counts(7, 7, 6, 7, 7, 7)))
    assert job.sentence.endswith(
        "5 wait in all-reduce 7, rank 2 (pid 41002, GPU2) is stopped by a debugger or another "
        "tracer (t)"
    )
    assert job.steps[0] == "grep TracerPid /proc/41002/status"
    assert not any("CONT" in step for step in job.steps)


def test_a_rank_that_loops_before_its_collective(snapshot: NodeSnapshot) -> None:
    alone = {
        pid: msgspec.structs.replace(one, user_cores=1.0 if pid == PIDS[1] else 0.3)
        for pid, one in activities().items()
    }
    job = told(snapshot, alone, asked(counts(7, 6, 7, 7, 7, 7)))
    assert job.verdict == JobVerdict.WAITS
    assert "5 wait in all-reduce 7" in job.sentence
    assert (
        "rank 1 (pid 41001, GPU1) has not launched it (its last all-reduce was 6)" in job.sentence
    )
    assert "100 % of a core" in job.sentence
    alike = told(snapshot, activities(), asked(counts(7, 6, 7, 7, 7, 7)))
    assert "of a core" not in alike.sentence, "those that wait use one too"
    assert job.steps[0] == "py-spy dump --pid 41001"


def test_ranks_a_step_apart_in_a_job_that_runs_are_nothing(snapshot: NodeSnapshot) -> None:
    job = told(snapshot, activities(), asked(counts(7, 6, 7, 7, 7, 7), counts(9, 9, 9, 8, 9, 9)))
    assert job.verdict == JobVerdict.RUNS
    assert job.sentence == "train.py: 6 ranks, runs: collectives are launched: all-reduce 7 to 9"
    assert not [each for each in job.ranks if each.trouble]


def test_one_answer_alone_does_not_prove_that_a_rank_is_behind(snapshot: NodeSnapshot) -> None:
    reply = RasReply(place=place("localhost:1"), answers=(parse(counts(7, 6, 7, 7, 7, 7)),))
    job = told(snapshot, activities(), communicator_states([reply]))
    assert job.verdict == JobVerdict.UNKNOWN
    assert not [each for each in job.ranks if each.trouble]


def test_equal_counts_that_stand_still_prove_neither_a_hang_nor_health(
    snapshot: NodeSnapshot,
) -> None:
    job = told(snapshot, activities(), asked(counts(*[7] * 6)))
    assert job.verdict == JobVerdict.UNKNOWN
    assert "whether they compute or wait is not known" in job.sentence


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (missing(5, 77), "rank 5 (pid 77, GPU5) does not answer RAS"),
        (missing(5, 77, dead=True), "is given up by RAS"),
    ],
)
def test_ranks_of_which_ras_has_no_data(
    snapshot: NodeSnapshot, lost: dict[str, Any], said: str
) -> None:
    job = told(snapshot, activities(), asked(counts(*[7] * 5, lost=(lost,))))
    assert said in job.sentence
    assert job.verdict == JobVerdict.HANGS


def test_a_rank_that_aborted(snapshot: NodeSnapshot) -> None:
    ranks = [rank(n, PIDS[n], 7, abort=n == 3) for n in range(6)]
    job = told(snapshot, activities(), asked(document(ranks)))
    assert "rank 3 (pid 41003, GPU3) has aborted its communicator" in job.sentence


def test_nothing_known_is_unknown_and_never_fine(snapshot: NodeSnapshot) -> None:
    job = told(snapshot, {}, (), recorded=True)
    assert job.verdict == JobVerdict.UNKNOWN
    assert "not known" in job.sentence
    assert job.unknown


def test_dumps_name_the_rank_and_its_line(snapshot: NodeSnapshot) -> None:
    ahead, late = dumped(entry(1), entry(2, state="started")), dumped(entry(1))
    dumps = FoundDumps(
        dumps=(parse_dump(ahead, "d_0"), parse_dump(ahead, "d_1"), parse_dump(late, "d_2"))
    )
    (job,) = of_files(None, dumps).jobs
    assert job.sentence == (
        "flight recorder: 3 ranks, 2 wait in all-reduce 2 of the default group, "
        "rank 2 had not entered it (its last was all-reduce 1 at train.py:21)"
    )
    here = told(snapshot, activities(), (), dumps=dumps)
    assert "rank 2 (pid 41002, GPU2) had not entered it" in here.sentence


def test_dumps_with_other_sizes(snapshot: NodeSnapshot) -> None:
    sides = [dumped(entry(1, size=size, state="started")) for size in (4, 5)]
    dumps = FoundDumps(dumps=tuple(parse_dump(side, f"d_{n}") for n, side in enumerate(sides)))
    (job,) = of_files(None, dumps).jobs
    assert "collective 1 has other sizes on some ranks: 4 on rank 0; 5 on rank 1" in job.sentence
    assert job.verdict == JobVerdict.HANGS


def test_a_dump_of_a_moment_ago_accuses_nobody_while_collectives_are_launched(
    snapshot: NodeSnapshot,
) -> None:
    found = FoundDumps(
        dumps=tuple(
            parse_dump(dumped(entry(1), *late), f"d_{number}")
            for number, late in ((0, [entry(2, state="started")]), (1, []))
        )
    )
    ras = asked(counts(*[7] * 6), counts(*[9] * 6))
    job = told(snapshot, activities(), ras, dumps=found)
    assert job.verdict == JobVerdict.RUNS
    assert not any(rank.trouble for rank in job.ranks)
    still = told(snapshot, activities(), (), dumps=found)
    assert still.verdict == JobVerdict.HANGS


def test_dumps_of_a_moment_after_a_collective_began_say_that_waiting_is_not_known() -> None:
    began = entry(2, state="started", time_created_ns=50 * 10**9)
    dumps = tuple(parse_dump(dumped(began), f"d_{number}", 52.0) for number in (0, 1))
    (job,) = of_files(None, FoundDumps(dumps=dumps)).jobs
    assert job.verdict == JobVerdict.UNKNOWN
    assert "2 in a collective entered less than 15 s before the dump" in job.sentence


def test_a_communicator_whose_processes_the_driver_does_not_list(snapshot: NodeSnapshot) -> None:
    alone = document([rank(0, 7, 5), rank(1, 8, 4)])
    jobs = answer(snapshot, activities(), asked(alone), asked=True).jobs
    assert len(jobs) == 2
    assert "1 waits in all-reduce 5" in jobs[0].sentence


def test_bound_to_one_core_and_the_innocent_twins(snapshot: NodeSnapshot) -> None:
    def bound(*sets: str) -> list[str]:
        processes = tuple(
            replace(each, cpu_affinity=cpus)
            for each, cpus in zip(snapshot.readings.processes, sets, strict=True)
        )
        readings = replace(snapshot.readings, processes=processes)
        job = told(replace(snapshot, readings=readings), activities(), ())
        return [fact.title for fact in job.findings if "bound to CPU" in fact.title]

    assert "rank 0 (pid 41000, GPU0) and rank 1" in bound("0", "0", "2", "3", "4", "5")[0]
    assert bound("0", "1", "2", "3", "4", "5") == []
    assert bound(*["0-7"] * 6) == []
    assert bound("0", "56", "1", "57", "2", "58") == []


def test_what_the_ranks_were_given_stands_in_the_sentence_where_no_rank_stands_out(
    snapshot: NodeSnapshot,
) -> None:
    processes = tuple(replace(each, cpu_affinity="0") for each in snapshot.readings.processes)
    readings = replace(snapshot.readings, processes=processes)
    bound = replace(snapshot, readings=readings)
    job = told(bound, activities(), ())
    assert job.verdict == JobVerdict.FAULTY
    assert job.sentence.startswith(
        "train.py: 6 ranks, all are bound to CPU 0, fewer CPUs than ranks; none is known to be"
    )
    runs = told(bound, activities(), asked(counts(*[7] * 6), counts(*[9] * 6)))
    assert runs.verdict == JobVerdict.RUNS
    assert runs.sentence.endswith(
        "all-reduce 7 to 9; but all are bound to CPU 0, fewer CPUs than ranks"
    )
    stopped = told(bound, activities(p41002="stopped"), ())
    assert "bound to CPU" not in stopped.sentence


@pytest.mark.parametrize(
    ("versions", "text", "weight"),
    [
        (("2.28.9",) * 6, "its ranks have loaded NCCL 2.28.9 (/w/libnccl.so.2)", "notice"),
        (
            ("2.30.7",) * 6,
            "its ranks have loaded NCCL 2.30.7 (/w/libnccl.so.2); what is predicted of it follows "
            "that, of the node 2.28.9",
            "notice",
        ),
        ((None,) * 6, "its ranks have loaded NCCL of unknown version (/w/libnccl.so.2)", "notice"),
        (
            ("2.30.7",) + ("2.28.9",) * 5,
            "ranks have loaded different NCCLs: rank 0 (pid 41000, GPU0): 2.30.7 (/w/libnccl.so.2)",
            "broken",
        ),
    ],
)
def test_the_library_that_ranks_have_loaded(
    snapshot: NodeSnapshot, versions: tuple[str | None, ...], text: str, weight: str
) -> None:
    processes = tuple(
        replace(process, library=LoadedLibrary(path="/w/libnccl.so.2", version=version))
        for process, version in zip(snapshot.readings.processes, versions, strict=True)
    )
    here = replace(snapshot, readings=replace(snapshot.readings, processes=processes))
    (fact,) = (f for f in told(here, activities(), ()).findings if " loaded " in f.title)
    assert fact.title.startswith(text)
    assert (fact.severity, fact.sources) == (weight, ("/proc",))


def test_no_library_is_named_where_no_map_was_read(snapshot: NodeSnapshot) -> None:
    assert not any(" loaded " in fact.title for fact in told(snapshot, activities(), ()).findings)


@pytest.mark.parametrize(
    ("host", "place"),
    [("node7", "node7"), (None, "its machine"), ("", "its machine"), ("a;reboot", "its machine")],
)
def test_a_host_that_may_not_stand_in_a_line_to_copy_is_not_named(
    host: str | None, place: str
) -> None:
    far = RankState(
        rank=3, pid=None, elsewhere=(host, 4711), trouble=RankTrouble("is gone", KnownBy.RAS)
    )
    (step,) = steps_of([far], JobVerdict.HANGS)
    assert step == f"py-spy dump --pid 4711  # at {place}"


@pytest.mark.parametrize(
    ("shares", "free"),
    [
        ((58.0, 3.0), True),
        ((100.0, 3.0), False),
        ((3.0, None), False),  # of one nobody knows whether it waits
        ((None, None), False),
        ((), False),
    ],
)
def test_only_gpus_that_are_all_known_not_to_be_busy_need_not_wait(
    shares: tuple[float | None, ...], free: bool
) -> None:
    ranks = [
        RankState(rank=at, pid=100 + at, busiest_percent=share) for at, share in enumerate(shares)
    ]
    state: Any = SimpleNamespace(ahead=ranks)
    assert bool(need_not_wait(state, ranks)) is free


def test_accused_are_the_ranks_with_a_trouble_else_those_that_a_harmful_finding_names() -> None:
    troubles: dict[int, Any] = {
        0: None,
        1: TroubleKind.LEFT,
        2: TroubleKind.CAUSE,
        3: TroubleKind.BEHIND,
    }
    ranks = tuple(
        RankState(rank=number, pid=number, trouble=kind and RankTrouble("is", KnownBy.PROC, kind))
        for number, kind in troubles.items()
    )
    named = (
        job_finding("late", "is late", KnownBy.PROC, SLOW, ranks=[1]),
        job_finding("told", "is told", KnownBy.PROC, NOTICE, ranks=[0]),
    )
    job = JobState(
        name="j", program="p", sentence="s", verdict=JobVerdict.WAITS, ranks=ranks, findings=named
    )
    assert [state.rank for state in job.accused] == [2, 3]
    assert [state.rank for state in replace(job, ranks=ranks[:2]).accused] == [1]
