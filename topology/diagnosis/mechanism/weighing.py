"""A fault of the hardware beside a program's complaint: the hardware may be why it complains."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ...model.finding import Candidate, Finding
from ...model.machine import Gpu
from ...model.severity import CANNOT_TELL, NOTICE, Origin, Sureness
from .boards import without_switches

FAULTS = (
    "ecc-uncorrected", "gpu-lost", "row-remap-failed", "row-remap-pending", "cuda-ecc",
    "xid-bus", "gpu-unanswered", "xid-memory", "xid-gsp", "xid-nvlink", "xid-hang", "xid-recovery",
    "nvswitch-fatal", "pcie-uncorrected", "amdgpu-memory", "amdgpu-xgmi", "nic-firmware",
    "machine-check", "fabric-not-ready", "gpu-recovery",
)  # fmt: skip
"""Findings of rules after which programs on the GPU fail in other words."""
COMPLAINTS = (
    "program-out-of-memory", "cuda-out-of-memory", "cuda-alloc-failed", "cuda-crashed",
    "cuda-unknown", "cuda-other", "gpu-unavailable", "cuda-not-initialized", "cuda-800",
    "rank-ended", "program-failed", "watchdog-timeout",
)  # fmt: skip
"""What programs say of a GPU that fails, as well as of many other things."""
_AT_MOST = NOTICE.order + 1
_SIZE = re.compile(r"\d ?(?:[KMG]i?B|bytes)\b")


def weighed(told: Sequence[Finding], gpus: Sequence[Gpu] = ()) -> list[Finding]:
    """The same findings, where complaints beside a fault of the hardware are no proven causes.

    What needs NVSwitches is blamed on none of `gpus`, where these have none.

    A fault of unknown age (a notice) puts no complaint in doubt that shows its own cause, as one
    does that tells how much memory was wanted.
    """
    findings = without_switches(told, gpus)
    faults = [one for one in findings if one.id in FAULTS and one.severity.order < _AT_MOST]
    # What only a sentence tells of is no fault of this machine.
    faults = [one for one in faults if one.severity.counts or one.sureness != Sureness.POSSIBLE]
    proven = [one for one in faults if one.severity.counts]
    return [
        _doubted(one, doubts)
        if one.id in COMPLAINTS
        and one.severity.counts
        and (doubts := proven if _tells_sizes(one) else faults)
        else one
        for one in findings
    ]


def _tells_sizes(complaint: Finding) -> bool:
    return any(_SIZE.search(fact.value) for fact in complaint.evidence)


def _doubted(complaint: Finding, faults: Sequence[Finding]) -> Finding:
    hardware = [
        Candidate(
            cause=f"The hardware: {fault.title}. Programs on it fail in such words.",
            supported_by=tuple(fact.value for fact in fault.evidence[:1]),
            needs=fault.look[0] if fault.look else "whether it was that GPU: the rank's device",
            fix=fault.fix[:1],
        )
        for fault in faults
    ]
    own = complaint.candidates or (
        Candidate(
            cause=f"The program alone: {complaint.title}.",
            needs=complaint.look[0] if complaint.look else "the same run on another GPU",
            fix=complaint.fix[:1],
        ),
    )
    return msgspec.structs.replace(
        complaint,
        title=f"a program complains: {complaint.evidence[0].value}" if complaint.evidence else "",
        severity=max(complaint.severity, CANNOT_TELL, key=lambda one: one.order),
        cause="",
        fix=hardware[0].fix,
        candidates=(*hardware, *own),
        sureness=Sureness.POSSIBLE,
        origin=complaint.origin or Origin.LOG,
    )
