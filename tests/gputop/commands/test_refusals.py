"""Every refusal is one line in one style, and what could just work does."""

from __future__ import annotations

import json
import re

import pytest

from gputop.answers import QUESTIONS
from gputop.commands import NAMES
from gputop.exits import USAGE
from tests.support.command import gputop_here

DEMO = ("--demo", "pcie-l40s-8")
_MOMENT = r'"(?:taken_at|elapsed_seconds)": [\d.]+'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("topo --format tre", "--format: no 'tre'; did you mean tree?"),
        ("topo --format poster", "--format: no 'poster'; there are: matrix, tree, dot"),
        ("topo tree", "topo takes no 'tree'; did you mean --format tree?"),
        ("topo json", "topo takes no 'json'; did you mean --json?"),
        ("jobs extra", "jobs takes no 'extra'; `gputop jobs --help` has examples"),
        ("log", "log needs FILE|-; `gputop log --help` has examples"),
        ("fleet", "fleet needs DIR"),
        ("explain --set", "--set needs a value: NAME=VALUE"),
        ("topo --json=3", "--json takes no value"),
        ("explain --nodes 99999", "--nodes takes a whole number from 1 to 1,024, not 99999"),
        (
            "cost gpt-2 --seq 0",
            "--seq takes a whole number from 1 to 16,777,216, not 0",
        ),
        ("flags --pid x", "--pid takes a whole number from 1, not x"),
        ("--interval 0", "--interval takes a number from 0.2 to 3600, not 0"),
        ("check --quik", "no option --quik; did you mean --quick"),
        ("check --ignore nvlink-dwn", "--ignore: no rule 'nvlink-dwn'; did you mean nvlink-down"),
        ("check --ignore zzz", "--ignore: no rule 'zzz'; `gputop check --list` lists them"),
        ("check --expect zzz", "--expect: no reference node 'zzz'; there are: dgx-1v"),
        ("check --probe zzz", "--probe: no probe 'zzz'; `gputop probe --list` lists them"),
        ("topo --demo zzz", "no demo 'zzz'; `gputop --demo` lists them"),
        ("--demo hgx-h100-8 doctor", "doctor takes no --demo"),
        ("--interval 1 topo", "topo takes no --interval"),
        ("fleet plan x --pairs zzz", "--pairs: no 'zzz'; there are: "),
    ],
)
def test_a_refusal_is_one_line_that_says_what_there_is(line: str, said: str) -> None:
    done = gputop_here(*line.split())
    assert done.returncode == USAGE
    assert done.stdout == ""
    assert done.stderr.startswith(f"gputop: {said}")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", [*QUESTIONS, *NAMES])
def test_no_command_refuses_in_another_style(name: str) -> None:
    for more in (["--zzz"], ["a", "b", "c", "--json=1"], ["--demo", "zzz"], ["--set"]):
        done = gputop_here(*name.split(), *more)
        assert done.returncode == USAGE, (name, more)
        assert done.stderr.startswith("gputop: ")
        assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("name", ["topo", "snapshot", "check", "explain", "flags", "jobs", "probe"])
def test_a_demo_without_a_name_is_no_answer_of_a_command(name: str) -> None:
    done = gputop_here(name, "--demo", "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["schema"], said["exit_code"]) == (
        USAGE,
        "gputop.no-answer/1",
        USAGE,
    )
    assert "`gputop --demo` lists them" in done.stderr
    assert "`gputop --demo` lists them" in said["why"]


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("--demo pcie-l40s-8 topo", "topo --demo pcie-l40s-8"),
        ("--demo dgx-1v topo --demo pcie-l40s-8", "topo --demo pcie-l40s-8"),
        ("help check", "check --help"),
        ("help", "--help"),
        ("man probe net", "probe net --help"),
        ("-V", "--version"),
        ("explain 0-5 --demo pcie-l40s-8", "explain 0 5 --demo pcie-l40s-8"),
        ("explain gpu0,gpu5 --demo pcie-l40s-8", "explain 0 5 --demo pcie-l40s-8"),
        (
            "explain --gpus 0-2,7 --demo pcie-l40s-8",
            "explain --gpus 0,1,2,7 --demo pcie-l40s-8",
        ),
        ("check --gpus nvml:4-5 --demo dgx-1v", "check --gpus 4,5 --demo dgx-1v"),
        ("probe p2p,host --demo hgx-h100-8 --json", "probe p2p host --demo hgx-h100-8 --json"),
    ],
)
def test_what_can_just_work_does(line: str, same: str) -> None:
    done, usual = gputop_here(*line.split()), gputop_here(*same.split())
    assert usual.returncode in (0, 1)
    assert (done.returncode, re.sub(_MOMENT, "", done.stdout)) == (
        usual.returncode,
        re.sub(_MOMENT, "", usual.stdout),
    )


def test_a_source_in_front_of_the_command_reaches_it() -> None:
    given = gputop_here("--from", "tests/recordings/hgx-h200-4gpu-vm", "snapshot").stdout
    assert len(json.loads(given)["machine"]["gpus"]) == 4
