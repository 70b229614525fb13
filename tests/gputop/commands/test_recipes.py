"""The recipes of README: they parse, they run as written, and they answer as they promise."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gputop.checking.policy import site
from gputop.checking.runs import all_rules
from gputop.topology.expectation.reference import named
from gputop.topology.toml import tomllib
from tests.support.places import ROOT

from ...support.checked import saved
from ...support.rule_cases import base, edited

RECIPES = ROOT / "recipes"
SCRIPTS = sorted((RECIPES / "slurm").glob("*.sh"))
FAKE = """#!/bin/bash
printf '%s\\n' "$*" >> "$FAKE_SAID"
case "$1" in
    snapshot) printf '{}' > "$3"; exit "${FAKE_SNAPSHOT:-0}" ;;
    fleet) echo "the answer about $4"; exit "$FAKE_CODE" ;;
    check) [[ $* == *--gpus* && -n $FAKE_OF_GPUS ]] && exit "$FAKE_OF_GPUS"
           printf 'verdict of fake %s\\na finding\\n' "$FAKE_CODE"; exit "$FAKE_CODE" ;;
esac
exit 64
"""
SRUN = """#!/bin/bash
# Starts a task on one node, which writes its file; gpu03 is dead.
echo "srun $*" >> "$FAKE_SAID"
while [[ $1 == --* ]]; do [[ $1 == --nodelist=* ]] && node=${1#--nodelist=}; shift; done
[ "$node" = gpu03 ] && { echo "launch failed on node $node" >&2; exit 255; }
"$@" </dev/null
touch "${!#//%n/$node}"
"""
SINFO = """#!/bin/bash
echo "sinfo $*" >> "$FAKE_SAID"
case "$*" in
    *"%T"*) echo "gpu03 down Not responding" ;;
    *) printf 'gpu01\\ngpu02\\ngpu03\\ngpu01\\n' ;;
esac
"""
SCONTROL = """#!/bin/bash
echo gpu02
"""


@pytest.fixture
def launcher(tmp_path: Path) -> dict[str, str]:
    """What slurmd sets for a prolog, and a gputop that says what it was asked."""
    program = tmp_path / "gputop"
    program.write_text(FAKE)
    program.chmod(0o755)
    return {
        "GPUTOP": str(program),
        "GPUTOP_STATE": str(tmp_path / "state"),
        "FAKE_SAID": str(tmp_path / "said"),
        "FAKE_CODE": "0",
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_GPUS": "0,1",
    }


def run(script: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """As slurmd does: nothing in the environment but what is given."""
    return subprocess.run(
        [str(RECIPES / "slurm" / script)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_parse(script: Path) -> None:
    done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.access(script, os.X_OK)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_scripts_pass_shellcheck() -> None:
    done = subprocess.run(["shellcheck", *SCRIPTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_documents_name_every_recipe() -> None:
    text = (ROOT / "README.md").read_text() + (ROOT / "docs" / "install.md").read_text()
    for folder in (path for path in RECIPES.iterdir() if path.is_dir()):
        assert f"{folder.relative_to(ROOT).as_posix()}/" in text
    for path in (*RECIPES.glob("*.*"), *(RECIPES / "slurm").iterdir()):
        assert path.relative_to(ROOT).as_posix() in text


@pytest.mark.parametrize(
    ("code", "answer"), [(0, 0), (1, 0), (2, 1), (3, 0), (64, 0), (70, 0), (130, 0)]
)
def test_only_a_broken_node_fails_the_prolog(
    launcher: dict[str, str], code: int, answer: int
) -> None:
    done = run("prolog.sh", launcher | {"FAKE_CODE": str(code)})
    assert done.returncode == answer, done.stderr
    assert ("verdict of fake" in done.stdout) is (code != 0)
    snapshot, check, *again = Path(launcher["FAKE_SAID"]).read_text().splitlines()
    assert len(again) == (code == 64)
    before = f"{launcher['GPUTOP_STATE']}/4711.json"
    assert snapshot == f"snapshot -o {before}"
    assert check == f"check --quick --from {before} --gpus 0,1"
    assert Path(before).stat().st_mode & 0o077 == 0


def test_epilog_compares_with_the_prolog_and_cleans_up(launcher: dict[str, str]) -> None:
    assert run("prolog.sh", launcher).returncode == 0
    before = Path(launcher["GPUTOP_STATE"]) / "4711.json"
    assert before.exists()
    assert run("epilog.sh", launcher | {"FAKE_CODE": "2"}).returncode == 1
    *_, check = Path(launcher["FAKE_SAID"]).read_text().splitlines()
    assert check == f"check --quick --since {before} --gpus 0,1"
    assert not before.exists()
    assert run("epilog.sh", launcher | {"FAKE_CODE": "1"}).returncode == 0
    *_, check = Path(launcher["FAKE_SAID"]).read_text().splitlines()
    assert "--since" not in check


@pytest.mark.parametrize("script", ["prolog.sh", "epilog.sh"])
def test_a_job_without_gpus_is_not_held_up(launcher: dict[str, str], script: str) -> None:
    del launcher["SLURM_JOB_GPUS"]
    assert run(script, launcher).returncode == 0
    assert not Path(launcher["FAKE_SAID"]).exists()


@pytest.mark.parametrize("script", ["prolog.sh", "epilog.sh"])
def test_a_gputop_that_is_missing_drains_no_node(launcher: dict[str, str], script: str) -> None:
    done = run(script, launcher | {"GPUTOP": "/nowhere/gputop"})
    assert done.returncode == 0
    assert "no answer" in done.stdout


@pytest.mark.parametrize("script", ["prolog.sh", "epilog.sh"])
@pytest.mark.parametrize(("code", "answer"), [(0, 0), (2, 1), (64, 0)])
def test_where_a_gpu_of_the_job_is_gone_the_whole_node_is_examined(
    launcher: dict[str, str], script: str, code: int, answer: int
) -> None:
    done = run(script, launcher | {"FAKE_OF_GPUS": "64", "FAKE_CODE": str(code)})
    assert done.returncode == answer, done.stderr
    *_, picked, whole = Path(launcher["FAKE_SAID"]).read_text().splitlines()
    assert picked == f"{whole} --gpus 0,1"


def test_a_snapshot_that_fails_does_not_stop_the_check(launcher: dict[str, str]) -> None:
    assert run("prolog.sh", launcher | {"FAKE_SNAPSHOT": "3"}).returncode == 0
    *_, check = Path(launcher["FAKE_SAID"]).read_text().splitlines()
    assert check == "check --quick --gpus 0,1"


def test_the_prolog_with_the_real_program(launcher: dict[str, str], tmp_path: Path) -> None:
    whole = base("hgx-h200-4gpu-live")
    broken = edited(whole, [{"path": "machine.gpus[0].name", "value": "NVIDIA A40"}])
    node = tmp_path / "node.json"
    program = tmp_path / "gputop"
    # Only the machine is another one: reading it live is answered from a file.
    program.write_text(
        f"#!/bin/bash\n"
        f"export PYTHONPATH={ROOT} XDG_CONFIG_HOME={tmp_path / 'config'}\n"
        f'if [ "$1" = snapshot ]; then cp {node} "$3"; exit; fi\n'
        f'[ "$3" = --from ] || set -- "$1" "$2" --from {node} "${{@:3}}"\n'
        f'exec {sys.executable} -m gputop "$@"\n'
    )
    (tmp_path / "config" / "gputop").mkdir(parents=True)
    (tmp_path / "config" / "gputop" / "check.toml").write_text(
        f'expect = "{saved(whole, tmp_path / "sister.json")}"\n'
    )
    saved(broken, node)
    done = run("prolog.sh", launcher)
    assert done.returncode == 1, done
    assert "[unexpected-gpus]" in done.stdout
    assert "broken: unexpected-gpus" in done.stdout.splitlines()[0]
    saved(whole, node)
    done = run("prolog.sh", launcher)
    assert done.returncode == 0, done
    saved(msgspec.structs.replace(whole, taken_at=whole.taken_at + 60), node)
    done = run("epilog.sh", launcher)
    assert done.returncode == 0, done
    assert "no answer" not in done.stdout


def checked_nodes(
    launcher: dict[str, str], tmp_path: Path, *options: str, **more: str
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """The answer about all nodes, and what was asked for."""
    for name, text in (("srun", SRUN), ("sinfo", SINFO), ("scontrol", SCONTROL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = launcher | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "DIR": str(tmp_path / "files"),
        "CHECK": "--quick --expect dgx-h100",
        "FAKE_CODE": "2",
        **more,
    }
    done = subprocess.run(
        [RECIPES / "slurm" / "check-nodes.sh", *options],
        env={name: value for name, value in environment.items() if value},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done, Path(launcher["FAKE_SAID"]).read_text().splitlines()


def test_each_node_is_a_job_of_its_own(launcher: dict[str, str], tmp_path: Path) -> None:
    done, said = checked_nodes(launcher, tmp_path, "--partition=gpu", SLURM_JOB_ID="")
    assert done.returncode == 2
    assert done.stdout.splitlines() == [
        "the answer about gpu01,gpu02,gpu03",
        "",
        f"without a file, as Slurm knows them (what srun said: {tmp_path / 'files.log'})",
        "gpu03 down Not responding",
    ]
    assert (tmp_path / "files.log").read_text() == "launch failed on node gpu03\n"
    assert said[0] == "sinfo --noheader --Node --format=%N --partition=gpu"
    starts = sorted(line for line in said if line.startswith("srun "))
    assert len(starts) == 3
    assert "--exclusive --immediate=10 --nodelist=gpu01 --nodes=1 --ntasks=1" in starts[0]
    asked = f"check --quick --expect dgx-h100 --deadline 60 -o {tmp_path / 'files'}/%n.json.gz"
    assert said.count(asked) == 2


def test_inside_a_job_each_node_is_a_step(launcher: dict[str, str], tmp_path: Path) -> None:
    done, said = checked_nodes(launcher, tmp_path, FAKE_CODE="0")
    assert done.stdout == "the answer about gpu02\n"
    assert done.returncode == 0
    (start,) = (line for line in said if line.startswith("srun "))
    assert "--overlap --nodelist=gpu02" in start
    assert not any(line.startswith("sinfo") for line in said)


def test_the_pod_starts_on_a_fit_node_alone(launcher: dict[str, str], tmp_path: Path) -> None:
    text = (RECIPES / "kubernetes" / "pod.yaml").read_text()
    commands = [json.loads(found) for found in re.findall(r"command: (\[.*\])", text)]
    checks = [command for command in commands if "gputop check" in command[-1]]
    assert len(checks) == 2
    assert "initContainers" in text
    assert "readinessProbe" in text
    # Else the 64 MiB of the init container's own /dev/shm would be examined.
    assert text.count("mountPath: /dev/shm") == len(checks)
    assert "\t" not in text
    path = f"{tmp_path}:{os.environ['PATH']}"
    for command in checks:
        for code, starts in ((0, True), (1, True), (2, False), (3, False), (64, False)):
            done = subprocess.run(
                command,
                env=launcher | {"PATH": path, "FAKE_CODE": str(code)},
                capture_output=True,
                check=False,
                timeout=60,
            )
            assert (done.returncode == 0) is starts


def test_the_policy_of_the_recipe_is_one() -> None:
    path = RECIPES / "check.toml"
    found = site(path, (), all_rules())
    assert found.notes == ()
    assert found.policy.ignored
    assert found.policy.thresholds
    assert named(found.expect).gpus == 8
    assert set(tomllib.loads(path.read_text())) == {"expect", "ignore", "thresholds"}
