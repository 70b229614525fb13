"""Stacks of ranks, as py-spy prints them, by a stand-in for py-spy."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest

from gputop.topology.jobs.stacks import (
    DENIED,
    ENDED,
    MOST_RANKS,
    NOT_THERE,
    ODD,
    RankStack,
    frames_of,
    grouped,
    in_words,
    stacks,
)

WAITING = """Process 3561: python3 -u train.py
Python v3.12.3 (/usr/bin/python3.12)

Thread 3561 (active): "MainThread"
    synchronize (torch/cuda/__init__.py:1162)
    step (train.py:79)
    <module> (train.py:279)
Thread 4205 (idle)
Thread 4206 (idle): "Thread-1"
    wait (threading.py:331)
"""
LOADING = """Thread 41003 (idle): "MainThread"
    __next__ (torch/utils/data/dataloader.py:701)
    step (train.py:71)
"""


def said(texts: dict[int, str | tuple[int, str] | Exception]) -> list[str]:
    def run(command: Sequence[str], seconds: float) -> tuple[int, str, str]:
        assert list(command[1:4]) == ["dump", "--nonblocking", "--pid"]
        answer = texts[int(command[4])]
        if isinstance(answer, Exception):
            raise answer
        return (0, answer, "") if isinstance(answer, str) else (answer[0], "", answer[1])

    ranks = [(at, pid) for at, pid in enumerate(texts)]
    return [in_words(group) for group in grouped(stacks(ranks, run, "/usr/bin/py-spy"))]


def test_only_the_main_thread_is_read() -> None:
    assert [frame.name for frame in frames_of(WAITING)] == ["synchronize", "step", "<module>"]


NAMELESS = """Process 3561: python3 rank.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 3561 (idle)
    load (rank.py:3)
    <module> (rank.py:6)
"""
"""As py-spy 0.4.3 printed it of a program that never imported `threading`."""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (NAMELESS, ["load", "<module>"]),
        (NAMELESS.replace("Thread 3561", "Thread 0x7F11"), ["load", "<module>"]),
        (NAMELESS + "Thread 3600 (idle)\n    wait (threading.py:331)\n", ["load", "<module>"]),
        ("Thread 3600 (idle)\n    wait (threading.py:331)\n" + NAMELESS, ["load", "<module>"]),
        (NAMELESS.replace("3561 (", "9 (") + "Thread 3600 (idle)\n    wait (a.py:3)\n", []),
        (NAMELESS.replace("(idle)", '(idle): "worker"'), []),
        (NAMELESS.replace("(idle)", '(idle): "worker"') + LOADING, ["__next__", "step"]),
    ],
)
def test_a_main_thread_without_a_name_is_that_of_the_process(text: str, names: list[str]) -> None:
    assert [frame.name for frame in frames_of(text, 3561)] == names


BACKWARD = """Process 42: python3 fine_tune.py
Thread 42 (idle): "MainThread"
    backward (torch/autograd/__init__.py:266)
    training_loop (fine_tune.py:410)
Thread 928 (idle): "Thread-1"
    wait (threading.py:324)
    run (tqdm/_monitor.py:60)
    _bootstrap_inner (threading.py:1016)
    _bootstrap (threading.py:973)
Thread 4076 (idle)
Thread 4079 (active)
    all_gather_into_tensor (torch/distributed/distributed_c10d.py:2709)
    hook (stage3.py:30)
"""


@pytest.mark.parametrize(
    ("text", "innermost"),
    [
        (BACKWARD, "all_gather_into_tensor"),
        (BACKWARD.replace("torch/autograd/", "mine/"), "backward"),
        (BACKWARD.partition("Thread 4076")[0], "backward"),
        (
            BACKWARD + "Thread 5 (active)\n    hook (a.py:3)\n",
            "backward",
        ),  # which one, is not known
    ],
)
def test_a_backward_pass_is_where_its_own_thread_is(text: str, innermost: str) -> None:
    frames = frames_of(text, 42)
    assert frames[0].name == innermost
    assert frames[-1].name == "training_loop"


def test_processes_without_a_rank_are_counted() -> None:
    group = grouped(RankStack(rank=None, pid=100 + at, trouble=ENDED) for at in range(64))
    assert in_words(group[0]).startswith("pid 100, 101, 102, 103, 104, 105, 106, 107 and 56 more:")


@pytest.mark.parametrize("count", [2, 8, 64])
def test_the_odd_rank_comes_first(count: int) -> None:
    found = said({100 + at: LOADING if at == 1 else WAITING for at in range(count)})
    assert len(found) == 2
    assert (
        "rank 1: __next__ (torch/utils/data/dataloader.py:701), called at train.py:71 in step"
    ) in found
    if count > 2:
        assert found[0].startswith("rank 1: ")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((1, "Error: Permission Denied: Try running again with elevated permissions"), DENIED),
        ((1, "Error: Failed to open process 7\nReason: No such file or directory"), ENDED),
        ((1, ""), ODD),
        ("no thread at all", ODD),
        (subprocess.TimeoutExpired("py-spy", 5.0), "longer than 5 s"),
        (OSError(8, "Exec format error"), "cannot be started: Exec format error"),
        ((1, "\x1b[31mboom"), "boom"),
    ],
)
def test_a_rank_without_a_stack_says_why_in_one_line(
    answer: str | tuple[int, str] | Exception, why: str
) -> None:
    others, alone = said({1: WAITING, 2: WAITING, 3: answer})
    assert others.startswith("ranks 0 and 1: synchronize")
    assert alone.startswith("rank 2: ")
    assert why in alone
    assert "\n" not in alone


def test_without_py_spy_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    (group,) = grouped(stacks([(0, 7), (1, 8)]))
    assert in_words(group) == f"ranks 0 and 1: {NOT_THERE}"


def test_of_many_ranks_a_bounded_number_is_asked() -> None:
    asked: list[str] = []

    def run(command: Sequence[str], seconds: float) -> tuple[int, str, str]:
        asked.append(command[4])
        return 0, WAITING, ""

    stacks([(at, at) for at in range(10_000)], run, "/usr/bin/py-spy")
    assert len(asked) == MOST_RANKS
