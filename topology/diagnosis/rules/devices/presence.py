"""GPUs that no job gets: lost by the driver, or in the machine without one."""

from collections.abc import Sequence

import msgspec

from ....hardware.vendors import AMD, NVIDIA, VENDORS
from ....model.finding import Finding
from ....model.machine import Gpu, PciDevice, PciKind
from ....model.severity import BROKEN, CANNOT_TELL, NOTICE
from ....model.snapshot import ProblemKind
from ....model.surroundings import Host
from ....sources.collect import ONLY_PCI
from ....sources.files.failures import LOST as KIND
from ...case import Case
from ...device_access import DENIED, GIVEN, access, excluded
from ...rule import Found, Proof, Rule, faulty, needed
from ...shared.fabric_words import GONE

NUMBERED = "nvml:"
_SILENT = (ProblemKind.FAILED, ProblemKind.LOST, ProblemKind.DENIED)


def places_of(case: Case) -> dict[str, str]:
    """The addresses of the GPUs that NVML counts without an address: "nvml:3".

    NVML counts in the order of PCI addresses: where it counts as many GPUs as PCI shows, the number
    says which one it is.
    """
    numbered = {
        device
        for problem in case.snapshot.problems
        for device in problem.devices
        if device.startswith(NUMBERED)
    }
    if not numbered:
        return {}
    nvidia = [gpu for gpu in case.machine.gpus if gpu.vendor == NVIDIA.id]
    known = {gpu.index: gpu.address for gpu in nvidia if gpu.index is not None}
    rest = sorted(gpu.address for gpu in nvidia if gpu.index is None)
    numbers = sorted({int(device.removeprefix(NUMBERED)) for device in numbered} - known.keys())
    if len(numbers) != len(rest):
        return {}
    return {f"{NUMBERED}{number}": own for number, own in zip(numbers, rest, strict=True)}


def named(case: Case, devices: Sequence[str]) -> str:
    """Devices in one phrase, also those that have a number of NVML alone."""
    return case.names([device.replace(NUMBERED, "NVML's GPU ") for device in devices])


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
    if not any(device.kind == PciKind.GPU for device in case.machine.pci):
        return None
    hidden = faulty(unmanaged(case))
    if case.in_container is None:
        # Whose driver nobody knows may be served outside; a device without one is served nowhere.
        found = [gpu for gpu in hidden if _lacks(gpu, case.pci(gpu.address), set())]
        return [_unbound(case, found)] if found else None
    reach = [(gpu, access(case.host, gpu)) for gpu in hidden]
    if case.may_hide_devices:
        # A container often has only some of the GPUs in /sys: those whose node it may open.
        reach = needed([(gpu, word) for gpu, word in reach if word == GIVEN])
    left_out = [gpu for gpu, _ in reach if excluded(case.host, gpu)]
    # Where the node's permissions are in the way, device-node-denied says so.
    hidden = [gpu for gpu, word in reach if gpu not in left_out and word != DENIED]
    served = {gpu.vendor for gpu in case.gpus if gpu.why("uuid") != ONLY_PCI} - _hanging(case)
    found = [gpu for gpu in hidden if _lacks(gpu, case.pci(gpu.address), served)]
    screens = [gpu for gpu in found if _may_draw(case, gpu)]
    rest = [gpu for gpu in found if gpu not in screens]
    made = ((_without_driver_finding, rest), (_screen, screens), (_excluded, left_out))
    return [make(case, gpus) for make, gpus in made if gpus]


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
        and (device.driver == _NOUVEAU or device.why("driver") == _NO_DRIVER)
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
    if device.driver == _NOUVEAU or device.why("driver") == _NO_DRIVER:
        return True
    # With its driver bound: only the answers for its siblings show that the driver was asked.
    return device.driver is not None and gpu.vendor in served


def _without_driver_finding(case: Case, found: list[Gpu]) -> Finding:
    whole = f"{len(case.gpus) - len(found)} of {len(case.gpus)}"
    said = [
        ("what the driver said", problem.text, problem.source)
        for problem in case.snapshot.problems
        if problem.source == "nvml" and problem.kind in _SILENT
    ]
    bound = {device.driver for gpu in found if (device := case.pci(gpu.address))}
    nouveau = ["Keep nouveau away (blacklist it) and install NVIDIA's driver."]
    return WITHOUT_DRIVER.finding(
        BROKEN,
        f"on the PCI bus and without a working driver: {case.names(found)}",
        devices=found,
        evidence=[
            *_bound(case, found),
            (
                "GPUs that the driver describes, of those on PCI",
                whole,
                "NVML, amd-smi and /sys/bus/pci",
            ),
            *said,
        ],
        impact=f"A job on this node gets {whole} GPUs.",
        fix=[
            *(nouveau if _NOUVEAU in bound else ()),
            "Look for what the driver said when it started this GPU. "
            "# dmesg | grep -iE 'NVRM|Xid|amdgpu' | tail -n 50",
            "If the GPU does not come back after a cold restart of the node, replace it.",
        ],
    )


def _unbound(case: Case, found: list[Gpu]) -> Finding:
    """What a list of PCI devices shows, of which nobody knows where it was taken."""
    names = case.names(found)
    nouveau = any(d.driver == _NOUVEAU for gpu in found if (d := case.pci(gpu.address)))
    return WITHOUT_DRIVER.finding(
        BROKEN,
        f"nouveau holds {names}, not NVIDIA's driver" if nouveau else f"no driver holds {names}",
        devices=found,
        evidence=_bound(case, found),
        impact="No program can compute on it until its driver is bound; the board may be sound.",
        fix=[
            *(["Keep nouveau away (blacklist it) and install NVIDIA's driver."] if nouveau else ()),
            "Load its driver, and read why it does not take the GPU. "
            f"# modprobe {'nvidia' if found[0].vendor == NVIDIA.id else 'amdgpu'}; "
            "dmesg | grep -iE 'NVRM|nouveau|vfio|amdgpu' | tail -n 50",
            "For a virtual machine vfio-pci takes it only where it is named before other drivers "
            "load: vfio-pci.ids= of all its functions on the kernel's command line, or vfio-pci in "
            "the initramfs. # update-initramfs -u",
        ],
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


class _Gone(msgspec.Struct, frozen=True):
    """A GPU that is gone, by its address or else by NVML's number, and what shows it."""

    device: str
    evidence: Proof


def _lost(case: Case) -> Found:
    problems = [problem for problem in case.snapshot.problems if problem.kind == KIND]
    told = [gpu for gpu in case.gpus if gpu.fabric is not None and gpu.fabric.status == GONE]
    if not problems and not told and case.earlier is None and not case.read:
        return None
    gone = [
        _Gone(
            gpu.address,
            (
                f"answer of the driver for {case.name(gpu)}",
                now.why("lost") or "GPU is lost",
                "NVML, NVML_ERROR_GPU_IS_LOST",
            ),
        )
        for gpu, now in case.read
        if now.lost
    ]
    gone += [
        _Gone(
            gpu.address,
            (
                f"end of the registration of {case.name(gpu)} with the fabric",
                GONE,
                "NVML nvmlDeviceGetGpuFabricInfoV",
            ),
        )
        for gpu in told
    ]
    gone += _named(case, {gpu.device for gpu in gone})
    nameless: list[Proof] = []
    if len(case.gpus) == len(case.machine.gpus):  # some were chosen: the others do not count
        nameless = [
            ("what the driver said", problem.text, problem.source)
            for problem in problems
            if not problem.devices
        ]
        gone += [_Gone(gpu.address, (f"GPU {gpu.address}", *_NO_MORE)) for gpu in _vanished(case)]
    return [_finding(case, gone, nameless)] if gone or nameless else []


def _named(case: Case, known: set[str]) -> list[_Gone]:
    """The GPUs of which the driver said so while it was asked something else."""
    places = places_of(case)
    examined = {gpu.address for gpu in case.gpus}
    whole = len(case.gpus) == len(case.machine.gpus)
    found: dict[str, _Gone] = {}
    for problem in case.snapshot.problems:
        for name in problem.devices if problem.kind == KIND else ():
            device = places.get(name, name)
            counts = device in examined or (whole and device.startswith(NUMBERED))
            if counts and device not in known:
                what = ("what the driver said", problem.text, problem.source)
                found.setdefault(device, _Gone(device, what))
    return list(found.values())


def _finding(case: Case, gone: list[_Gone], nameless: list[Proof]) -> Finding:
    devices = list(dict.fromkeys(gpu.device for gpu in gone))
    addresses = [device for device in devices if not device.startswith(NUMBERED)]
    names = named(case, devices)
    evidence = {gpu.evidence: None for gpu in gone} | dict.fromkeys(nameless)
    return LOST.finding(
        BROKEN,
        f"fallen off the bus: {names or 'a GPU'}",
        devices=addresses,
        evidence=list(evidence),
        impact=_loss(case, devices),
        fix=[
            (
                "Read why: Xid 79 says that the GPU has fallen off the bus. "
                "# dmesg | grep -i xid | tail -n 20"
            ),
            "Drain the node and restart it cold; check power cable, seat and heat.",
        ],
    )


def _loss(case: Case, devices: list[str]) -> str:
    here = [gpu for gpu in case.gpus if gpu.address not in devices]
    total = len({*devices, *(gpu.address for gpu in case.gpus)})
    left = f" {len(here)} of {total} GPUs are left." if devices else ""
    return f"Its jobs have crashed, and new ones do not get it until the node restarts.{left}"


def _vanished(case: Case) -> list[Gpu]:
    """GPUs of the earlier reading whose driver answers and does not know them any more."""
    if case.earlier is None:
        return []
    named = [gpu for gpu in case.machine.gpus if gpu.uuid is not None]
    here, answered = {gpu.uuid for gpu in case.machine.gpus}, {gpu.vendor for gpu in named}
    packages = {gpu.parent or gpu.address for gpu in named}
    return [
        gpu
        for gpu in case.earlier.machine.gpus
        if gpu.uuid is not None
        and gpu.uuid not in here
        and gpu.vendor in answered
        and not _may_be_elsewhere(case, gpu, case.earlier.machine.host)
        # Another card is there now, or the package is partitioned differently.
        and (gpu.parent or gpu.address) not in packages
    ]


def _may_be_elsewhere(case: Case, gpu: Gpu, before: Host | None) -> bool:
    """Whether another container or job may have fewer GPUs, or a guest own this one by now."""
    device, job = case.pci(gpu.address), _job(case.host)
    others = case.may_hide_devices and not (job and job == _job(before))
    return given_away(device) or (others and (not case.machine.pci or device is not None))


_NOUVEAU = "nouveau"


_NO_MORE = ("in the earlier reading, not in this one", "NVML nvmlDeviceGetHandleByIndex")


def _job(host: Host | None) -> tuple[str | None, ...]:
    """The batch job and its host, whose devices stay the same until its end; () outside a job."""
    box = host.container if host is not None else None
    return (box.job, box.kind, host.hostname) if host and box and box.job else ()


_TOLD_APART = (("uuid", "UUID"), ("minor", "number of the device node"))


def _twins(case: Case) -> Found:
    """A driver that gives two GPUs one name was asked about one of them twice, or mixes them up."""
    whole = [gpu for gpu in case.gpus if gpu.partition is None and gpu.parent is None]
    held: dict[tuple[str, object], list[Gpu]] = {}
    for field, what in _TOLD_APART:
        for gpu in whole:
            if (value := getattr(gpu, field)) is not None:
                held.setdefault((f"{what} of {gpu.vendor}", value), []).append(gpu)
    needed(held)
    twins = faulty({key: gpus for key, gpus in held.items() if len(gpus) > 1})
    mixed = list(dict.fromkeys(gpu.address for gpus in twins.values() for gpu in gpus))
    return TWINS.finding(
        CANNOT_TELL,
        f"the driver does not tell {case.names(mixed)} apart",
        devices=mixed,
        evidence=[
            (f"{what}: {case.names(gpus)}", str(value), case.source)
            for (what, value), gpus in twins.items()
        ],
        impact="What it says of one may be said of another: some of them were not examined.",
        fix=["Ask the vendor's own tool for the UUIDs; if they are equal there, load the driver "
             "again."],
    )  # fmt: skip


TWINS = Rule(
    id="gpu-twins",
    family="D33",
    title="GPUs that the driver does not tell apart",
    evidence="UUID and device node of each GPU",
    disproof="different UUIDs in {asked}",
    asked=((NVIDIA.id, "`nvidia-smi -L`"), (AMD.id, "`amd-smi list`")),
    sources=("nvml.h nvmlDeviceGetUUID: globally unique",),
    check=_twins,
)
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
LOST = Rule(
    id="gpu-lost",
    family="D33",
    title="GPUs that the driver has lost",
    evidence="the driver's answer for each GPU, and an earlier reading where there is one",
    disproof="an answer of `nvidia-smi -q -i N` for this GPU",
    disproof_by=((AMD.id, "an answer of `amd-smi static` for this GPU"),),
    sources=("NVIDIA Xid 79", "DCGM error FALLEN_OFF_BUS", "NVIDIA/gpu-operator#2511"),
    check=_lost,
    without_gpus=True,
)
RULES = (LOST, WITHOUT_DRIVER, TWINS)
