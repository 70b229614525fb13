"""Whose processes RAS names: by address and PID, which equal containers share."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.jobs.ras.answer import RasAnswer, parse
from gputop.topology.jobs.ras.homes import CONTAINER, Local, locals_of, settled
from gputop.topology.model.readings import ProcessReading
from gputop.topology.sources.files.tree import FolderTree
from tests.topology.jobs.ras.service import document, missing, rank

BARE = (Local(171, (171,), 0, 4), Local(172, (172,), 1, 4))
INSIDE = (Local(90171, (90171, 171), 0, 4), Local(90172, (90172, 172), 1, 4))


def told(here: tuple[Local, ...], hosts: tuple[str, str] = ("10.0.0.1", "10.0.0.2")) -> RasAnswer:
    """Two ranks on each of two hosts, with equal PIDs: the first is ours; the last rank is lost."""
    ranks = [rank(0, 171, 7), rank(1, 172, 7), rank(2, 171, 7)]
    every = [*ranks, missing(3, 172)]
    for number, each in enumerate(every):
        each["host"] = hosts[number // 2]
    answer = parse(document(ranks, every[3:]))
    return settled(answer, here, lambda host: host == "10.0.0.1")


def test_a_process_of_another_machine_is_none_here_though_its_pid_is() -> None:
    (found,) = told(BARE).communicators
    assert [each.local_pid for each in found.ranks] == [171, 172, None]
    assert found.missing[0].local_pid is None
    assert found.missing[0].process_key == ("10.0.0.2 GPU3", 172)
    assert told(BARE).pids == {171, 172}


def test_pids_of_a_container_become_ours() -> None:
    (found,) = told(INSIDE).communicators
    assert [each.local_pid for each in found.ranks] == [90171, 90172, None]


def test_a_process_in_a_container_that_holds_no_gpu_is_not_looked_up_by_its_number() -> None:
    (found,) = told(INSIDE[:1]).communicators
    assert (found.ranks[1].local_pid, found.ranks[1].host) == (None, CONTAINER)
    (bare,) = told(BARE[:1]).communicators
    assert bare.ranks[1].local_pid == 172


def test_of_two_containers_with_one_pid_the_rank_tells() -> None:
    twins = (Local(90001, (90001, 171), 0, 4), Local(90002, (90002, 171), 2, 4))
    (found,) = told(twins, ("10.0.0.1", "10.0.0.1")).communicators
    assert [each.local_pid for each in found.ranks] == [90001, None, 90002]
    other = tuple(Local(each.pid, each.inner, each.rank, 8) for each in twins)
    assert told(other).communicators[0].ranks[0].local_pid is None


@pytest.mark.parametrize(("world", "here"), [(4, 171), (8, None)])
def test_a_link_local_address_is_ours_where_a_rank_proves_it(world: int, here: int | None) -> None:
    mine = (Local(171, (171,), 0, world),)
    (found,) = told(mine, ("fe80::1", "fe80::2")).communicators
    assert [each.local_pid for each in found.ranks] == [here, None, None]


def test_nspid_is_read_and_a_broken_one_is_none(tmp_path: Path) -> None:
    texts = {1: "Name:\tx\nNSpid:\t1\t55\n", 2: "NSpid:\tx\n", 3: "Name:\tx\n"}
    for pid, text in texts.items():
        folder = tmp_path / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "status").write_text(text)
    users = [ProcessReading(pid=pid) for pid in (1, 2, 3, 4)]
    found = locals_of(FolderTree(tmp_path), users)
    assert [each.inner for each in found] == [(1, 55), (), (), ()]
    assert [each.own for each in found] == [55, 2, 3, 4]
