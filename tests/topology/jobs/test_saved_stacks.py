"""Stacks that somebody kept, alone and beside what tells whose they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gputop.answers.jobs import JobsRequest, answer
from gputop.topology.jobs.saved_stacks import named, stacks_in
from gputop.topology.model.severity import JobVerdict
from tests.support.places import RECORDINGS

ALONE = """Process {pid}: python3 -u job.py
Python v3.12.3 (/usr/bin/python3.12)

Thread {pid} (idle): "MainThread"
    {name} ({file})
    step (job.py:71)
    main (job.py:279)
"""
WAITS, LOADS = ("synchronize", "torch/cuda/__init__.py:1162"), ("__next__", "data/loader.py:701")


def dumped(*stacks: tuple[int, tuple[str, str]]) -> str:
    return "".join(ALONE.format(pid=pid, name=name, file=file) for pid, (name, file) in stacks)


@pytest.mark.parametrize(
    ("folder", "pids"),
    [("inspector-h200x2/loader30", (1265, 1266)), ("saved-h200x2/loader30", (2752, 2753))],
)
def test_a_stack_beside_records_or_a_node_is_that_of_its_rank(
    folder: str, pids: tuple[int, int], tmp_path: Path
) -> None:
    """The records leave open what the late program does; its stack says it."""
    shutil.copytree(RECORDINGS / folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "stacks.txt").write_text(dumped((pids[0], WAITS), (pids[1], LOADS)))
    told = answer(JobsRequest(sources=(str(tmp_path),)))
    (job,) = told.report.jobs
    assert job.verdict is JobVerdict.SLOW
    assert any(line.startswith("what rank 1's program does before") for line in job.unknown)
    assert isinstance(told.stacks, tuple)
    (groups,) = told.stacks
    assert {(group.ranks, group.at and group.at.name) for group in groups} == {
        ((0,), "synchronize"),
        ((1,), "__next__"),
    }


def test_stacks_alone_are_no_verdict_and_the_odd_one_is_said(tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    path.write_text(dumped(*((100 + at, LOADS if at == 3 else WAITS) for at in range(8))))
    told = answer(JobsRequest(sources=(str(path),)))
    (job,) = told.report.jobs
    assert job.verdict is JobVerdict.UNKNOWN
    assert "8 processes in 2 places; pid 103: __next__" in job.sentence
    assert isinstance(told.stacks, tuple)
    assert [len(group.pids) for group in told.stacks[0]] == [1, 7]


def test_of_a_process_that_was_dumped_twice_the_last_stack_counts(tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    path.write_text(dumped((7, WAITS), (7, LOADS)))
    ((one,), others) = named([str(path)])
    assert one.frames[0].name == "__next__"
    assert others == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Process 7: ",
        "Process 7: python\nnothing else",
        "n1:7:9 [0] NCCL INFO Bootstrap\n" + dumped((7, WAITS)),  # a log that quotes a stack
        "Process 99999999999: x\nPython v3\n",
    ],
)
def test_other_texts_are_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text(text)
    assert named([str(path)]) == ((), (str(path),))


def test_a_dump_without_a_stack_says_so() -> None:
    (one,) = stacks_in("Process 7: python3\nPython v3.12.3 (x)\n\nError: no such process\n")
    assert one.trouble is not None
