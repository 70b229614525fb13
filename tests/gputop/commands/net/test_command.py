"""`gputop probe net` itself: what it refuses, who steps back, and what it leaves."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from gputop.checking.redacting import HostNames
from gputop.commands.net import command
from tests.support.command import gputop_here
from tests.support.nccl.rank_runs import MADE_TORCH

LAUNCHERS = ("SLURM_", "OMPI_", "PMI_", "GROUP_", "TORCHELASTIC_")
PAIR = ("probe", "net", "--rank", "0", "--of", "2")


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(LAUNCHERS) or name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("probe", "net"), "no launcher says which node this is"),
        (("probe", "net", "--rank", "1"), "--rank and --of belong together"),
        (("probe", "net", "--rank", "2", "--of", "2"), "there is no node 2 of 2"),
        (("probe", "net", "--rank", "0", "--of", "99", "--meet", "m"), "at most 8 measure"),
        (PAIR, "where do the nodes meet? --meet FILE"),
        ((*PAIR, "--redact"), "--redact is about the JSON"),
        ((*PAIR, "--meet", "/proc/none/m"), "nothing can be written in /proc/none"),
        ((*PAIR, "--meet", "."), "--meet names a file"),
        ((*PAIR, "--meet", "m", "-o", "out/"), "-o names a file"),
        ((*PAIR, "--meet", "m", "-o", "%x"), "there are %n (node), %j (job) and %%"),
        ((*PAIR, "--meet", "m", "--hosts", "g[1"), "the list of hosts"),
        ((*PAIR, "--meet", "m", "--selftest", "--gpus", "0"), "leave --gpus out"),
        ((*PAIR, "--meet", "m", "--nccl-lib", "/none.so"), "--nccl-lib names no file"),
        (("probe", "p2p", "net"), "gputop probe net --help"),
    ],
)
def test_wrong_usage(
    words: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = gputop_here(*words)
    assert (result.returncode, result.stdout) == (64, "")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_all_but_one_on_a_node_step_back(monkeypatch: pytest.MonkeyPatch) -> None:
    step = {"PROCID": "9", "NODEID": "1", "STEP_NUM_NODES": "2", "LOCALID": "1", "STEP_ID": "0"}
    for name, value in step.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.setenv("SLURMD_NODENAME", "g9")
    result = gputop_here("probe", "net", "--meet", "m")
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == "net: process 1 of g9 steps back: one on each node drives all GPUs\n"


def test_one_dead_node_costs_one_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way on one node: a worker, a deadline, the file, and nothing left to meet by."""
    monkeypatch.setenv("PYTHONPATH", str(MADE_TORCH))
    monkeypatch.setenv("SLURMD_NODENAME", "g1")
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    more = ("--selftest", "--deadline", "5", "--hosts", "g[1,9]", "--round", "1")
    to = ("--meet", str(tmp_path / "meet"), "-o", str(tmp_path / "%j/%n.json.gz"))
    result = gputop_here(*PAIR, *more, *to)
    assert result.returncode == 3, result.stderr
    assert "g9 did not come within 1 s." in result.stdout
    found = json.loads(gzip.decompress((tmp_path / "17/g1.json.gz").read_bytes()))
    kept = [found[name] for name in ("status", "missing", "hosts", "job", "round", "results")]
    assert kept == ["absent", ["g9"], ["g1", "g9"], "17", 1, []]
    assert [path.name for path in tmp_path.iterdir()] == ["17"]


def test_names_of_hosts_are_those_of_redacted_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTOP_REDACT_KEY", "key")
    monkeypatch.setenv("GPUTOP_NODE", "g1.site.example")
    names = HostNames()
    run, other = names.of("g1"), names.of("g9")
    made = {
        "hosts": ["g1", "g9"], "missing": ["g9"], "job": "17", "rails": 8,
        "why": "g9 did not come; g10 and g1's peer 10.0.0.7 are well",
        "results": [{"from": "g1", "to": "g9", "gbs": 1.5}],
    }  # fmt: skip
    found = names.hide(made, ("g1", "g9"))
    assert (found["hosts"], found["missing"], found["redacted"]) == ([run, other], [other], True)
    assert found["results"] == [{"from": run, "to": other, "gbs": 1.5}]
    assert found["why"].startswith(f"{other} did not come; g10 and {run}'s peer ")
    assert "10.0.0.7" not in found["why"]
    assert found["job"] != "17"
    check = gputop_here(
        "check", "--demo", "dgx-1v", "--quick", "--redact", "-o", str(tmp_path / "%n.json")
    )
    assert check.returncode == 0, check.stderr
    assert [path.name for path in tmp_path.iterdir()] == [f"{run}.json"]


def test_a_node_takes_its_own_files_away(tmp_path: Path) -> None:
    for name in ("meet.1", "meet.1-abc-torch", "meet.10", "meet.0", "other.1"):
        (tmp_path / name).touch()
    (tmp_path / "meet.1-folder").mkdir()
    command.clear(tmp_path / "meet", 1)
    command.clear(tmp_path / "none" / "meet", 1)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"meet.10", "meet.0", "other.1", "meet.1-folder"}
