"""`gputop check` whose reader leaves: the exit code stays an answer."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.grid import turns
from tests.support.places import ROOT

SICK = ("--demo", "sick-h100-8")
RECORDED = "tests/recordings/hgx-h200-4gpu-live"


def left(*arguments: str, streams: str) -> int:
    """Exit code of a check of which nobody reads "stdout", or neither stream ("both")."""
    with subprocess.Popen(
        [sys.executable, "-m", "gputop", "check", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if streams == "both" else subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        return process.wait(60)


@pytest.mark.parametrize(("form", "streams"), turns([(), ("--json",)], ["stdout", "both"]))
def test_a_slow_node_stays_slow(form: tuple[str, ...], streams: str) -> None:
    # With both gone the first note breaks the pipe, before the first line of the answer.
    assert left(*SICK, *form, streams=streams) == 1


def test_a_healthy_node_stays_healthy() -> None:
    assert left("--demo", "hgx-h100-8", streams="stdout") == 0


def test_an_error_that_nobody_reads_keeps_its_code() -> None:
    assert left("--from", "README.md", streams="both") == 3
    assert left("--from", "/nowhere", streams="both") == 64


def test_what_is_said_before_the_answer_may_get_lost() -> None:
    # What a folder holds besides is said on stderr while its files are read.
    assert left("--from", "recipes", "--from", RECORDED, streams="both") == 0


def test_a_closed_stdout_changes_nothing() -> None:
    command = [sys.executable, "-m", "gputop", "check", *SICK]
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *command], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
