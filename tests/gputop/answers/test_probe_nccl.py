"""`gputop probe nccl` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import gputop, gputop_here
from tests.support.nccl.rank_runs import made_up


def assigned(changes: dict[str, str]) -> list[str]:
    return [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]


def test_the_selftest_goes_through_ranks(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    changes = {"A": "b=c"}
    arguments = ["--selftest", "--json", *assigned(changes), "--logs", str(logs)]
    done = gputop("probe", "nccl", *arguments, seconds=300, **made_up())
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["status"] == "finished"
    words = {m["quantity"]: m["verdict"] for m in document["measurements"]}
    assert words["collective_finishes"] == "finished"
    assert words["send_receive"] == "verified"
    assert {"communicator_init", "all_reduce_algbw", "all_reduce_busbw"} <= words.keys()
    assert [rank["device"] for rank in document["ranks"]] == ["cpu:0", "cpu:1", "cpu:2"]
    assert document["check"]["finished"] == "finished"
    assert document["check"]["changes"] == changes
    (note,) = (note for note in document["notes"] if note["topic"] == "environment")
    assert note["details"]["set"] == changes
    assert {path.name for path in logs.iterdir()} == {f"rank{rank}.log" for rank in range(3)}
    assert "Set for this run: A=b=c" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("nccl", "--set", "NAME"), "NAME=VALUE"),
        (("nccl", "--set", "=x"), "NAME=VALUE"),
        (("nccl", "--loopback", "--set", "NCCL_SOCKET_IFNAME=eth0"), "loopback"),
        (("nccl", "--nccl", "newest"), "newest"),
        (("p2p", "--loopback"), "for the probe nccl"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], word: str) -> None:
    done = gputop_here("probe", *arguments, "--selftest")
    assert done.returncode == 64
    assert word in done.stderr
    assert done.stdout == ""


def test_a_collective_that_fails_is_exit_code_2() -> None:
    changes = made_up(fails="Unable to find address for: no-such-interface")
    done = gputop("probe", "nccl", "--selftest", seconds=300, **changes)
    assert done.returncode == 2
    assert "FAILED" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert "no-such-interface" in done.stderr
    assert "Traceback" not in done.stderr
