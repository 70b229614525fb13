"""How one communicator stands, by one answer and by two, at its borders."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from gputop.topology.jobs.ras.answer import MissingRank, RasCommunicator, RasRank
from gputop.topology.jobs.ras.comparing import _function, _still, communicator_state
from gputop.topology.jobs.waiting import _whose


def of(*counts: dict[str, int], lost: bool = False, marks: tuple[str, ...] = ()) -> RasCommunicator:
    ranks = tuple(RasRank(rank=n, counts=tuple(own.items())) for n, own in enumerate(counts))
    gone = (MissingRank(rank=7, unresponsive=True),) * lost
    return RasCommunicator(name="0x1", size=8, ranks=ranks, missing=gone, marks=marks)


ALL = {"AllReduce": 4}


def test_the_collective_that_is_spoken_of_is_the_one_that_ranks_differ_in_or_the_only_one() -> None:
    for extremes, said in (
        ({}, None),
        ({"A": (0, 0)}, None),
        ({"A": (3, 3)}, "A"),
        ({"A": (3, 3), "B": (0, 0)}, "A"),
        ({"A": (3, 3), "B": (1, 1)}, None),
        ({"A": (3, 3), "B": (2, 1)}, "B"),
        ({"A": (0, 0), "B": (1, 0), "C": (2, 1)}, "B"),
    ):
        assert _function(extremes) == said, extremes


def test_a_rank_that_stops_to_answer_launched_nothing_by_that() -> None:
    three, two = of(ALL, ALL, ALL), of(ALL, ALL, lost=True)
    assert _still(two, three) is True
    assert _still(three, two) is True
    assert _still(of({"AllReduce": 5}, ALL, lost=True), three) is False


def test_an_answer_that_contradicts_itself_shows_no_progress() -> None:
    twice = replace(of(ALL, ALL), ranks=(*of(ALL).ranks, *of({"AllReduce": 5}).ranks))
    assert _still(twice, of(ALL, ALL)) is None
    assert _still(of(ALL, ALL), twice) is None


def test_whether_anything_was_launched_between_two_answers() -> None:
    for now, before, still in (
        (of(ALL), of(ALL), True),
        (of({"AllReduce": 5}), of(ALL), False),
        # A text counts only where ranks differ.
        (of({}), of({}), None),
        (of(ALL), of({}), False),
        (of({}), of(ALL), False),
        (of(ALL, lost=True), of({}), None),
        (of(ALL), of({}, lost=True), None),
        (of(ALL, marks=("INCOMPLETE",)), of({}), None),
        (of(ALL, marks=("MISMATCH",)), of({}), False),
    ):
        assert _still(now, before) is still, (now, before)


def test_whose_collective_ranks_wait_in() -> None:
    for size, groups, world, said in (
        (8, [("default group", 8)], None, " of the default group"),
        (8, [("default group", 8)], 8, " of the default group"),
        (8, [], 8, ""),
        (8, [], None, " of the communicator of 8 ranks"),
        (8, [("default group", 16)], 16, " of the communicator of 8 ranks"),
        (8, [("group tp", 8)], None, " of the communicator of 8 ranks"),
        (1, [], None, " of the communicator of 1 rank"),
    ):
        job: Any = SimpleNamespace(
            groups=[SimpleNamespace(name=name, size=ranks) for name, ranks in groups], world=world
        )
        state: Any = SimpleNamespace(communicator=SimpleNamespace(size=size))
        assert _whose(state, job) == said, (size, groups, world)


def test_who_is_ahead_and_who_is_behind() -> None:
    state = communicator_state(of({"AllReduce": 4}, {"AllReduce": 6}, {"AllReduce": 3}, {}))
    assert (state.top, state.blocked, state.slowest_ahead, state.reach) == (6, 4, 4, "4 to 6")
    assert [rank.rank for rank in state.ahead] == [0, 1]
    assert [rank.rank for rank in state.behind] == [2]
    even = communicator_state(of(ALL, ALL))
    assert (even.top, even.blocked, even.behind_count, even.ahead_count) == (4, 4, 0, 2)
