"""The lines of the manual: one for each engine, and they reach every node that lives."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.engines import running
from tests.harness.engines.__main__ import NEEDS, lacking
from tests.harness.engines.cases import CASES, DEAD, KINDS, NODES
from tests.harness.engines.ending import ended
from tests.harness.engines.folder import Folder
from tests.harness.engines.lines import documented, launchers
from tests.harness.engines.slurm import Slurm
from tests.support.places import ROOT

QUICK = ("srun", "clush", pytest.param("pdsh", marks=pytest.mark.grid))
"""Engines that take little time; sixteen mpirun take eight seconds. pdsh starts all as clush does,
and takes four."""
GPUTOP = """#!/bin/bash
# Leaves a file where the real one would, and answers "broken".
name=${SLURMD_NODENAME:-$(hostname)}
while [ "$1" != -o ]; do shift; done
touch "${2//%n/$name}"
exit 2
"""


def test_every_engine_has_its_line() -> None:
    found = documented()
    assert found.keys() == NEEDS.keys()
    for line in found.values():
        assert "check-nodes" in line or re.search(r"gputop check .*-o \$DIR/%%?n", line)


def test_readme_has_the_lines_of_the_manual() -> None:
    found = launchers((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found
    assert found.items() <= documented().items()


def test_the_last_case_is_all_of_them() -> None:
    *single, every = CASES
    assert set(every.kinds.values()) == set(KINDS)
    assert sum(len(case.kinds) for case in single) == len(every.kinds)
    assert every.kinds.keys() <= set(NODES)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    (tmp_path / "bin" / "gputop").write_text(GPUTOP)
    return made


@pytest.mark.parametrize("engine", QUICK)
def test_the_line_reaches_every_node_that_lives(engine: str, folder: Folder) -> None:
    missing = lacking(engine)
    if missing:
        pytest.skip(f"this machine lacks {', '.join(missing)}")
    if "unshare" in NEEDS[engine] and not _other_names():
        pytest.skip("no host name of one's own may be set here")
    # A slurmd that died costs ten seconds of waiting: `python -m tests.harness.engines` has that.
    dead = {} if engine == "srun" else {"g3": DEAD}
    files = folder.now(dead)
    with ended(), ExitStack() as stack:
        variables = {}
        if engine == "srun":
            cluster = Slurm(folder.path / "slurm")
            cluster.start()
            variables = cluster.variables
            stack.callback(cluster.cancel)
        ran = running.run(
            ["bash", "-c", documented()[engine]],
            {**folder.environment(files), **variables},
            folder.path,
        )
    there = {path.name for path in files.iterdir()}
    assert there == {f"{name}.json.gz" for name in NODES if name not in dead}, ran.output


def _other_names() -> bool:
    """Whether a process here may take another host name."""
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--uts", "hostname", "g1"],
        capture_output=True,
        check=False,
    )
    return tried.returncode == 0
