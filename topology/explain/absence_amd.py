"""Why AMD's GPUs on the PCI bus do not answer."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.machine import PciDevice
from ..model.snapshot import NodeSnapshot
from ..sources.linux.device_nodes import KEPT_BACK
from .absence_reason import CLOSED, Reason, as_evidence, container_sign, label, only_pci, problem_of


def amd(snapshot: NodeSnapshot, devices: Sequence[PciDevice]) -> Reason:
    """Return the first cause that fits, from the kernel module up to the library."""
    host = snapshot.machine.host
    there = tuple(f"{label(device)}, driver {device.driver or 'none'}" for device in devices[:8])
    nodes = None if host is None else host.device_nodes
    kfd = [node for node in nodes or () if node.startswith("/dev/kfd")]
    inside = host is not None and host.container is not None and host.container.kind is not None
    if not any(device.driver == "amdgpu" for device in devices):
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
    problem = problem_of(snapshot, "amd")
    if problem is not None:
        return Reason(
            sentence="ROCm's management library gives no answer.",
            evidence=(*there, *as_evidence(problem)),
            fix="Install ROCm's amdsmi in the version of the driver.",
        )
    if nodes is not None and software is not None and software.rocm is None:
        return Reason(
            sentence="ROCm is not in /opt/rocm, where its management library would be.",
            evidence=(*there, "no /opt/rocm/.info/version"),
            fix="Install ROCm in the version of the driver.",
        )
    return only_pci(host, "AMD GPUs", "ROCm", there)
