"""Which GPUs this process was given: nodes that a cgroup, permissions or a /dev of its own hide."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.topology.diagnosis import device_access
from gputop.topology.diagnosis.case import Case
from gputop.topology.explain.absence import why_no_gpu
from gputop.topology.model.record import Gap
from gputop.topology.model.snapshot import NodeSnapshot, Problem, ProblemKind
from gputop.topology.model.surroundings import Container, Host
from gputop.topology.node import Node
from gputop.topology.sources.collect import ONLY_PCI
from gputop.topology.sources.files.tree import FolderTree, live_tree
from gputop.topology.sources.linux import containers, device_nodes
from gputop.topology.sources.linux import host as host
from tests.topology.explain.test_absence import nvidia, snapshot

from ...support.rule_cases import base, cases, diagnosed

A, B = "0000:19:00.0", "0000:2a:00.0"
KEPT = "/dev/nvidia1 (kept back by a cgroup)"


def parsed(**raw: Any) -> Host:
    found = host.parse({"absent": "not there", **raw}).host
    assert found is not None
    return found


def sick(name: str) -> NodeSnapshot:
    return next(case for case in cases() if case.name == name).snapshot


@pytest.mark.parametrize(
    ("code", "verdict"), [(0, True), (errno.EACCES, False), (errno.EPERM, "cgroup")]
)
def test_a_cgroup_refuses_otherwise_than_permissions(
    tmp_path: Path, code: int, verdict: object
) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    (tmp_path / "dev/sda").touch()
    read = device_nodes.read(FolderTree(tmp_path), refusal=lambda path: code)
    assert read == [["/dev/nvidia0", verdict]]


def test_access_is_asked_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "open").touch()
    assert device_nodes.refusal(str(tmp_path / "open")) == 0
    assert device_nodes.refusal(str(tmp_path / "none")) == errno.ENOENT
    if os.geteuid():
        (tmp_path / "shut").touch(mode=0)
        assert device_nodes.refusal(str(tmp_path / "shut")) == errno.EACCES
    assert device_nodes.refusal("\0") == errno.EACCES
    assert isinstance(device_nodes.read(live_tree()), list)


def test_nodes_say_why_they_are_closed() -> None:
    nodes = [["/dev/nvidia0", True], ["/dev/nvidia1", "cgroup"], ["/dev/nvidia2", False], 7, ["x"]]
    assert parsed(device_nodes=nodes).device_nodes == (
        "/dev/nvidia0",
        KEPT,
        "/dev/nvidia2 (no permission)",
    )


def test_the_module_lists_gpus_that_nvml_hides(tmp_path: Path) -> None:
    for address, minor, excluded in ((A, 0, "No"), (B.upper(), 1, "Yes")):
        folder = tmp_path / "proc/driver/nvidia/gpus" / address
        folder.mkdir(parents=True)
        (folder / "information").write_text(
            f"Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-1234\nDevice Minor: \t {minor}\n"
            f"GPU Excluded:\t {excluded}\n"
        )
    raw = device_nodes.read_gpus(FolderTree(tmp_path))
    assert "1234" not in repr(raw)
    gpus = parsed(nvidia_gpus=raw).nvidia_gpus
    assert gpus is not None
    assert {(gpu.address, gpu.minor, gpu.excluded) for gpu in gpus} == {
        (A, 0, False),
        (B, 1, True),
    }


@pytest.mark.parametrize(
    "raw", [None, 5, [], {}, "x", {"../x": {"Device Minor": "1"}}, {"\x1b[31m": {}}]
)
def test_other_answers_name_no_gpu(raw: object) -> None:
    host = parsed(nvidia_gpus=raw)
    assert not host.nvidia_gpus
    if host.nvidia_gpus is None:
        assert host.why("nvidia_gpus") == "not there"


@pytest.mark.parametrize("lines", [{}, {"Device Minor": "many"}, {"Device Minor": "-1"}, None, 3])
def test_a_gpu_without_a_number_has_no_node(lines: object) -> None:
    host = parsed(nvidia_gpus={A: lines}, device_nodes=[["/dev/nvidia0", True]])
    assert host.nvidia_gpus is not None
    assert host.nvidia_gpus[0].minor is None
    gpu = base("demo hgx-h100-8").machine.gpus[0]
    assert (gpu.address, device_access.access(host, gpu)) == (A, None)


@pytest.mark.parametrize(
    ("node", "word"),
    [
        (["/dev/nvidia0", True], device_access.GIVEN),
        (["/dev/nvidia0", "cgroup"], device_access.KEPT),
        (["/dev/nvidia0", False], device_access.DENIED),
        (["/dev/nvidia01", True], device_access.NO_NODE),
    ],
)
def test_how_a_process_reaches_a_gpu(node: list[object], word: str) -> None:
    host = parsed(nvidia_gpus={A: {"Device Minor": "0"}}, device_nodes=[node])
    gpus = base("demo hgx-h100-8").machine.gpus
    assert device_access.access(host, gpus[0]) == word
    assert device_access.access(host, gpus[1]) is None
    assert device_access.access(parsed(device_nodes=[node]), gpus[0]) is None


def test_gpus_of_another_s_job_do_not_count() -> None:
    case = Case(Node(sick("gpu-kept-back-by-a-cgroup")))
    assert len(case.gpus) == 7
    assert case.may_hide_devices
    assert case.in_container is False
    assert not Case(Node(base("demo hgx-h100-8"))).may_hide_devices


def test_without_the_module_s_list_no_gpu_is_blamed() -> None:
    whole = sick("gpu-kept-back-by-a-cgroup")
    assert whole.machine.host is not None
    bare = msgspec.structs.replace(
        whole.machine.host, nvidia_gpus=None, gaps=(Gap("nvidia_gpus", "no permission"),)
    )
    machine = msgspec.structs.replace(whole.machine, host=bare)
    found = diagnosed(msgspec.structs.replace(whole, machine=machine))
    assert found.verdict == "healthy"
    assert "0000:ab:00.0" not in {
        device for finding in found.findings for device in finding.devices
    }


def test_an_excluded_gpu_is_a_notice() -> None:
    found = diagnosed(sick("gpu-excluded"))
    (finding,) = (finding for finding in found.findings if finding.id == "gpu-without-driver")
    assert (finding.severity, finding.devices) == ("notice", ("0000:ab:00.0",))


@pytest.mark.parametrize(
    ("nodes", "sentence"),
    [
        ((KEPT,), "The cgroup of this process forbids"),
        ((KEPT, "/dev/nvidia0 (no permission)"), "This user may not open"),
    ],
)
def test_why_no_gpu_answers(nodes: tuple[str, ...], sentence: str) -> None:
    (reason,) = why_no_gpu(snapshot(nvidia(), device_nodes=nodes))
    assert reason.sentence.startswith(sentence)
    assert KEPT in reason.evidence


@pytest.mark.parametrize(
    ("mounts", "kind"),
    [
        ("devtmpfs /dev devtmpfs rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n", None),
        ("devtmpfs /dev devtmpfs rw 0 0\ntmpfs /dev tmpfs rw,size=65536k 0 0\n", "container"),
        ("tmpfs /devel tmpfs rw 0 0\nshort /dev\n", None),
        ("", None),
    ],
)
def test_a_dev_of_its_own_is_a_sign_of_a_container(
    tmp_path: Path, mounts: str, kind: str | None
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mounts").write_text(mounts)
    found = containers.parse(containers.read(FolderTree(tmp_path)), "not there")
    assert isinstance(found, Container)
    assert found.kind == kind
    assert (found.evidence is None) == (kind is None)


@pytest.mark.parametrize("kind", list(ProblemKind))
def test_a_gpu_that_kfd_denies_is_left_out_beside_those_it_gives(kind: ProblemKind) -> None:
    whole = base("demo mi300x-8")
    first, *rest = whole.machine.gpus
    bare = msgspec.structs.replace(first, uuid=None, gaps=(Gap("uuid", ONLY_PCI),))
    given = msgspec.structs.replace(
        whole,
        machine=msgspec.structs.replace(whole.machine, gpus=(bare, *rest)),
        problems=(Problem(source="kfd", kind=kind, text="x"),),
    )
    denied = kind is ProblemKind.DENIED
    assert len(Case(Node(given)).gpus) == len(whole.machine.gpus) - denied
