"""GPUs of which the driver could not answer a question, or not before they are reset."""

from __future__ import annotations

from collections.abc import Sequence

from ....hardware.vendors import AMD, NVIDIA
from ....model.page import Fix
from ....model.severity import BROKEN, CANNOT_TELL
from ....model.snapshot import Problem
from ....sources import MAKERS
from ....sources.files.failures import ERROR, RESET
from ... import vendors
from ...case import Case
from ...rule import Found, Proof, Rule

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


def _failed(case: Case) -> Found:
    problems = _problems(case, ERROR)
    if not problems:
        return None if problems is None else ()
    devices = _about(case, problems)
    return FAILED.finding(
        CANNOT_TELL,
        f"the driver fails to answer about {case.names(devices) or 'the node'}",
        devices=devices,
        evidence=_evidence(case, problems),
        impact="What these questions are about was not examined. Such an answer is a "
        "failure of the driver or of the GPU: it has other words for what a product lacks.",
        fix=[
            Fix(
                text="Ask the vendor's own tool; what it prints as ERR! or Unknown Error "
                "points to the same fault.",
                command=vendors.command(case.gpus, nvidia="nvidia-smi -q", amd="amd-smi metric"),
            ),
            _READ_LOG,
        ],
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
    check=_failed,
    implied_by=("gpu-lost", "gpu-reset-required"),
    each=True,
)
RULES = (RESET_REQUIRED, FAILED)
