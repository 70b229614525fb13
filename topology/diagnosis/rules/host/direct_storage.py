"""GPUDirect Storage that is installed, and cannot take the direct way from a drive to a GPU.

What each statement rests on, all of docs.nvidia.com/gpudirect-storage:
- Without nvidia-fs.ko, or on a file system that is not supported, cuFile reads into host memory
  and copies from there ("compatibility mode"; api-reference-guide, cuFile Compatibility Mode).
  Where allow_compat_mode is false it refuses the file instead.
- nvidia-fs serves EXT4 in ordered mode and XFS on NVMe (nvidia_fs, Key Features).
- As of CUDA 12.8 P2PDMA of the kernel can take its place (getting-started, GDS Installation). It
  needs the open driver (deploy/gds-support-for-nvme), a GPU of Ampere or later, and on x86
  RMForceStaticBar1 in the driver's registry and no multipathing of NVMe (troubleshooting-guide,
  NVMe P2PDMA Troubleshooting).
- ACS and an IOMMU that translates send what goes between a drive and a GPU below one switch up to
  the root complex (best-practices-guide, System Settings).
"""

from __future__ import annotations

from collections.abc import Sequence

from ....hardware.vendors import NVIDIA
from ....model.element import NOT_IN_XML
from ....model.finding import Finding
from ....model.machine import Gpu, PciDevice
from ....model.record import by_address
from ....model.severity import NOTICE
from ....model.surroundings import DirectStorage, Drive
from ...case import Case
from ...pairs import meet_in_switch, way
from ...rule import Found, Proof, Rule, Step
from ...shared.redirecting import TRANSLATED, redirects

MODULE = "nvidia_fs"
REGISTRY_KEY = "rmforcestaticbar1=1"
CONFIG = "/etc/cufile.json"
LOCAL = "pcie"
AMPERE = 8
_SERVED = ("xfs", "ext4", "ext4 data=ordered")
_CHECK = "See what cuFile says itself. $ /usr/local/cuda/gds/tools/gdscheck -p"
_SOURCES = (
    "docs.nvidia.com/gpudirect-storage: api-reference-guide, cuFile Compatibility Mode",
    "docs.nvidia.com/gpudirect-storage: nvidia_fs, Key Features",
    "docs.nvidia.com/gpudirect-storage: getting-started, GDS Installation",
    "docs.nvidia.com/gpudirect-storage: troubleshooting-guide, NVMe P2PDMA Troubleshooting",
    "docs.nvidia.com/gpudirect-storage: best-practices-guide, System Settings",
)


def _check(case: Case) -> Found:
    drives = [one for one in case.machine.drives if one.address and one.transport in (None, LOCAL)]
    settings = case.machine.direct_storage
    if not drives:
        return None  # none, or nobody read them: there is nothing to examine
    loaded = _loaded(case)
    if settings is None or not (settings.library or loaded):
        return None  # nobody asked for it here, as far as is known
    if settings.compat_forced:
        why = [("force_compat_mode", "true", CONFIG)]
        return _through_host(case, drives, settings, why, ["Take force_compat_mode away."])
    if loaded is False:
        excluded = _no_p2pdma(case, settings)
        return _no_module(case, drives, settings, excluded) if excluded else None
    return _of_drives(case, drives, settings) if loaded else None


def _loaded(case: Case) -> bool | None:
    """Whether the module is loaded; None where nobody read the list of modules."""
    if not case.host.modules:
        return None
    return any(module.name == MODULE for module in case.host.modules)


def _no_p2pdma(case: Case, settings: DirectStorage) -> list[Proof]:
    """What excludes that the kernel's own P2PDMA takes the place of the module."""
    found: list[Proof] = []
    host = case.host
    if host.nvidia_module == "closed":
        found.append(("driver of the GPUs", "closed", "/proc/driver/nvidia/version"))
    old = [gpu for gpu in case.gpus if (major := _major(gpu)) is not None and major < AMPERE]
    if old and len(old) == len(case.gpus):
        what = "compute capability of the GPUs"
        found.append((what, str(old[0].compute_capability), "NVML"))
    if host.architecture == "x86_64":
        if settings.multipath:
            place = "/sys/module/nvme_core/parameters/multipath"
            found.append(("multipathing of NVMe", "on", place))
        keys = [key.lower().replace(" ", "") for key in host.nvidia_registry]
        known = host.why("nvidia_registry") is None and host.nvidia_module is not None
        if known and not any(REGISTRY_KEY in key for key in keys):
            place = "/proc/driver/nvidia/params"
            found.append(("RMForceStaticBar1 in the driver's registry", "not set", place))
    return found


def _major(gpu: Gpu) -> int | None:
    text = (gpu.compute_capability or "").partition(".")[0]
    return int(text) if text.isdecimal() and len(text) < 4 else None


def _no_module(
    case: Case, drives: Sequence[Drive], settings: DirectStorage, excluded: Sequence[Proof]
) -> Finding:
    evidence = [(f"kernel module {MODULE}", "not loaded", "/proc/modules"), *excluded]
    return _through_host(case, drives, settings, evidence, ["Load it. # modprobe nvidia-fs"])


def _through_host(
    case: Case,
    drives: Sequence[Drive],
    settings: DirectStorage,
    evidence: Sequence[Proof],
    fix: Sequence[Step],
) -> Finding:
    names = _named(drives)
    installed = settings.library or f"module {MODULE}"
    refused = settings.compat_allowed is False and not settings.compat_forced
    title = f"GPUDirect Storage: reads from {names} go through host memory"
    impact = "cuFile reads into host memory and copies from there: right, but slower, with CPU time"
    if refused:
        title = f"GPUDirect Storage: cuFile refuses files on {names}"
        impact = f"allow_compat_mode is false in {CONFIG}: cuFile gives an error, no slower way"
    return DIRECT_STORAGE.finding(
        NOTICE,
        title,
        devices=[str(drive.address) for drive in drives],
        evidence=[("GPUDirect Storage", f"{installed} is here", "this machine"), *evidence],
        impact=f"{impact}. Only programs that call cuFile notice it.",
        fix=[*fix, _CHECK],
    )


def _of_drives(case: Case, drives: Sequence[Drive], settings: DirectStorage) -> list[Finding]:
    """Drives that the module does not serve, and those whose way leads over the CPU."""
    found = []
    unserved = [one for one in drives if one.filesystems and not set(one.filesystems) & {*_SERVED}]
    if unserved:
        evidence = [
            (
                f"file systems on {one.name}",
                ", ".join(one.filesystems or ()),
                "/proc/self/mountinfo",
            )
            for one in unserved
        ]
        fix = ["Put the data on XFS, or on EXT4 in ordered mode."]
        found.append(_through_host(case, unserved, settings, evidence, fix))
    rest = [one for one in drives if one not in unserved]
    if case.in_vm is False and (turned := _turned(case, rest)):
        found.append(_up_to_the_cpu(turned, settings))
    return found


Turned = tuple[Drive, Gpu, tuple[PciDevice, ...]]
"""A drive and a GPU below one switch, and the devices on the way that send packets up."""


def _turned(case: Case, drives: Sequence[Drive]) -> list[Turned]:
    found = []
    for drive in drives:
        address = str(drive.address)
        for gpu in case.gpus:
            if not meet_in_switch(case, address, gpu.address):
                continue
            between = tuple(filter(redirects, way(case, address, gpu.address) or ()))
            ends = tuple(
                one
                for end in (address, gpu.address)
                if (one := case.pci(end)) is not None
                and one.iommu_type in TRANSLATED
                and one.why("driver") != NOT_IN_XML
            )
            if bad := between or ends:
                found.append((drive, gpu, bad))
    return found


def _up_to_the_cpu(turned: Sequence[Turned], settings: DirectStorage) -> Finding:
    drives = list({drive.name: drive for drive, _, _ in turned}.values())
    bad = by_address(one for _, _, several in turned for one in several)
    proofs: list[Proof] = [
        (f"ACS of {one.address}", " ".join(one.acs or ()), "PCI config space, ACS control")
        if redirects(one)
        else (f"IOMMU of {one.address}", str(one.iommu_type), "/sys/kernel/iommu_groups/*/type")
        for one in list(bad.values())[:6]
    ]
    installed = settings.library or f"module {MODULE}"
    return DIRECT_STORAGE.finding(
        NOTICE,
        f"GPUDirect Storage: reads from {_named(drives)} go up to the CPU, not through the switch",
        # With the GPUs, so that what is said of their own packets already is not said twice.
        devices=[
            *(str(drive.address) for drive in drives),
            *dict.fromkeys(gpu.address for _, gpu, _ in turned),
        ],
        evidence=[("GPUDirect Storage", f"{installed} is here", "this machine"), *proofs],
        impact="They share the link of the switch to the CPU instead of turning below it.",
        fix=["Switch off ACS on these bridges, or the IOMMU, where nothing needs them.", _CHECK],
    )


def _named(drives: Sequence[Drive]) -> str:
    names = [drive.name for drive in drives]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


DIRECT_STORAGE = Rule(
    id="gds-not-direct",
    title="NVMe drives that GPUDirect Storage does not reach directly",
    evidence="NVMe drives, libcufile or the module nvidia_fs, /etc/cufile.json, file systems, "
    "ACS and IOMMU between a drive and a GPU below one switch",
    disproof='`gdscheck -p` says "NVMe : Supported" or "NVMe P2PDMA : Supported", and `gdsio` '
    "with -x 0 is as fast as the drive",
    sources=_SOURCES,
    check=_check,
    vendor=NVIDIA.id,
    extra=True,
    implied_by=("acs-redirect", "iommu-translated"),
)
RULES = (DIRECT_STORAGE,)
