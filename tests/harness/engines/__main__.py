"""Slurm, Open MPI, ClusterShell and pdsh start gputop on sixteen nodes; `gputop fleet` judges.

`python -m tests.harness.engines`, or some engines and cases. All nodes are this machine: Slurm has
a slurmd for each, the others an ssh that leads to another host name. Each node is a machine with
eight GPUs whose driver is a stand-in. The lines are those of docs/fleet.md, as they stand there.
Ends with 1 where a node is not named or wrongly accused.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.harness.engines import judging, lines, running, slurm
from tests.harness.engines.cases import CASES, DEAD, NODES, Case
from tests.harness.engines.ending import ended
from tests.harness.engines.folder import Folder

IN_JOB = "srun in a job"
NEEDS = {
    "srun": slurm.PROGRAMS,
    IN_JOB: (*slurm.PROGRAMS, "salloc"),
    "check-nodes": slurm.PROGRAMS,
    "mpirun": ("mpirun", "timeout", "unshare"),
    "clush": ("clush", "unshare"),
    "pdsh": ("pdsh", "unshare"),
}
"""Launchers with the programs that they take."""
_SLURM = ("srun", IN_JOB, "check-nodes")
Prepare = Callable[[Case], None]


def main() -> int:
    """Try all, print a line for each case."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.engines", description=__doc__)
    parser.add_argument("--engine", choices=NEEDS, action="append")
    parser.add_argument("--case", choices=[case.name for case in CASES], action="append")
    parser.add_argument("--show", action="store_true", help="print what engine and fleet print")
    given = parser.parse_args()
    cases = [case for case in CASES if case.name in (given.case or [case.name])]
    wrong = 0
    with ended(), tempfile.TemporaryDirectory(prefix="engines-") as name:
        folder = Folder(Path(name))
        for engine in given.engine or NEEDS:
            missing = lacking(engine)
            if missing:
                print(f"{engine}: not tried, this machine lacks {', '.join(missing)}")
                continue
            wrong += _tried(engine, cases, folder, show=given.show)
    return 1 if wrong else 0


def lacking(engine: str) -> list[str]:
    """Programs of an engine that this machine lacks."""
    path = f"{os.environ['PATH']}:{slurm.ADMIN_PATH}"
    return [need for need in NEEDS[engine] if shutil.which(need, path=path) is None]


def _tried(engine: str, cases: list[Case], folder: Folder, *, show: bool) -> int:
    wrong = 0
    with ExitStack() as stack:
        variables, prepare = _nothing()
        if engine in _SLURM:
            variables, prepare = stack.enter_context(_slurm(folder.path))
        for case in cases:
            prepare(case)
            files = folder.now(case.kinds)
            environment = {**folder.environment(files), **variables}
            line = lines.documented()[engine]
            job = ("salloc", "-Q", "--no-kill", f"-N{len(NODES)}") if engine == IN_JOB else ()
            ran = running.run([*job, "bash", "-c", line], environment, folder.path)
            count = sum(1 for path in files.iterdir() if not path.name.startswith("."))
            said = running.fleet(files, folder.path)
            faults = list(judging.faults(case, said.document))
            wrong += bool(faults)
            print(
                f"{engine} | {case.name} | {ran.seconds:.0f} s, exit code "
                f"{ran.code}, {count} files | {judging.words(said.document)} | "
                f"{said.seconds:.1f} s, exit code {said.code} | {'; '.join(faults) or 'right'}",
                flush=True,
            )
            if show:
                print(f"{line}{ran.output}\n{said.text}")
    return wrong


def _nothing() -> tuple[dict[str, str], Prepare]:
    return {}, lambda case: None


@contextmanager
def _slurm(path: Path) -> Iterator[tuple[dict[str, str], Prepare]]:
    """A cluster in which the dead nodes of a case die just before it is run."""
    began = time.monotonic()
    place = path / "slurm"
    shutil.rmtree(place)
    place.mkdir()
    cluster = slurm.Slurm(place)
    with ended():
        cluster.start()
        print(f"Slurm with {len(cluster.nodes)} nodes: {time.monotonic() - began:.0f} s to start")

        def prepare(case: Case) -> None:
            cluster.cancel()
            cluster.all_idle()
            for node in case.of(DEAD):
                cluster.kill(node)

        yield cluster.variables, prepare
        cluster.cancel()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
