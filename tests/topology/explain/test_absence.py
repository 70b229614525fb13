"""Why no GPU is seen: each cause told apart."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gputop.topology.explain.absence import why_no_gpu
from gputop.topology.model.machine import Gpu, Machine, PciDevice, PciKind
from gputop.topology.model.record import Gap
from gputop.topology.model.snapshot import NodeSnapshot, Problem, ProblemKind, SourceState
from gputop.topology.model.surroundings import Container, ContainerKind, Host, Module, Software

ADDRESS = "0000:41:00.0"
NODES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm")
DOCKER = Container(kind=ContainerKind.DOCKER, evidence="/.dockerenv exists")


def nvidia(driver: str | None = "nvidia") -> PciDevice:
    return PciDevice(
        address=ADDRESS, parent="pci0000:40", kind=PciKind.GPU, class_code=0x030200,
        vendor_id=0x10DE,
        driver=driver,
    )  # fmt: skip


def amd(driver: str | None = "amdgpu") -> PciDevice:
    return PciDevice(
        address=ADDRESS, parent="pci0000:40", kind=PciKind.GPU, class_code=0x120000,
        vendor_id=0x1002,
        driver=driver,
    )  # fmt: skip


def screen() -> PciDevice:
    return PciDevice(
        address="0000:02:00.0", parent="pci0000:00", class_code=0x030000, vendor_id=0x1A03,
        vendor_name="ASPEED",
    )  # fmt: skip


def snapshot(
    *pci: PciDevice,
    problem: Problem | None = None,
    gpus: tuple[Gpu, ...] = (),
    software: Software | None = None,
    **host: Any,
) -> NodeSnapshot:
    return NodeSnapshot(
        taken_at=0.0,
        machine=Machine(pci=pci, host=Host(**host), gpus=gpus, software=software),
        problems=(problem,) if problem else (),
    )


def nvml(text: str, kind: str = "absent") -> Problem:
    return Problem(source="nvml", text=text, kind=ProblemKind(kind))


CAUSES = {
    "no PCI": (snapshot(), "cannot be told"),
    "no GPU": (snapshot(screen()), "no GPU on the PCI bus"),
    "no GPU, but a driver": (snapshot(screen(), nvidia_module="open"), "driver is loaded, but"),
    "not loaded": (snapshot(nvidia(None), device_nodes=()), "module is not loaded"),
    "not bound": (
        snapshot(nvidia(None), modules=(Module(name="nvidia"),), device_nodes=NODES),
        "did not take",
    ),
    "nouveau": (snapshot(nvidia("nouveau")), "nouveau"),
    "virtual machine": (snapshot(nvidia("vfio-pci")), "set aside for virtual machines"),
    "no nodes": (snapshot(nvidia(), device_nodes=()), "device nodes are missing"),
    "container": (snapshot(nvidia(), device_nodes=(), container=DOCKER), "container was started"),
    "no permission": (
        snapshot(nvidia(), device_nodes=("/dev/nvidia0 (no permission)",)),
        "may not open",
    ),
    "denied by NVML": (
        snapshot(nvidia(), device_nodes=NODES, problem=nvml("no permission", "denied")),
        "may not open",
    ),
    "no library": (
        snapshot(nvidia(), device_nodes=NODES, problem=nvml("libnvidia-ml.so.1 is not found")),
        "libnvidia-ml.so.1, is missing",
    ),
    "no library that can be loaded": (
        snapshot(
            nvidia(),
            device_nodes=NODES,
            problem=nvml("libnvidia-ml.so.1 cannot be loaded: /lib/x: file too short", "failed"),
        ),
        "is there and cannot be loaded",
    ),
    "no binding": (
        snapshot(nvidia(), device_nodes=NODES, problem=nvml("package nvidia-ml-py is not there")),
        "Python package nvidia-ml-py",
    ),
    "mismatch": (
        snapshot(nvidia(), device_nodes=NODES, problem=nvml("versions differ", "mismatch")),
        "different versions",
    ),
    "hangs": (
        snapshot(nvidia(), device_nodes=NODES, problem=nvml("5 s", "not answering")),
        "does not answer",
    ),
    "lost": (
        snapshot(nvidia(), device_nodes=NODES, problem=nvml("gone", "lost")),
        "fallen off the bus",
    ),
    "a recording": (snapshot(nvidia()), "Only PCI shows these GPUs"),
    "amdgpu not bound": (snapshot(amd(None)), "amdgpu does not run"),
    "no kfd": (snapshot(amd(), device_nodes=("/dev/dri/renderD128",)), "no /dev/kfd"),
    "amd container": (
        snapshot(amd(), device_nodes=(), container=DOCKER),
        "started without the AMD GPUs",
    ),
    "kfd denied": (snapshot(amd(), device_nodes=("/dev/kfd (no permission)",)), "open /dev/kfd"),
    "no ROCm": (
        snapshot(
            amd(),
            device_nodes=("/dev/kfd",),
            software=Software(gaps=(Gap("rocm", "no such file"),)),
        ),
        "ROCm is not in /opt/rocm",
    ),
    "no amdsmi": (
        snapshot(
            amd(),
            device_nodes=("/dev/kfd",),
            software=Software(rocm="6.4.1"),
            problem=Problem(source="amdsmi", text="no module named amdsmi"),
        ),
        "ROCm's management library gives no answer",
    ),
    "some of them": (
        snapshot(nvidia(), device_nodes=NODES, container=DOCKER),
        "this container may not have",
    ),
    "a batch job": (
        snapshot(nvidia(), device_nodes=NODES, container=Container(job="slurm 4711.0")),
        "this job (slurm 4711.0) may not have been given them",
    ),
    "amd recording": (snapshot(amd()), "Only PCI shows these AMD GPUs"),
}


@pytest.mark.parametrize("name", CAUSES)
def test_each_cause_has_its_own_sentence(name: str) -> None:
    node, words = CAUSES[name]
    (reason,) = why_no_gpu(node)
    assert words in reason.sentence
    others = [why_no_gpu(other)[0].sentence for key, (other, _) in CAUSES.items() if key != name]
    shared = {"no permission", "denied by NVML"}
    assert (reason.sentence in others) == (name in shared)


def test_the_evidence_names_the_device_and_the_sign() -> None:
    (reason,) = why_no_gpu(CAUSES["container"][0])
    assert any(ADDRESS in line for line in reason.evidence)
    assert any("/.dockerenv" in line for line in reason.evidence)
    assert "--gpus" in (reason.fix or "")


def test_gpus_that_answer_need_no_reason() -> None:
    there = Gpu(address=ADDRESS, vendor="nvidia", uuid="GPU-1")
    assert why_no_gpu(snapshot(nvidia(), gpus=(there,))) == ()
    only_topo = Gpu(address="topo:GPU0", vendor="nvidia")
    assert why_no_gpu(snapshot(gpus=(only_topo,))) == ()


def test_one_of_two_gpus_given_to_a_virtual_machine() -> None:
    there = Gpu(address="0000:81:00.0", vendor="nvidia", uuid="GPU-1")
    (reason,) = why_no_gpu(snapshot(nvidia("vfio-pci"), gpus=(there,)))
    assert reason.evidence == (f"{ADDRESS} is bound to vfio-pci",)


def test_two_vendors_have_a_reason_each() -> None:
    other = PciDevice(
        address="0000:81:00.0", parent="pci0000:80", kind=PciKind.GPU, vendor_id=0x1002, driver=None
    )
    reasons = why_no_gpu(snapshot(nvidia(None), other))
    assert ["NVIDIA" in reason.sentence for reason in reasons] == [True, False]


def test_nothing_is_claimed_before_the_first_answers() -> None:
    node = snapshot(nvidia())
    waiting = SourceState(source="nvml")
    assert why_no_gpu(msgspec.structs.replace(node, states=(waiting,))) == ()
    overdue = SourceState(source="nvml", waiting_seconds=4.0)
    assert why_no_gpu(msgspec.structs.replace(node, states=(overdue,)))


def test_a_screen_chip_is_named_as_such() -> None:
    (reason,) = why_no_gpu(snapshot(screen()))
    assert "0000:02:00.0 ASPEED only drives a screen" in reason.evidence


def test_what_is_unknown_gives_no_claim() -> None:
    node = NodeSnapshot(taken_at=0.0, machine=Machine(pci=(nvidia(),)))
    (reason,) = why_no_gpu(node)
    assert reason.fix is None
