"""Twice as much of one thing takes twice the work: calls are counted, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.__main__ import run

TIMES = 2.8
"""What a doubling may add to what the doubling before it added: twice, where work is linear."""

MOST_OF_A_NAME = 12_000
"""Calls for a name that no program knows: hundreds of known ones may have been meant."""


def devices(number: int) -> str:
    """The ranks of nccl-tests, each of a host of its own."""
    lines = (
        f"#  Rank {rank} Group  0 Pid {9000 + rank} on  a{rank} device  0 [0000:17:00] NVIDIA A100"
        for rank in range(number)
    )
    return "\n".join(["# nThread 1 nGpus 1 minBytes 8 maxBytes 8", "# Using devices", *lines])


def links(number: int) -> str:
    """Ports of adapters that are all down, each of which is a finding with its line."""
    lines = (
        f"link rocep{bus}s0f1/1 state DOWN physical_state DISABLED netdev enp{bus}s0f1np1"
        for bus in range(number)
    )
    return "\n".join(["user@gx10:/home/user# rdma link", *lines])


@pytest.fixture(name="calls")
def counted(capsys: pytest.CaptureFixture[str]) -> Callable[[list[str]], int]:
    """How many functions a command line calls."""

    def calls(arguments: list[str]) -> int:
        count = 0

        def seen(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(seen)
        try:
            assert run(arguments) == 0
        finally:
            sys.setprofile(None)
        capsys.readouterr()
        return count

    return calls


def grows_as_its_input(calls: Callable[[list[str]], int], *asked: list[str]) -> int:
    """Gives what the last doubling added."""
    calls(asked[0])  # imports, and tables that are read once
    few, more, most = map(calls, asked)
    assert most - more < TIMES * (more - few)
    return most - more


@pytest.mark.parametrize(("text", "fewest"), [(devices, 160), (links, 40)])
def test_what_a_text_repeats(
    text: Callable[[int], str], fewest: int, calls: Callable[[list[str]], int], tmp_path: Path
) -> None:
    paths = [tmp_path / str(fewest << doubled) for doubled in range(3)]
    for path in paths:
        path.write_text(text(int(path.name)) + "\n")
    grows_as_its_input(calls, *(["log", str(path)] for path in paths))


def test_variables_that_are_set(calls: Callable[[list[str]], int]) -> None:
    last = grows_as_its_input(
        calls,
        *(
            ["explain", "--demo", "hgx-h100-8"]
            + [f"--set=NCCL_MADE_UP_{number}_{place}=1" for place in range(number)]
            for number in (80, 160, 320)
        ),
    )
    assert last < 160 * MOST_OF_A_NAME
