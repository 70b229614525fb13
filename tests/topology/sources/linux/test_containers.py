"""Signs of containers, and the limits of cgroups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.topology.model.surroundings import Container
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.linux import containers


def container(root: Path, environment: dict[str, str] | None = None) -> Container:
    found = containers.parse(containers.read(FolderTree(root), environment), "not there")
    assert found is not None
    return found


def write(root: Path, path: str, text: str = "") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def _docker(root: Path) -> None:
    write(root, ".dockerenv")


def _podman(root: Path) -> None:
    write(root, "run/.containerenv")


def _lxc(root: Path) -> None:
    write(root, "run/systemd/container", "lxc\n")


def _kubernetes(root: Path) -> None:
    write(root, "proc/1/cgroup", "11:memory:/kubepods/burstable/pod1/abc\n")


def _bare(root: Path) -> None:
    write(root, "proc/1/cgroup", "0::/init.scope\n")


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (_docker, "docker"),
        (_podman, "podman"),
        (_lxc, "lxc"),
        (_kubernetes, "kubernetes"),
        (_bare, None),
    ],
)
def test_signs_of_containers(
    tmp_path: Path, make: Callable[[Path], None], kind: str | None
) -> None:
    make(tmp_path)
    found = container(tmp_path)
    assert found.kind == kind
    assert (found.evidence is None) == (kind is None)


def test_kubernetes_by_its_variable_whose_value_is_not_kept(tmp_path: Path) -> None:
    write(tmp_path, ".dockerenv")
    found = container(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.9.8.7"})
    assert found.kind == "kubernetes"
    assert "10.9.8.7" not in repr(found)


def test_the_narrowest_limit_of_all_levels_counts(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/job/step\n")
    write(tmp_path, "sys/fs/cgroup/job/step/memory.max", "max\n")
    write(tmp_path, "sys/fs/cgroup/job/memory.max", "1073741824\n")
    write(tmp_path, "sys/fs/cgroup/job/step/cpu.max", "max 100000\n")
    write(tmp_path, "sys/fs/cgroup/job/cpu.max", "250000 100000\n")
    write(tmp_path, "sys/fs/cgroup/job/step/cpuset.cpus.effective", "0-7\n")
    found = container(tmp_path)
    assert (found.memory_limit_bytes, found.cpu_quota, found.cpuset) == (1 << 30, 2.5, "0-7")


def test_limits_of_the_first_cgroup_version(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "4:memory:/docker/a\n2:cpu,cpuacct:/docker/a\n")
    # Inside a container the host's path is not there; the root of the mount is our own group.
    write(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n")
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    found = container(tmp_path)
    assert (found.memory_limit_bytes, found.cpu_quota) == (None, 4.0)
    assert found.why("memory_limit_bytes") == "unlimited"


@pytest.mark.parametrize(
    ("cgroup", "job"),
    [
        ("0::/system.slice/slurmstepd.scope/job_1234/step_0/user/task_0\n", "slurm 1234.0"),
        ("0::/system.slice/slurmstepd.scope/job_1234/step_batch/user\n", "slurm 1234"),
        ("4:devices:/slurm/uid_1000/job_77/step_3\n1:name=systemd:/x\n", "slurm 77.3"),
        ("5:devices:/pbs_jobs.service/jobid/88.server\n", "pbs 88"),
        ("0::/pbspro.slice/pbspro-88.server.slice\n", "pbs 88"),
        ("3:memory:/lsf/cluster1/job.101.8212.1436834020\n", "lsf 101"),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", None),
        ("0::/system.slice/my_job_7.service\n", None),
        ("", None),
    ],
)
def test_the_cgroup_of_a_batch_job_is_known(tmp_path: Path, cgroup: str, job: str | None) -> None:
    write(tmp_path, "proc/1/cgroup", "0::/init.scope\n")
    write(tmp_path, "proc/self/cgroup", cgroup)
    found = container(tmp_path)
    assert (found.kind, found.job) == (None, job)
