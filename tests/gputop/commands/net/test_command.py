"""`gputop probe net` itself: what it refuses, who steps back, and what it leaves."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from gputop.checking.redacting import HostNames
from gputop.commands.net import command
from gputop.commands.net.command import LaunchError, hosts_named, launched
from tests.support.command import gputop_here
from tests.support.nccl.rank_runs import MADE_TORCH

LAUNCHERS = ("SLURM_", "OMPI_", "PMI_", "GROUP_", "TORCHELASTIC_")
PAIR = ("probe", "net", "--rank", "0", "--of", "2")

TORCHRUN = {
    "RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "8", "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "g1", "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "4711", "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}  # fmt: skip
SRUN = {
    "SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_NODEID": "1", "SLURM_NNODES": "16",
    "SLURM_STEP_NUM_NODES": "2", "SLURM_LOCALID": "0", "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "g[1,9]", "PMI_RANK": "1", "PMI_SIZE": "2",
}  # fmt: skip


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


def mpirun(rank: int, size: int, local: int, each: int) -> dict[str, str]:
    said = {"RANK": rank, "SIZE": size, "LOCAL_RANK": local, "LOCAL_SIZE": each, "NODE_RANK": 0}
    return {f"OMPI_COMM_WORLD_{name}": str(number) for name, number in said.items()}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (TORCHRUN, (1, 2, 1, "torchrun")),
        ({**SRUN, **TORCHRUN}, (1, 2, 1, "torchrun")),
        (SRUN, (1, 2, 0, "srun")),
        ({**SRUN, "SLURM_LOCALID": "3"}, (1, 2, 3, "srun")),
        ({**SRUN, **mpirun(0, 2, 0, 1)}, (0, 2, 0, "mpirun")),
        (mpirun(8, 16, 0, 8), (1, 2, 0, "mpirun")),
        (mpirun(11, 16, 3, 8), (1, 2, 3, "mpirun")),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, (1, 2, 0, "PMI")),
        (
            {"PMI_RANK": "4", "PMI_SIZE": "8", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "4"},
            (1, 2, 0, "PMI"),
        ),
        ({"RANK": "1", "WORLD_SIZE": "2"}, (1, 2, 0, "RANK")),
    ],
)
def test_every_launcher_says_it(
    environment: dict[str, str], expected: tuple[int, int, int, str]
) -> None:
    found = launched(environment)
    assert (found.node, found.nodes, found.local, found.by) == expected


def test_options_count_more() -> None:
    found = launched({**TORCHRUN, **SRUN}, 0, 2)
    assert (found.node, found.nodes, found.local, found.store) == (0, 2, 0, None)


@pytest.mark.parametrize(("agent", "serve"), [("True", False), ("False", True)])
def test_the_store_of_torchrun(agent: str, serve: bool) -> None:
    """Without an agent's store the first process serves one while it runs."""
    found = launched({**TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE": agent})
    assert found.store == {"host": "g1", "port": 29500, "prefix": "gputop/4711/0", "serve": serve}
    assert launched(SRUN).store is None


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({}, "no launcher says"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, "no launcher says"),
        ({**SRUN, "SLURM_STEP_NUM_NODES": "1"}, "srun has 1 node"),
        ({**SRUN, "SLURM_NODEID": "x\n"}, "SLURM_NODEID is 'x\\\\n', which is no number"),
        ({**TORCHRUN, "GROUP_RANK": "2"}, "there is no node 2 of 2, they count from 0"),
        (mpirun(1, 16, 0, 8), "start one process on each node"),
        (mpirun(0, 15, 0, 8), "start one process on each node"),
    ],
)
def test_what_cannot_be_told_is_one_sentence(environment: dict[str, str], says: str) -> None:
    """A batch script without srun is none of a step's processes."""
    with pytest.raises(LaunchError, match=says):
        launched(environment)


def test_one_option_alone_is_not_enough() -> None:
    with pytest.raises(LaunchError, match="belong together"):
        launched(SRUN, 0, None)


def test_hosts_that_should_come() -> None:
    assert hosts_named(SRUN) == ("g1", "g9")
    assert hosts_named(SRUN, "h[1-2]") == ("h1", "h2")
    assert hosts_named({}) == ()
    with pytest.raises(LaunchError, match="the list of hosts"):
        hosts_named({}, "h[1-")
