"""The batch script, tried with a stand-in for srun, and hostfiles."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gputop.topology.fleet.planning.plan import PlanRequest, plan
from gputop.topology.fleet.planning.scripts import hostfiles, sbatch
from gputop.topology.model.copied import RefusedError
from tests.support.hostile_names import HARMLESS, HOSTILE

UNHEARD = ("run",)

HOSTS = ("g1", "g2", "g3", "g4")
SRUN = """#!/bin/bash
printf '%s\\n' "$*" >> "$LOG"
[[ $* != *g1* ]]
"""


def run(script: str, folder: Path) -> str:
    """Run a script with a srun that writes down how it was called, and fails for g1."""
    srun = folder / "srun"
    srun.write_text(SRUN)
    srun.chmod(0o755)
    log = folder / "log"
    subprocess.run(
        ["/bin/bash", "-c", script],
        env={"PATH": f"{folder}:/usr/bin:/bin", "LOG": str(log)},
        check=True,
        timeout=60,
    )
    return log.read_text()


def test_the_script_starts_each_pair_and_keeps_the_plan(tmp_path: Path) -> None:
    results = tmp_path / "50% 'done'"
    results.mkdir()
    planned = plan(PlanRequest(HOSTS, looks=2), [])
    script = sbatch(planned, str(results), "0.1.0")
    assert "#SBATCH --nodelist=g[1-4]\n" in script
    calls = run(script, tmp_path).splitlines()
    assert len(calls) == 4
    for pair in planned.pairs:
        own = [call for call in calls if f"--nodelist={pair.first},{pair.second} " in call]
        assert len(own) == 2
        assert all("gputop probe net" in call and "--round 1 " in call for call in own)
        assert {call.rpartition("-")[2] for call in own} == {"1.json", "2.json"}
        assert "50%% 'done'/net-1-" in own[0]
    kept = json.loads((results / "plan-1.json").read_text())
    assert kept["hosts"] == "g[1-4]"
    assert len(kept["pairs"]) == 2


def test_sets_run_nccl_tests(tmp_path: Path) -> None:
    planned = plan(PlanRequest(HOSTS, scale=True), [])
    calls = run(sbatch(planned, str(tmp_path), "0.1.0"), tmp_path)
    assert "--nodes=4 --ntasks=4 --nodelist=g[1-4] --mpi=pmix all_reduce_perf" in calls
    assert (tmp_path / "set-1-1.txt").exists()


def test_hostfiles_hold_one_pair_each() -> None:
    files = hostfiles(plan(PlanRequest(HOSTS), []))
    assert sorted(files) == ["pair-1-1.hosts", "pair-1-2.hosts"]
    assert sorted("".join(files.values()).split()) == list(HOSTS)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_script_holds_a_hostile_name(name: str, tmp_path: Path) -> None:
    for scale in (False, True):
        planned = plan(PlanRequest((*HOSTS[1:], name), scale=scale), [])
        for write in (hostfiles, lambda made: sbatch(made, str(tmp_path), "0.1.0")):
            with pytest.raises(RefusedError):
                write(planned)
    if not HARMLESS.fullmatch(name):
        with pytest.raises(RefusedError):
            sbatch(plan(PlanRequest(HOSTS), []), f"/{name}", "0.1.0")
