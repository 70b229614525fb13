"""Devices are opened in steps, so that what hangs has a name; what they and the host can spare."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gputop.probes import catalog
from gputop.probes.devices import opened
from gputop.probes.devices.opened import (
    host_free_bytes,
    largest_fitting,
    open_devices,
    open_torch_devices,
)
from gputop.probes.protocol.messages import (
    ASKING,
    IMPORTING,
    DeviceRecord,
    Message,
    Progress,
    WorkerRequest,
)
from gputop.probes.protocol.sizing import GIB, MIB, spare_bytes
from gputop.probes.protocol.spec import ProbeStopped
from gputop.probes.protocol.status import Status


def test_the_driver_is_asked_in_a_step_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs there is the driver, and no file system."""
    said: list[Message] = []

    def available() -> bool:
        assert said[-1] == Progress(0, 1, ASKING)
        raise ProbeStopped(Status.FAILED, "seen")

    torch = SimpleNamespace(__version__="2.11", cuda=SimpleNamespace(is_available=available))
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(ProbeStopped, match="seen"):
        open_torch_devices(WorkerRequest("gemm"), catalog.load("gemm").SPEC, said.append)
    assert said == [Progress(0, 1, IMPORTING), Progress(0, 1, ASKING)]


def test_a_probe_of_copies_asks_the_driver_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Message] = []

    def open_backend(params: object) -> None:
        assert said == [Progress(0, 1, ASKING)]
        raise ProbeStopped(Status.FAILED, "seen")

    monkeypatch.setattr(opened, "open_backend", open_backend)
    with pytest.raises(ProbeStopped, match="seen"):
        open_devices(WorkerRequest("memory"), catalog.load("memory").SPEC, said.append)


def test_what_a_gpu_and_a_host_can_spare(tmp_path: Path) -> None:
    gpu = DeviceRecord("a", 0, "GPU", memory_bytes=100 * GIB, free_bytes=21 * GIB)
    assert spare_bytes(gpu, forced=False) == GIB
    small = dataclasses.replace(gpu, memory_bytes=2 * GIB, free_bytes=2 * GIB)
    assert spare_bytes(small, forced=False) == GIB
    assert spare_bytes(small, forced=True) == 2 * GIB - 256 * MIB
    assert largest_fitting((2 * GIB, GIB, MIB), [gpu, small], forced=False) == GIB
    assert largest_fitting((2 * GIB,), [gpu], forced=False) is None
    info = tmp_path / "meminfo"
    info.write_text("MemTotal: 9999999 kB\nMemAvailable: 4194304 kB\n")
    (tmp_path / "memory.max").write_text("3221225472\n")
    (tmp_path / "memory.current").write_text("2147483648\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 536870912\n")
    group = (tmp_path, "memory.max", "memory.current")
    assert host_free_bytes(info, [group]) == GIB + 512 * MIB
    (tmp_path / "memory.max").write_text("max\n")
    assert host_free_bytes(info, [group]) == 4 * GIB


@pytest.mark.parametrize(
    ("line", "limit_name", "used_name"),
    [
        ("0::/slurm/job_7/step_0", "memory.max", "memory.current"),
        ("4:cpu,memory:/slurm/job_7/step_0", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ],
)
def test_the_group_of_a_job_counts_without_a_container(
    tmp_path: Path, line: str, limit_name: str, used_name: str
) -> None:
    """The limit may stand at any group above this process's own."""
    info, own = tmp_path / "meminfo", tmp_path / "cgroup"
    info.write_text("MemAvailable: 8388608 kB\n")
    own.write_text(f"5:cpuset:/other\n{line}\n")
    for path, limit in (("slurm/job_7", 3 * GIB), ("slurm/job_7/step_0", 0), ("other", GIB)):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / limit_name).write_text(f"{limit or 'max'}\n")
        (tmp_path / path / used_name).write_text(f"{GIB}\n")
    assert host_free_bytes(info, [(tmp_path, limit_name, used_name)], own) == 2 * GIB
