"""What /proc says of one process: job, rank, binding, limits, namespaces, and what is hidden."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.model.readings import ProcessReading
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.linux import process_facts, process_files, processes

ABSENT = "not in the answer"
LIVE_ONLY = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
STATUS = {"State": "S (sleeping)", "PPid": "40", "Mems_allowed_list": "0-1"}


def parsed(**entry: Any) -> ProcessReading:
    """One process whose raw answer has these parts."""
    (found,) = processes.parse({"processes": {"77": {"opens_gpu": True, **entry}}}).processes
    return found


def made(tmp_path: Path, environ: bytes = b"RANK=3\0WORLD_SIZE=8\0") -> Path:
    folder = tmp_path / "proc" / "77"
    (folder / "root" / "dev" / "shm").mkdir(parents=True)
    (folder / "root" / "etc").mkdir()
    (folder / "ns").mkdir()
    (folder / "environ").write_bytes(environ)
    (folder / "status").write_text("Name:\tx\nState:\tD (disk sleep)\nPPid:\t40\nUid:\t0\n")
    (folder / "limits").write_text("Max locked memory  65536  65536  bytes\n")
    (folder / "cgroup").write_text("0::/system.slice/slurmstepd.scope/job_7/step_2/user\n")
    (tmp_path / "proc" / "40").mkdir()
    (tmp_path / "proc" / "40" / "comm").write_text("torchrun\n")
    limit = tmp_path / "sys/fs/cgroup/system.slice/slurmstepd.scope/job_7"
    limit.mkdir(parents=True)
    (limit / "memory.max").write_text("1073741824\n")
    (limit / "cpu.max").write_text("400000 100000\n")
    for kind in process_files.NAMESPACES:
        (folder / "ns" / kind).symlink_to(f"{kind}:[40265318{len(kind)}]")
    return folder


def read(tmp_path: Path) -> dict[str, Any]:
    tree = FolderTree(tmp_path, live=True)
    moving = process_files.moving(tree, 77)
    return moving | process_files.lasting(tree, 77, tmp_path / "proc")


def test_a_process_is_read_and_understood(tmp_path: Path) -> None:
    folder = made(tmp_path, b"RANK=3\0LOCAL_RANK=1\0WORLD_SIZE=8\0NCCL_DEBUG=INFO\0TOKEN=hunter2\0")
    (folder / "root" / "etc" / "hostname").write_text("pod-a\n")
    raw = read(tmp_path)
    assert "hunter2" not in repr(raw)
    assert "Uid" not in repr(raw)
    found = parsed(**raw)
    assert (found.rank, found.local_rank, found.world_size) == (3, 1, 8)
    assert found.variables == (("NCCL_DEBUG", "INFO"),)
    assert (found.parent, found.parent_command, found.state) == (40, "torchrun", "disk sleep")
    assert found.job == "slurm 7.2"
    assert (found.memory_limit_bytes, found.cpu_quota) == (2**30, 4.0)
    assert found.memlock_bytes == 65536
    assert found.hostname == "pod-a"
    assert found.namespaces is not None
    assert dict(found.namespaces)["ipc"] == "402653183"
    assert found.shm_device == (folder / "root/dev/shm").stat().st_dev
    assert found.shm_bytes is not None


def test_a_link_in_a_container_does_not_lead_to_our_files(tmp_path: Path) -> None:
    folder = made(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("ours\n")
    (folder / "root" / "etc" / "hostname").symlink_to(secret)
    (folder / "root" / "dev" / "shm").rmdir()
    (folder / "root" / "dev" / "shm").symlink_to("/tmp")
    found = parsed(**read(tmp_path))
    assert (found.hostname, found.shm_device, found.shm_bytes) == (None, None, None)
    assert found.why("hostname")
    assert found.why("shm_device") == "/dev/shm is no folder"


@LIVE_ONLY
def test_a_pipe_instead_of_a_file_stops_nobody(tmp_path: Path) -> None:
    folder = made(tmp_path)
    os.mkfifo(folder / "root" / "etc" / "hostname")
    assert parsed(**read(tmp_path)).why("hostname") == "not a regular file"


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_says_so(tmp_path: Path) -> None:
    folder = made(tmp_path)
    (folder / "environ").chmod(0)
    (folder / "root").chmod(0)
    found = parsed(**read(tmp_path))
    (folder / "root").chmod(0o700)
    assert found.variables is None
    for field in ("variables", "rank", "world_size", "shm_device", "hostname"):
        assert found.why(field) == "no permission"


def test_a_denied_answer_leaves_gaps_and_no_zero() -> None:
    denied = {"error": "no permission"}
    found = parsed(status=STATUS, variables=denied, namespaces=denied, shm=denied, hostname=denied)
    assert found.variables is None
    assert found.namespaces is None
    for field in ("variables", "rank", "namespaces", "shm_device", "shm_bytes", "hostname"):
        assert found.why(field) == "no permission"
    assert found.memory_nodes == "0-1"
    assert found.why("memlock_bytes") == ABSENT


@pytest.mark.parametrize(
    ("cgroup", "variables", "parent", "command", "job"),
    [
        ("0::/slurm/uid_0/job_12/step_3/task_0", {}, 5, "slurmstepd", "slurm 12.3"),
        ("0::/slurm/uid_0/job_12/step_batch", {}, 5, "slurmstepd", "slurm 12"),
        ("", {"SLURM_JOB_ID": "9", "SLURM_STEP_ID": "0"}, 5, "srun", "slurm 9.0"),
        ("", {"SLURM_JOB_ID": "9", "SLURM_STEP_ID": "4294967290"}, 5, "bash", "slurm 9"),
        ("", {"SLURM_JOB_ID": "9; rm -rf"}, 5, "bash", None),
        ("", {process_files.KUBERNETES: "set", "HOSTNAME": "llm-0"}, 1, "x", "kubernetes llm-0"),
        ("0::/kubepods/pod01234567-89ab-cdef-0123-456789abcdef/c", {}, 1, "x",
         "kubernetes pod 01234567"),
        ("", {"TORCHELASTIC_RUN_ID": "run-1"}, 5, "torchrun", "torchrun run-1"),
        ("", {"TORCHELASTIC_RUN_ID": "none"}, 5, "torchrun", "torchrun 5"),
        ("", {"TORCHELASTIC_RUN_ID": "a b\x1b[2J"}, 5, "torchrun", "torchrun 5"),
        ("", {"PBS_JOBID": "77.head"}, 5, "bash", "pbs 77.head"),
        ("", {"RAY_JOB_ID": "02000000"}, 5, "raylet", "ray 02000000"),
        ("", {}, 6, "mpirun", "mpirun 6"),
        ("0::/docker/" + "ab" * 32, {}, 6, "bash", "docker abababababab"),
        ("", {}, 6, "bash", None),
    ],
)  # fmt: skip
def test_the_job_is_named_by_who_started_it(
    cgroup: str, variables: dict[str, str], parent: int, command: str, job: str | None
) -> None:
    assert process_facts.job(variables, cgroup, parent, command) == job


@pytest.mark.parametrize(
    ("variables", "ranks"),
    [
        ({"RANK": "2", "WORLD_SIZE": "4", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, (2, None, 4)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, None, 2)),
        ({"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NTASKS": "8"}, (5, 1, 8)),
        ({"RANK": "9", "WORLD_SIZE": "4"}, (None, None, None)),
        ({"RANK": "-1", "WORLD_SIZE": "4"}, (None, None, None)),
        ({"RANK": "9" * 30}, (None, None, None)),
        ({"RANK": "٣"}, (None, None, None)),
        ({}, (None, None, None)),
    ],
)
def test_ranks_come_from_one_launcher(
    variables: dict[str, str], ranks: tuple[int | None, ...]
) -> None:
    assert process_facts.ranks(variables) == ranks


def test_ranks_meet_where_their_variables_say() -> None:
    variables = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
    assert parsed(variables=variables).rendezvous == "10.0.0.1:29500"
    assert parsed(variables={**variables, "MASTER_ADDR": "a b"}).rendezvous is None
    assert parsed(variables={"MASTER_ADDR": "h"}).rendezvous is None
    assert parsed(variables=variables).variables == ()


def test_a_zombie_is_a_zombie_and_no_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.read()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        reader = processes.ProcessesReader()
        reader.pids = frozenset({child.pid})
        monkeypatch.setattr(processes, "opens_gpu", lambda pid: False)
        (found,) = processes.parse(reader()).processes
    assert found.state == "zombie"
    assert found.parent == os.getpid()
    assert found.why("command") != processes.STRANGER


def test_what_lasts_is_read_once_and_again_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    whole = process_files.lasting

    def counted(tree: Any, pid: int) -> dict[str, Any]:
        asked.append(pid)
        return whole(tree, pid)

    monkeypatch.setattr(processes, "lasting", counted)
    monkeypatch.setattr(processes, "opens_gpu", lambda pid: True)
    reader = processes.ProcessesReader()
    reader.pids = frozenset({os.getpid()})
    for _ in range(processes.KEPT_READS):
        reader()
    assert asked == [os.getpid()]
    reader()
    assert len(asked) == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ("status", "variables", "shm", "namespaces", "cgroup", "levels", "memlock", "hostname",
     "parent_command", "library")
)  # fmt: skip


@given(st.dictionaries(KEYS, JSON))
def test_no_answer_makes_the_parser_raise(entry: dict[str, Any]) -> None:
    found = parsed(**entry)
    assert found.rank is None or found.rank >= 0


@given(st.binary(max_size=200))
def test_no_environment_makes_the_reader_raise(tmp_path_factory: Any, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("p") / "proc" / "5"
    folder.mkdir(parents=True)
    (folder / "environ").write_bytes(b"NCCL_X" + data + b"\0RANK=" + data)
    raw = process_files.lasting(FolderTree(folder.parents[1], live=True), 5, folder.parent)
    found = parsed(**raw)
    assert found.rank is None or found.rank >= 0
    assert all("\0" not in value for _, value in found.variables or ())


def test_memory_threads_and_the_cgroups_that_limit_are_understood(tmp_path: Path) -> None:
    folder = made(tmp_path, b"OMP_NUM_THREADS=8,2\0RANK=0\0")
    counts = "voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n"
    status = f"State:\tD (disk sleep)\nPPid:\t40\nRssAnon:\t    2048 kB\n{counts}"
    (folder / "status").write_text(status)
    (folder / "stat").write_text(f"77 (a) b) D{' 1' * 18} 4711 1\n")
    (folder / "wchan").write_text("nfs_wait_bit_killable")
    tree = FolderTree(tmp_path, live=True)
    sleep = process_files.sleep_of(tree, 77)
    assert sleep == ("4711", "5", "2"), "when it began, and how often it ran"
    raw = read(tmp_path) | {"asleep": 1.5, "wchan": process_files.wait_channel(tree, 77)}
    found = parsed(**raw)
    assert (found.anonymous_bytes, found.omp_threads) == (2 * 2**20, 8)
    assert (found.asleep_seconds, found.wait_channel) == (1.5, "nfs_wait_bit_killable")
    assert found.variables == ()
    assert found.cpu_group is not None
    assert found.cpu_group == found.memory_group
    assert "slurm" not in found.cpu_group
    (folder / "status").write_text(status.replace("D (disk", "S (disk"))
    assert process_files.sleep_of(tree, 77) is None
    (folder / "status").write_text(status.replace(counts, ""))
    assert process_files.sleep_of(tree, 77) is None, "a kernel that counts no switches"


@pytest.mark.parametrize("text", ["0", "-4", "many", "", "4.5", "99999999999999999999"])
def test_a_number_of_threads_that_openmp_would_not_take_is_not_known(text: str) -> None:
    assert parsed(variables={"OMP_NUM_THREADS": text}, wchan="0").omp_threads is None


def test_of_equal_limits_the_outermost_cgroup_is_the_one_that_counts() -> None:
    inner = {"cpu": "200000 100000", "folder": "sys/fs/cgroup/job/task"}
    outer = {"cpu": "200000 100000", "folder": "sys/fs/cgroup/job"}
    both, alone = parsed(levels=[inner, outer]), parsed(levels=[outer])
    assert both.cpu_group == alone.cpu_group != parsed(levels=[inner]).cpu_group
    assert both.memory_group is None
