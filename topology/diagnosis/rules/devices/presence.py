"""GPUs that are in the machine and that no driver serves."""

from __future__ import annotations

from ....hardware.vendors import AMD, NVIDIA, VENDORS
from ....model.finding import Finding
from ....model.machine import Gpu, PciDevice
from ....model.severity import BROKEN, NOTICE
from ....sources.collect import ONLY_PCI
from ...case import Case
from ...given import DENIED, GIVEN, access, excluded
from ...rule import Found, Proof, Rule

_GIVEN_AWAY = ("vfio", "pciback", "pci-stub", "nvgrace")
"""Parts of the names of drivers that hold a GPU for a virtual machine."""
_HANGS = "not answering"
"""Kind of the problem that a source is past its deadline."""
_NO_DRIVER = "no driver is bound"
"""The gap of a PCI function without a driver; other gaps mean that nobody could look."""
COMPUTE_CLASSES = (0x0302, 0x0380, 0x1200)
"""3D controller, other display controller (MI200), processing accelerator (MI300); a processor's
own graphics has another class."""
_DISPLAY_CLASS = 0x0300
"""VGA controller: GeForce, RTX and Quadro boards; those of data centres are 3D controllers."""


def unmanaged(case: Case) -> list[Gpu]:
    """GPUs that PCI shows and no driver's library describes, without those given to a guest."""
    return [
        gpu
        for gpu in case.gpus
        if gpu.why("uuid") == ONLY_PCI
        and not given_away(case.pci(gpu.address))
        and _computes(gpu, case.pci(gpu.address))
    ]


def given_away(device: PciDevice | None) -> bool:
    """Whether a GPU is held for a virtual machine, or is the virtual function of another one."""
    driver = (device and device.driver) or ""
    held = any(part in driver for part in _GIVEN_AWAY)
    return held or (device is not None and device.physical_function is not None)


def _computes(gpu: Gpu, device: PciDevice | None) -> bool:
    """Whether it is no graphics unit inside a processor; only AMD's PCI classes show that."""
    if gpu.vendor == NVIDIA.id or device is None or device.class_code is None:
        return True
    return device.class_code >> 8 in COMPUTE_CLASSES


def _without_driver(case: Case) -> Found:
    if not any(device.kind == "gpu" for device in case.machine.pci):
        return None
    hidden = unmanaged(case)
    if not hidden:
        return []
    if case.in_container is None:
        return None
    reach = {gpu.address: access(case.host, gpu) for gpu in hidden}
    if case.may_hide_devices:
        # A container often has only some of the GPUs in /sys: those whose node it may open.
        hidden = [gpu for gpu in hidden if reach[gpu.address] == GIVEN]
        if not hidden:
            return None
    left_out = [gpu for gpu in hidden if excluded(case.host, gpu)]
    # Where the node's permissions are in the way, device-node-denied says so.
    hidden = [gpu for gpu in hidden if gpu not in left_out and reach[gpu.address] != DENIED]
    served = {gpu.vendor for gpu in case.gpus if gpu.why("uuid") != ONLY_PCI} - _hanging(case)
    found = [gpu for gpu in hidden if _lacks(gpu, case.pci(gpu.address), served)]
    screens = [gpu for gpu in found if _may_draw(case, gpu)]
    rest = [gpu for gpu in found if gpu not in screens]
    findings = [_without_driver_finding(case, rest)] if rest else []
    findings += [_screen(case, screens)] if screens else []
    return [*findings, *([_excluded(case, left_out)] if left_out else [])]


def _hanging(case: Case) -> set[str]:
    """The vendors whose driver has not answered for all its GPUs yet, and may never."""
    silent = {problem.source for problem in case.snapshot.problems if problem.kind == _HANGS}
    return {vendor.id for vendor in VENDORS if silent.intersection(vendor.sources[:1])}


def _may_draw(case: Case, gpu: Gpu) -> bool:
    """Whether it may be for the screen alone, left to another driver or too old for this one.

    That is a display controller of another model than every GPU that the driver serves.
    """
    device = case.pci(gpu.address)
    served = {g.pci_id for g in case.gpus if g.uuid is not None and g.vendor == gpu.vendor}
    return (
        device is not None
        and device.class_code is not None
        and device.class_code >> 8 == _DISPLAY_CLASS
        and (device.driver == "nouveau" or device.why("driver") == _NO_DRIVER)
        and bool(served)
        and gpu.pci_id is not None
        and not served & {gpu.pci_id, None}
    )


def _screen(case: Case, found: list[Gpu]) -> Finding:
    names = case.names(found)
    return WITHOUT_DRIVER.finding(
        NOTICE,
        f"a card of another model without NVIDIA's driver: {names}",
        devices=found,
        evidence=_bound(case, found),
        impact="It may be there for the screen, or be too old for this driver. A job gets "
        "the GPUs that the driver serves, without it.",
    )


def _excluded(case: Case, found: list[Gpu]) -> Finding:
    return WITHOUT_DRIVER.finding(
        NOTICE,
        f"left out by a setting of the driver: {case.names(found)}",
        devices=found,
        evidence=[
            (
                f"GPU Excluded of {gpu.address}",
                "Yes",
                f"/proc/driver/nvidia/gpus/{gpu.address}/information",
            )
            for gpu in found
        ],
        impact="The module was told to leave it alone (NVreg_ExcludedGpus). A job gets the "
        "other GPUs.",
    )


def _lacks(gpu: Gpu, device: PciDevice | None, served: set[str]) -> bool:
    """Whether something proves that its driver does not serve it."""
    if device is None:
        return False
    if device.driver == "nouveau" or device.why("driver") == _NO_DRIVER:
        return True
    # With its driver bound: only the answers for its siblings show that the driver was asked.
    return device.driver is not None and gpu.vendor in served


def _without_driver_finding(case: Case, found: list[Gpu]) -> Finding:
    names = case.names(found)
    whole = [gpu for gpu in case.gpus if gpu not in found]
    evidence = [
        *_bound(case, found),
        (
            "GPUs that the driver describes, of those on PCI",
            f"{len(whole)} of {len(case.gpus)}",
            "NVML, amd-smi and /sys/bus/pci",
        ),
        *(
            ("what the driver said", problem.text, problem.source)
            for problem in case.snapshot.problems
            if problem.source == "nvml" and problem.kind in ("failed", "lost", "denied")
        ),
    ]
    fixes = [
        (
            "Look for what the driver said when it started this GPU. "
            "# dmesg | grep -iE 'NVRM|Xid|amdgpu' | tail -n 50"
        ),
        "If the GPU does not come back after a cold restart of the node, replace it.",
    ]
    bound = {device.driver for gpu in found if (device := case.pci(gpu.address))}
    if "nouveau" in bound:
        fixes.insert(0, "Keep nouveau away (blacklist it) and install NVIDIA's driver.")
    return WITHOUT_DRIVER.finding(
        BROKEN,
        f"on the PCI bus and without a working driver: {names}",
        devices=found,
        evidence=evidence,
        impact=f"A job on this node gets {len(whole)} of {len(case.gpus)} GPUs.",
        fix=fixes,
    )


def _bound(case: Case, found: list[Gpu]) -> list[Proof]:
    return [
        (
            f"driver bound to {gpu.address}",
            (device.driver if device else None) or "none",
            f"/sys/bus/pci/devices/{gpu.address}/driver",
        )
        for gpu in found
        for device in (case.pci(gpu.address),)
    ]


WITHOUT_DRIVER = Rule(
    id="gpu-without-driver",
    family="D33",
    title="GPUs on the PCI bus without a driver",
    evidence="the GPUs on PCI and the driver bound to each; the GPUs that the driver describes",
    disproof="the GPU in {asked}, or a virtual machine that owns it",
    asked=((NVIDIA.id, "`nvidia-smi -L`"), (AMD.id, "`amd-smi list`")),
    sources=("NVIDIA/gpu-operator#2511", "oci-hpc healthchecks: GPU count, (rev ff)"),
    check=_without_driver,
    implied_by=("gpu-lost",),
)
RULES = (WITHOUT_DRIVER,)
