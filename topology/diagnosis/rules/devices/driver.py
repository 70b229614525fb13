"""The driver as a whole: its versions, its silence, closed nodes, failed answers."""

import re
from collections.abc import Iterator, Sequence

from ....hardware.vendor import Vendor
from ....hardware.vendors import AMD, NVIDIA, VENDORS
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.page import Fix
from ....model.severity import BROKEN, CANNOT_TELL, NOTICE, Severity
from ....model.snapshot import Problem, ProblemKind, SourceState
from ....model.surroundings import Host
from ....sources import MAKERS
from ....sources.collect import ONLY_PCI
from ....sources.files.failures import CUT, ERROR, RESET
from ....sources.linux.device_nodes import KEPT_BACK, NO_PERMISSION
from ... import vendors
from ...case import Case
from ...device_access import minors
from ...rule import Found, NotRead, Proof, Rule, faulty
from .presence import COMPUTE_CLASSES, NUMBERED, named, places_of, unmanaged

_NVML = ("nvml", "nvml_readings")
"""Sources that ask NVIDIA's driver."""
_AMDSMI = ("amdsmi", "amdsmi_readings")
"""Sources that ask AMD's library."""
_HANGS = "not answering"
_SILENT = (_HANGS, "failed", "absent")
_NODE = re.compile(r"/dev/nvidia(\d{1,4})$")
_KFD = "/dev/kfd"
_CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm")
"""Device nodes without which no process computes on an NVIDIA GPU."""
_DENIED = "denied"
_SENSOR = re.compile(r"ERR!: (?:power_draw|current_power_limit|gpu_temp|fan_speed) of \S+$")
"""A tool's answer where one sensor alone of a GPU gave no value."""
_RELEASE = re.compile(r"\d{2,4}\.\d{1,4}(\.\d{1,4})?")
_VERSION = re.compile(r"^\d{1,2}\.(\d{2,4}\.\d{1,4}(?:\.\d{1,4})?)$")
"""NVML's own version: the CUDA release, then that of the library, "13.580.159.04"."""
_RESTART = (
    "Restart the node, or unload and load the modules when nothing uses a GPU. "
    "# modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia && modprobe nvidia"
)


def _nvidia(case: Case) -> list[Gpu]:
    return [gpu for gpu in case.gpus if gpu.vendor == NVIDIA.id]


def _mismatch(case: Case) -> Found:
    reported = [
        ("what NVML said", problem.text, "NVML nvmlInit")
        for problem in case.snapshot.problems
        if problem.kind == ProblemKind.MISMATCH and problem.source in _NVML
    ]
    module, library = case.host.nvidia_module_version, _library(case)
    others = _modules(case) if module is not None else {}
    if not reported and (module is None or (library is None and not others)):
        return None
    found: list[Proof] = list(reported)
    if module and library and module != library:
        found.append(("library", library, "NVML nvmlSystemGetNVMLVersion"))
    found += [
        (f"module {name}", version, f"/sys/module/{name}/version")
        for name, version in sorted(others.items())
        if version != module
    ]
    faulty(found)
    if module:
        found.append(("module nvidia", module, "/proc/driver/nvidia/version"))
    return MISMATCH.finding(
        BROKEN,
        "NVIDIA's library and the loaded kernel driver have different versions",
        devices=_nvidia(case),
        evidence=found,
        impact="CUDA does not start for new jobs; those that run go on until they end.",
        fix=[_RESTART],
    )


def _library(case: Case) -> str | None:
    said = case.machine.software.nvml if case.machine.software else None
    match = _VERSION.match(said or "")
    return match.group(1) if match else None


def _modules(case: Case) -> dict[str, str]:
    """The modules beside NVIDIA's main one that have a release as their version."""
    return {
        loaded.name: loaded.version
        for loaded in case.host.modules
        if loaded.name.startswith("nvidia_") and loaded.name != "nvidia_peermem"
        if loaded.version is not None and _RELEASE.fullmatch(loaded.version)
    }


def _not_answering(case: Case) -> Found:
    found = [found for vendor in VENDORS if (found := _no_answer(case, vendor)) is not None]
    asked = case.on_node or any(gpu.uuid is not None for gpu in case.gpus)
    return found if found or asked else None


def _silent(case: Case, vendor: Vendor) -> list[Problem]:
    """What the libraries of a vendor said instead of an answer."""
    return [
        problem
        for problem in case.snapshot.problems
        if problem.source in vendor.sources
        and problem.kind in _SILENT
        # Without amdsmi, or where it does not start, the kernel's own files describe the GPUs.
        and (problem.kind == _HANGS or vendor is NVIDIA or problem.source in _AMDSMI)
    ]


def _mute(case: Case, gpus: Sequence[Gpu], silent: Sequence[Problem]) -> list[str]:
    """The GPUs that the silence is about: those that are named, else all."""
    if not silent or not all(problem.devices for problem in silent):
        return [gpu.address for gpu in gpus]
    places = places_of(case)
    named = dict.fromkeys(device for problem in silent for device in problem.devices)
    return [places.get(device, device) for device in named]


def _waits(state: SourceState) -> bool:
    return state.age_seconds is None and state.waiting_seconds is None


def _silence(
    case: Case, vendor: Vendor, devices: Sequence[str], evidence: Sequence[Proof]
) -> Finding:
    tool = "amd-smi list" if vendor is AMD else "nvidia-smi -L"
    whose = f"the driver of {named(case, devices)}" if devices else f"{vendor.name}'s driver"
    return NOT_ANSWERING.finding(
        CANNOT_TELL,
        f"no answer from {whose}",
        devices=[device for device in devices if not device.startswith(NUMBERED)],
        evidence=evidence,
        impact="State, links and errors of these GPUs are unknown; nothing of them is proven.",
        fix=[
            (
                "Ask the vendor's own tool; one that hangs too points to the driver. "
                f"$ timeout 20 {tool}"
            ),
            (
                "Read the kernel's log for what the driver reported. "
                "# dmesg | grep -iE 'NVRM|Xid|amdgpu' | tail -n 50"
            ),
        ],
    )


def _computes(case: Case, gpu: Gpu) -> bool:
    device = case.pci(gpu.address)
    code = device.class_code if device is not None else None
    return code is None or code >> 8 in COMPUTE_CLASSES


def _no_answer(case: Case, vendor: Vendor) -> Finding | None:
    gpus = [gpu for gpu in case.gpus if gpu.vendor == vendor.id]
    silent = _silent(case, vendor)
    if not silent and any(map(_waits, _states(case, vendor))):
        raise NotRead  # asked for the first time and still within its deadline
    known = any(gpu.why("uuid") != ONLY_PCI for gpu in gpus)
    hanging = any(problem.kind != ProblemKind.ABSENT for problem in silent)
    if (hanging and not case.gpus) or (silent and gpus and (hanging or not known)):
        evidence = [(problem.kind, problem.text, problem.source) for problem in silent]
        return _silence(case, vendor, _mute(case, gpus, silent), evidence)
    hidden = [gpu.address for gpu in unmanaged(case) if gpu.vendor == vendor.id]
    # Of a copy of /sys alone nobody asked a driver.
    if not case.on_node or not hidden or len(hidden) < len(gpus):
        return None
    what = f"GPUs of {vendor.name} that anything but PCI describes"
    return _silence(case, vendor, hidden, [(what, f"0 of {len(hidden)}", case.source)])


def _states(case: Case, vendor: Vendor) -> list[SourceState]:
    return [state for state in case.snapshot.states if state.source == vendor.sources[0]]


def _denied(case: Case) -> Found:
    denials = [
        problem
        for problem in case.snapshot.problems
        if problem.source in _NVML and problem.kind == _DENIED
    ]
    if case.host.device_nodes is None and not denials:
        return None
    closed = _closed(case.host)
    return [*_denied_nvidia(case, closed, denials), *_denied_amd(case, closed)]


def _closed(host: Host) -> list[str]:
    """The nodes that this user may not open."""
    nodes = host.device_nodes or ()
    refused = [node.removesuffix(NO_PERMISSION) for node in nodes if node.endswith(NO_PERMISSION)]
    kept = [node.removesuffix(KEPT_BACK) for node in nodes if node.endswith(KEPT_BACK)]
    # A closed control node stops everybody, whatever closes it; a GPU may belong to another job.
    return refused + [node for node in kept if node in (*_CONTROL, _KFD)]


def _by_minor(case: Case) -> dict[int, Gpu]:
    """NVIDIA's GPUs by the numbers of their nodes."""
    known = minors(case.host)
    numbered = [
        (known.get(gpu.address) if gpu.minor is None else gpu.minor, gpu) for gpu in _nvidia(case)
    ]
    return {minor: gpu for minor, gpu in numbered if minor is not None}


def _denied_nvidia(
    case: Case, closed: Sequence[str], denials: Sequence[Problem]
) -> Iterator[Finding]:
    by_minor = _by_minor(case)
    hidden = [gpu for gpu in unmanaged(case) if gpu.vendor == NVIDIA.id]
    numbers = {node: int(match[1]) for node in closed if (match := _NODE.match(node))}
    own = {node: by_minor[number] for node, number in numbers.items() if number in by_minor}
    control = {node for node in closed if node in _CONTROL} if _nvidia(case) else set()
    nameless = set(numbers) if hidden and not by_minor else set()
    shut = [node for node in closed if node in control | nameless | own.keys()]
    if shut or denials:
        gpus = _nvidia(case) if denials or control else list(own.values()) or hidden
        severity = CANNOT_TELL if denials or hidden else BROKEN
        yield _denied_finding(case, severity, gpus, shut, denials)


def _denied_amd(case: Case, closed: Sequence[str]) -> Iterator[Finding]:
    gpus = vendors.amds(case)
    # amdgpu makes its node for the graphics of a processor too.
    if gpus and _KFD in closed:
        # Beside GPUs that NVIDIA's driver serves, AMD's display controllers may be for the screen.
        screens = bool(_nvidia(case)) and not any(_computes(case, gpu) for gpu in gpus)
        yield _denied_finding(case, NOTICE if screens else BROKEN, gpus, [_KFD], ())


def _denied_finding(
    case: Case, severity: Severity, gpus: list[Gpu], shut: list[str], denials: Sequence[Problem]
) -> Finding:
    evidence = [(node, "may not be read and written", "access(2)") for node in shut]
    evidence += [("what NVML said", problem.text, "NVML") for problem in denials]
    return DENIED.finding(
        severity,
        f"no permission to use {case.names(gpus)}",
        devices=gpus,
        evidence=evidence,
        impact=(
            "These GPUs could not be examined, and a job of this user does not get them."
            if severity == CANNOT_TELL
            else "A job of this user finds no GPU, or fewer; the GPUs themselves may be well."
        ),
        fix=[
            "Add the user to the groups that own the nodes. # usermod -aG render,video USER"
            if _KFD in shut
            else (
                "See who owns the nodes; the driver's default lets everybody use them. "
                "$ ls -l /dev/nvidia*"
            ),
            "In a container or a job's cgroup, ask for the GPUs when it is started.",
        ],
    )


_READ_LOG = (
    "Read the kernel's log for what the driver reported. "
    "# dmesg | grep -iE 'NVRM|Xid|amdgpu' | tail -n 50"
)


def _problems(case: Case, kind: str) -> list[Problem] | None:
    """The problems of a kind with the examined GPUs; None where no driver was asked."""
    examined = {gpu.address for gpu in case.gpus}
    found = [
        problem
        for problem in case.snapshot.problems
        if problem.kind == kind
        and (not problem.devices or not examined.isdisjoint(problem.devices))
    ]
    asked = any(
        gpu.uuid is not None or (gpu.index is not None and not gpu.address.startswith("topo:"))
        for gpu in case.gpus
    )
    return found if found or asked else None


def _about(case: Case, problems: Sequence[Problem]) -> list[str]:
    """The GPUs that the problems name; all of the vendor where they name none."""
    named = {device for problem in problems for device in problem.devices}
    makers = {MAKERS.get(problem.source) for problem in problems if not problem.devices}
    return [gpu.address for gpu in case.gpus if gpu.address in named or gpu.vendor in makers]


def _evidence(case: Case, problems: Sequence[Problem]) -> list[Proof]:
    return [
        (
            f"answer of the driver for {case.names(_about(case, [problem])) or 'the node'}",
            problem.text,
            problem.source,
        )
        for problem in problems
    ]


def _reset(case: Case) -> Found:
    problems = _problems(case, RESET)
    if not problems:
        return None if problems is None else ()
    devices = _about(case, problems)
    numbers = ",".join(
        str(gpu.index) for gpu in case.gpus if gpu.address in devices and gpu.index is not None
    )
    return RESET_REQUIRED.finding(
        BROKEN,
        f"a reset is required of {case.names(devices)}",
        devices=devices,
        evidence=_evidence(case, problems),
        impact="The driver answers nothing more about the GPU before it is reset, and a "
        "process that starts on it fails.",
        fix=[
            Fix(
                text="End every process on the GPU and reset it; in a guest, whoever runs the "
                "host may have to.",
                # Without their numbers the command would reset all GPUs.
                command=f"nvidia-smi --gpu-reset -i {numbers}" if numbers else "",
                needs_root=True,
            ),
            _READ_LOG,
        ],
    )


def _unanswered(case: Case) -> Found:
    failed, cut = _problems(case, ERROR), _problems(case, CUT)
    if failed is None and not cut:
        return None
    return (*(_failed(case, failed) if failed else ()), *(_cut(case, cut) if cut else ()))


def _cut(case: Case, problems: Sequence[Problem]) -> Iterator[Finding]:
    """Not the driver's fault: what there is of something is more than we read."""
    yield FAILED.finding(
        CANNOT_TELL,
        "gputop did not read all there is: its own limits cut it off",
        devices=_about(case, [problem for problem in problems if problem.devices]),
        evidence=[("what was left out", problem.text, problem.source) for problem in problems],
        impact="What was left out was not examined. The limits keep gputop quick and small "
        "whatever is there; nothing that was asked has failed.",
        fix=["Tell its authors, with the text above, if a machine really has so many."],
    )


def _failed(case: Case, problems: Sequence[Problem]) -> Iterator[Finding]:
    devices = _about(case, problems)
    if devices and all(_SENSOR.match(problem.text) for problem in problems):
        yield _of_sensor(case, problems, devices)
        return
    yield FAILED.finding(
        CANNOT_TELL,
        f"the driver fails to answer about {case.names(devices) or 'the node'}",
        devices=devices,
        evidence=_evidence(case, problems),
        impact="What these questions are about was not examined. Such an answer is a "
        "failure of the driver or of the GPU: it has other words for what a product lacks.",
        fix=[
            vendors.step(
                case.gpus,
                "Ask the vendor's own tool; what it prints as ERR! or Unknown Error "
                "points to the same fault.",
                nvidia="nvidia-smi -q",
                amd="amd-smi metric",
            ),
            _READ_LOG,
        ],
    )


def _of_sensor(case: Case, problems: Sequence[Problem], devices: Sequence[str]) -> Finding:
    """One sensor gave no value where the driver answered about the GPU: mostly it passes."""
    return FAILED.finding(
        NOTICE,
        f"one sensor of {case.names(devices)} gave no value, and the driver answered the rest",
        devices=devices,
        evidence=_evidence(case, problems),
        impact="A single reading may fail and come back: of itself it is no fault of the GPU.",
        fix=[
            vendors.step(
                case.gpus,
                "Ask again. Nothing is to be done where the value comes back; where it stays "
                "away, the sensor, the fan or the GPU is at fault: read the kernel's log, drain "
                "the node and reset the GPU.",
                nvidia="nvidia-smi -q -d POWER,TEMPERATURE",
                amd="amd-smi metric",
            ),
            _READ_LOG,
        ],
    )


MISMATCH = Rule(
    id="driver-mismatch",
    title="a library and a kernel driver of different versions",
    evidence="the versions of the loaded modules and of NVML, and whether NVML starts",
    vendor=NVIDIA.id,
    disproof="`nvidia-smi` that starts, and one version in /proc/driver/nvidia/version and in it",
    sources=("nvml.h NVML_ERROR_LIB_RM_VERSION_MISMATCH",),
    check=_mismatch,
)
NOT_ANSWERING = Rule(
    id="driver-not-answering",
    title="a driver that does not answer",
    evidence="the answers of the driver's library",
    disproof="an answer of {asked} within seconds",
    asked=((NVIDIA.id, "`nvidia-smi -q`"), (AMD.id, "`amd-smi static`")),
    sources=("NVIDIA Xid 119 (GSP timeout)", "NVIDIA NVML API: nvmlInit"),
    check=_not_answering,
    without_gpus=True,
    implied_by=("driver-mismatch", "device-node-denied", "gpu-without-driver", "gpu-lost"),
)
DENIED = Rule(
    id="device-node-denied",
    title="device nodes that this user may not open",
    evidence="the rights on /dev/nvidia*, /dev/kfd",
    disproof="a process of this user that opens the node for reading and writing",
    sources=("NVIDIA driver README: device nodes", "ROCm install: render and video groups"),
    check=_denied,
    implied_by=("driver-mismatch",),
)
RESET_REQUIRED = Rule(
    id="gpu-reset-required",
    title="GPUs that do not answer until they are reset",
    evidence="the answers of the driver's library",
    vendor=NVIDIA.id,
    disproof="an answer of `nvidia-smi -q` for this GPU",
    sources=("nvml.h NVML_ERROR_RESET_REQUIRED",),
    check=_reset,
    implied_by=("gpu-lost",),
    each=True,
)
FAILED = Rule(
    id="driver-fails",
    title="queries that the driver fails to answer",
    evidence="the answers of the driver's library",
    disproof="an answer to the same question by {asked}",
    asked=((NVIDIA.id, "`nvidia-smi -q`"), (AMD.id, "`amd-smi static` and `amd-smi metric`")),
    sources=("nvml.h nvmlReturn_t", "amdsmi.h amdsmi_status_t"),
    check=_unanswered,
    implied_by=("gpu-lost", "gpu-reset-required"),
    each=True,
)
RULES = (MISMATCH, DENIED, NOT_ANSWERING, RESET_REQUIRED, FAILED)
