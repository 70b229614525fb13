"""Why no GPU is seen, or why the GPUs on the PCI bus do not answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..hardware.vendors import AMD, NVIDIA
from ..model.element import NOT_IN_XML
from ..model.machine import PciDevice, PciKind
from ..model.snapshot import NodeSnapshot, Problem, ProblemKind, SourceState
from ..model.surroundings import Host
from ..sources.linux.device_nodes import KEPT_BACK
from .absence_reason import (
    CLOSED,
    Reason,
    as_evidence,
    container_sign,
    counted,
    label,
    only_pci,
    problem_of,
)

NOUVEAU = "nouveau"
RESERVED = ("vfio-pci", "pci-stub")
"""Drivers that keep a device for a virtual machine."""
ASKED = ("nvml", "pci", "host")
"""The sources whose first answer is waited for."""
_GPU_NODE = re.compile(r"/dev/nvidia\d+")


def why_no_gpu(snapshot: NodeSnapshot) -> tuple[Reason, ...]:
    """Return the causes, the surest first; () when every GPU on the PCI bus answers.

    Only the snapshot is asked: what it does not know gives no reason, and a live session gives
    none before its sources answer for the first time.
    """
    if any(_pending(state) for state in snapshot.states if state.source in ASKED):
        return ()
    machine = snapshot.machine
    answered = {
        gpu.address for gpu in machine.gpus if gpu.uuid is not None or gpu.memory_bytes is not None
    }
    silent = [
        device
        for device in machine.pci
        if device.kind == PciKind.GPU
        and device.physical_function is None
        and device.address not in answered
        and device.why("driver") != NOT_IN_XML
    ]
    reasons: list[Reason] = []
    for vendor, explain in ((NVIDIA, _nvidia), (AMD, _amd)):
        devices = [device for device in silent if device.vendor_id in vendor.pci_ids]
        reasons += _taken(devices)
        free = [device for device in devices if device.driver not in RESERVED]
        if free:
            reasons.append(explain(snapshot, free))
    if not reasons and not answered and not machine.gpus:
        reasons.append(_nothing(snapshot))
    return tuple(reasons)


def _pending(state: SourceState) -> bool:
    return state.age_seconds is None and state.waiting_seconds is None


def _nothing(snapshot: NodeSnapshot) -> Reason:
    machine, host = snapshot.machine, snapshot.machine.host
    problem = problem_of(snapshot, "nvml")
    if machine.nccl_topology is not None:
        return Reason(sentence="The topology XML has no GPU in it.")
    if not machine.pci:
        boxed = host is not None and host.container is not None and host.container.kind
        return Reason(
            sentence="Whether there is a GPU cannot be told: no PCI device can be read here.",
            evidence=as_evidence(problem_of(snapshot, "pci")) + as_evidence(problem),
            fix="Look from outside this container or sandbox." if boxed else None,
        )
    return _on_bus(machine.pci, host, problem)


def _on_bus(pci: Sequence[PciDevice], host: Host | None, problem: Problem | None) -> Reason:
    """Why there is no GPU on a bus that was read."""
    screens = [device for device in pci if (device.class_code or 0) >> 16 == 0x03]
    evidence = [f"{len(pci)} PCI functions, none of them an NVIDIA or AMD GPU"]
    evidence += [f"{label(device)} only drives a screen" for device in screens[:4]]
    if host is not None and host.nvidia_module is not None:
        return Reason(
            sentence="NVIDIA's driver is loaded, but there is no NVIDIA GPU on the PCI bus.",
            evidence=(*evidence, *as_evidence(problem)),
            fix="A GPU that was there has fallen off the bus: look for NVRM and Xid in the kernel "
            "log (dmesg), then power-cycle the machine.",
        )
    virtual = host is not None and host.hypervisor is not None
    return Reason(
        sentence="There is no GPU on the PCI bus.",
        evidence=tuple(evidence),
        fix="This is a virtual machine: a GPU has to be passed through to it."
        if virtual
        else "If one is installed, the firmware does not see it: check its seat and power cables.",
    )


def _taken(devices: Sequence[PciDevice]) -> list[Reason]:
    taken = [device for device in devices if device.driver in RESERVED]
    if not taken:
        return []
    return [
        Reason(
            sentence=f"{counted(taken)} set aside for virtual machines.",
            evidence=tuple(f"{label(device)} is bound to {device.driver}" for device in taken[:8]),
            fix="To use them here, unbind them from that driver and bind the GPU driver (root).",
        )
    ]


def _nvidia(snapshot: NodeSnapshot, devices: Sequence[PciDevice]) -> Reason:
    host, problem = snapshot.machine.host, problem_of(snapshot, "nvml")
    bound = [device for device in devices if device.driver == NVIDIA.module]
    loaded = bool(bound) or _loaded(host, NVIDIA.module)
    there = tuple(f"{label(device)}, driver {device.driver or 'none'}" for device in devices[:8])
    if any(device.driver == NOUVEAU for device in devices) and not bound:
        return Reason(
            sentence="The GPUs are run by nouveau, the driver without CUDA.",
            evidence=there,
            fix="Install NVIDIA's driver and blacklist nouveau (root), then reboot.",
        )
    if not loaded:
        return Reason(
            sentence="NVIDIA's kernel module is not loaded.",
            evidence=(*there, *as_evidence(problem)),
            fix="Load it with `modprobe nvidia` (root); if it is not there, install the driver. "
            "If it does not load, the kernel log (dmesg) says why.",
        )
    if not bound:
        return Reason(
            sentence="NVIDIA's kernel module is loaded, but it did not take these GPUs.",
            evidence=(*there, *as_evidence(problem)),
            fix="Look for NVRM in the kernel log (dmesg): too old a driver, or a GPU that needs "
            "the open kernel module.",
        )
    return _nvidia_access(host, problem, there)


def _nvidia_access(host: Host | None, problem: Problem | None, there: tuple[str, ...]) -> Reason:
    """Say what keeps this process from GPUs that the driver runs."""
    inside = host is not None and host.container is not None and host.container.kind is not None
    nodes = None if host is None else host.device_nodes
    gpu_nodes = [*filter(_GPU_NODE.match, nodes or ())]
    if nodes is not None and not gpu_nodes:
        if inside:
            return Reason(
                sentence="This container was started without the GPUs.",
                evidence=(*there, "no /dev/nvidia0, /dev/nvidia1, ...", *container_sign(host)),
                fix="Start it with GPUs: `docker run --gpus all`, `podman run --device "
                "nvidia.com/gpu=all`, or a limit on nvidia.com/gpu in Kubernetes.",
            )
        return Reason(
            sentence="The driver is loaded, but its device nodes are missing.",
            evidence=(*there, "no /dev/nvidia0, /dev/nvidia1, ..."),
            fix="Run `nvidia-modprobe -c 0 -u`, or `nvidia-smi` once, as root.",
        )
    refused = [node for node in (*gpu_nodes, *_control(nodes)) if node.endswith(CLOSED)]
    kept = bool(refused) and all(node.endswith(KEPT_BACK) for node in refused)
    if refused or (problem is not None and problem.kind == ProblemKind.DENIED):
        return Reason(
            sentence="The cgroup of this process forbids the GPUs' device nodes."
            if kept
            else "This user may not open the GPUs' device nodes.",
            evidence=(*refused[:8], *as_evidence(problem)),
            fix="Ask for access: the group that owns /dev/nvidia*, or the job scheduler's GPU "
            "option; a cgroup may forbid them as well.",
        )
    return _nvml(host, problem, there, inside=inside)


def _nvml(
    host: Host | None, problem: Problem | None, there: tuple[str, ...], *, inside: bool
) -> Reason:
    if problem is None:
        return only_pci(host, "GPUs", "NVIDIA", there)
    if problem.kind == ProblemKind.MISMATCH:
        again = "Restart the container" if inside else "Reboot, or unload and load the modules"
        return Reason(
            sentence="NVIDIA's library and its kernel module have different versions.",
            evidence=as_evidence(problem),
            fix=f"{again}: the driver was updated while the old module stayed loaded.",
        )
    if "nvidia-ml-py" in problem.text or "pynvml" in problem.text:
        return Reason(
            sentence="The Python package nvidia-ml-py is missing.",
            evidence=as_evidence(problem),
            fix="`pip install nvidia-ml-py` in gputop's environment.",
        )
    if problem.kind == ProblemKind.FAILED and "libnvidia-ml.so.1 cannot be loaded" in problem.text:
        return Reason(
            sentence="NVIDIA's management library is there and cannot be loaded.",
            evidence=(*there, *as_evidence(problem)),
            fix="An image that was made of a running container keeps empty files of that name: "
            "remove them from the image."
            if inside
            else "Install the driver's user-space part of the same version as the module again.",
        )
    if "libnvidia-ml" in problem.text:
        return Reason(
            sentence="NVIDIA's management library, libnvidia-ml.so.1, is missing.",
            evidence=(*there, *as_evidence(problem)),
            fix="Give the container the capability `utility` (NVIDIA_DRIVER_CAPABILITIES)."
            if inside
            else "Install the driver's user-space part of the same version as the module.",
        )
    words = {
        "not answering": "NVIDIA's driver does not answer.",
        "lost": "A GPU has fallen off the bus.",
    }
    fixes = {
        "not answering": "Look for Xid and NVRM in the kernel log (dmesg).",
        "lost": "Look for Xid 79 in the kernel log (dmesg); only a reset or reboot brings it back.",
    }
    return Reason(
        sentence=words.get(problem.kind, "NVIDIA's library gives no answer."),
        evidence=as_evidence(problem),
        fix=fixes.get(problem.kind),
    )


def _amd(snapshot: NodeSnapshot, devices: Sequence[PciDevice]) -> Reason:
    """Return the first cause that fits AMD GPUs, from the kernel module up to the library."""
    host = snapshot.machine.host
    there = tuple(f"{label(device)}, driver {device.driver or 'none'}" for device in devices[:8])
    nodes = None if host is None else host.device_nodes
    kfd = [node for node in nodes or () if node.startswith("/dev/kfd")]
    inside = host is not None and host.container is not None and host.container.kind is not None
    if not any(device.driver == AMD.module for device in devices):
        return Reason(
            sentence="The kernel module amdgpu does not run the AMD GPUs.",
            evidence=there,
            fix="Load it with `modprobe amdgpu` (root); the kernel log (dmesg) says why it fails.",
        )
    if nodes is not None and not kfd:
        return Reason(
            sentence="This container was started without the AMD GPUs."
            if inside
            else "There is no /dev/kfd, through which ROCm reaches the AMD GPUs.",
            evidence=(*there, "no /dev/kfd", *(container_sign(host) if inside else ())),
            fix="Start it with `--device /dev/kfd --device /dev/dri`."
            if inside
            else "The amdgpu module was built or started without compute support (KFD).",
        )
    if any(node.endswith(CLOSED) for node in kfd):
        kept = kfd[0].endswith(KEPT_BACK)
        return Reason(
            sentence=f"{'The cgroup of this process forbids' if kept else 'This user may not open'}"
            " /dev/kfd.",
            evidence=tuple(kfd),
            fix="Start a job that asks for the GPUs."
            if kept
            else "Join the groups render and video, then log in again.",
        )
    software = snapshot.machine.software
    if nodes is not None and software is not None and software.rocm is None:
        return Reason(
            sentence="ROCm is not in /opt/rocm, where its management library would be.",
            evidence=(*there, "no /opt/rocm/.info/version"),
            fix="Install ROCm in the version of the driver.",
        )
    problem = problem_of(snapshot, AMD.sources[0])
    if problem is not None:
        return Reason(
            sentence="ROCm's management library gives no answer.",
            evidence=(*there, *as_evidence(problem)),
            fix="Install ROCm's amdsmi in the version of the driver.",
        )
    return only_pci(host, "AMD GPUs", "ROCm", there)


def _loaded(host: Host | None, name: str) -> bool:
    if host is None:
        return False
    return host.nvidia_module is not None or any(module.name == name for module in host.modules)


def _control(nodes: Sequence[str] | None) -> list[str]:
    return [node for node in nodes or () if node.startswith("/dev/nvidiactl")]
