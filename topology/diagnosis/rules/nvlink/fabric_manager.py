"""The daemon of the NVSwitch fabric."""

from __future__ import annotations

from ....hardware.vendors import NVIDIA
from ....model.severity import BROKEN, NOTICE
from ...case import Case
from ...rule import Found, Rule

RESTART = (
    "Restart the fabric manager; its version must be that of the driver. "
    "# systemctl restart nvidia-fabricmanager"
)


def _manager(case: Case) -> Found:
    state = case.host.fabric_manager
    switches = [device for device in case.machine.pci if device.kind == "nvswitch"]
    # In a container or a guest the daemon runs elsewhere; without NVSwitches on this host's own
    # PCI (bridges, rack-scale boards) there is nothing for it to do here.
    if case.in_vm is not False or case.in_container is not False or state is None:
        return None
    if not case.machine.pci:
        return None
    nvidia = [gpu for gpu in case.gpus if gpu.vendor == NVIDIA.id]
    if not switches or not nvidia or state == "running":
        return []
    states = [gpu.fabric.state for gpu in nvidia if gpu.fabric is not None and gpu.fabric.state]
    joined = len(states) == len(nvidia) and all(word == "completed" for word in states)
    install = (
        "Install the fabric manager of the driver's version. "
        f"# apt-get install nvidia-fabricmanager{_branch(case)}"
    )
    return MANAGER.finding(
        NOTICE if joined else BROKEN,
        "the fabric manager does not run",
        devices=nvidia,
        evidence=[
            ("fabric manager", state, "/proc/*/comm, /usr/bin"),
            ("NVSwitches", str(len(switches)), "/sys/bus/pci"),
        ],
        impact=(
            "The GPUs have joined the fabric already; after a reset they cannot join again."
            if joined
            else "GPUs behind NVSwitches do not start without it: CUDA fails with error 802."
        ),
        fix=[*([install] if state == "absent" else []), RESTART],
    )


def _branch(case: Case) -> str:
    version = case.machine.software.nvidia_driver if case.machine.software else None
    head = (version or "").split(".")[0]
    return f"-{head}" if head.isdecimal() else ""


MANAGER = Rule(
    id="fabric-manager",
    family="D03",
    title="a fabric manager that does not run on bare metal with NVSwitches",
    evidence="the process nv-fabricmanager, NVSwitches on PCI, no container and no hypervisor",
    vendor=NVIDIA.id,
    disproof="`systemctl is-active nvidia-fabricmanager` that says active",
    sources=("NVIDIA Fabric Manager user guide", "huggingface_hub#4128", "NVIDIA/gpu-operator#610"),
    check=_manager,
)


RULES = (MANAGER,)
