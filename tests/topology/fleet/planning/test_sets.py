"""Faults that larger jobs alone show: sets that grow, then are split."""

from __future__ import annotations

import pytest

from gputop.topology.fleet.planning.looks import FINISHED, LATE, NetFlow, NetLook
from gputop.topology.fleet.planning.sets import SetRound, _split, next_sets

HOSTS = [f"g{number:03}" for number in range(100)]


def run(sick: dict[str, int], rounds: int = 30) -> tuple[SetRound, int]:
    """What the rounds end in where these hosts slow sets of so many nodes and more."""
    looks: list[NetLook] = []
    for number in range(1, rounds):
        answer = next_sets(looks, HOSTS)
        if not answer.sets:
            return answer, number
        for one in answer.sets:
            slow = any(host in sick and len(one) >= sick[host] for host in one)
            flow = NetFlow(what="all_reduce", gbs=150.0 if slow else 350.0)
            looks.append(NetLook(hosts=one, status=FINISHED, round=number, results=(flow,)))
    raise AssertionError("no end")


@pytest.mark.parametrize("size", [3, 16, 17, 40, 64, 75])
@pytest.mark.parametrize("host", ["g000", "g051", "g099"])
def test_the_node_is_found_whatever_size_shows_it(host: str, size: int) -> None:
    answer, _ = run({host: size})
    assert [culprit.hosts for culprit in answer.culprits] == [(host,)]


def test_nothing_wrong_ends_after_the_largest_set() -> None:
    answer, rounds = run({})
    assert answer == SetRound()
    assert rounds == 3


def test_what_only_all_nodes_together_show_stays_open() -> None:
    answer, _ = run({"g007": 100})
    assert answer.culprits == ()
    assert "too few others" in answer.stuck


def test_two_faults_accuse_no_healthy_node() -> None:
    answer, _ = run({"g007": 16, "g050": 16})
    assert {culprit.hosts[0] for culprit in answer.culprits} <= {"g007", "g050"}
    assert answer.culprits


def test_a_set_that_hangs_is_bad() -> None:
    sets = next_sets([], HOSTS).sets
    flow = NetFlow(what="all_reduce", gbs=350.0)
    looks = [NetLook(hosts=one, status=FINISHED, round=1, results=(flow,)) for one in sets[1:]]
    looks.append(NetLook(hosts=sets[0], status=LATE, round=1))
    assert set(next_sets(looks, HOSTS).candidates) == set(sets[0])


def test_candidates_are_parted_into_sets_of_one_size() -> None:
    for candidates, fillers, size, sets, left in (
        ("", "xyz", 2, [], "xyz"),
        ("a", "", 2, [], ""),
        ("a", "x", 2, ["ax"], ""),
        ("a", "xyz", 2, ["ax"], "yz"),
        ("ab", "x", 2, ["ax"], ""),
        ("ab", "xy", 2, ["ax", "by"], ""),
        ("abcd", "xyz", 4, ["abxy"], "z"),
        ("abcd", "", 4, [], ""),
        ("abcd", "wxyz", 4, ["acwx", "bdyz"], ""),
    ):
        found, rest = _split(list(candidates), list(fillers), size)
        assert (["".join(one) for one in found], "".join(rest)) == (sets, left), (candidates, size)
