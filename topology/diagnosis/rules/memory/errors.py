"""Memory of the GPUs: errors that ECC could not correct, rows and pages that are to be replaced.

NVIDIA GPU Memory Error Management: from the A100 on a bad row is replaced by a spare one at the
next reset; before that a bad page (two corrected errors at one address, or one that could not be
corrected) is taken out of use when the driver loads again.
"""

from __future__ import annotations

from ....hardware.vendors import AMD, NVIDIA
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.page import Fix
from ....model.readings import EccCounts
from ....model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW, Severity
from ... import vendors
from ...case import Case
from ...rule import Found, Rule, Step

_GUIDE = "NVIDIA GPU Memory Error Management"
_ECC_CALL = "NVML nvmlDeviceGetTotalEccErrors"
_ROWS_CALL = "NVML nvmlDeviceGetRemappedRows"
_CALLS = {
    "remap_pending": _ROWS_CALL,
    "remap_failed": _ROWS_CALL,
    "retirement_pending": "NVML nvmlDeviceGetRetiredPagesPendingStatus",
    "unrepairable": "NVML nvmlDeviceGetUnrepairableMemoryFlag_v1",
}


def _counts(case: Case) -> list[tuple[Gpu, EccCounts]]:
    return [
        (gpu, reading.ecc)
        for gpu in case.gpus
        if (reading := case.reading(gpu)) is not None and reading.ecc is not None
    ]


def _reset(gpus: list[Gpu], text: str) -> Step:
    numbers = ",".join(str(gpu.index) for gpu in gpus if gpu.index is not None)
    return Fix(
        text=text,
        command=vendors.command(
            gpus,
            nvidia=f"nvidia-smi --gpu-reset -i {numbers}" if numbers else "nvidia-smi --gpu-reset",
            amd=f"amd-smi reset --gpureset --gpu {numbers.replace(',', ' ') or 'all'}",
        ),
        needs_root=True,
    )


def _uncorrected(case: Case) -> Found:
    known = [(gpu, ecc.uncorrected_volatile) for gpu, ecc in _counts(case)]
    seen = [(gpu, now) for gpu, now in known if now is not None]
    if not seen:
        return None
    new: list[tuple[Gpu, str]] = []
    old: list[tuple[Gpu, str]] = []
    for gpu, now in seen:
        before = _before(case, gpu)
        # A count that went down started anew when the driver loaded, after the earlier reading.
        grown = None if before is None else now - before if now >= before else now
        if grown:
            new.append((gpu, f"{grown} since the earlier reading, {now} since the driver loaded"))
        elif now and before is None:
            old.append((gpu, f"{now} since the driver loaded"))
    found = []
    if new:
        found.append(_uncorrected_finding(case, new, fresh=True))
    if old:
        found.append(_uncorrected_finding(case, old, fresh=False))
    return found


def _before(case: Case, gpu: Gpu) -> int | None:
    reading = case.earlier_reading(gpu)
    return None if reading is None or reading.ecc is None else reading.ecc.uncorrected_volatile


def _uncorrected_finding(case: Case, counted: list[tuple[Gpu, str]], *, fresh: bool) -> Finding:
    gpus = [gpu for gpu, _ in counted]
    names = case.names(gpus)
    return UNCORRECTED.finding(
        BROKEN if fresh else NOTICE,
        f"{'new ' if fresh else ''}memory errors that ECC could not correct on {names}",
        devices=gpus,
        evidence=[
            (
                f"uncorrected errors of {case.name(gpu)}",
                value,
                vendors.source([gpu], f"{_ECC_CALL}, volatile"),
            )
            for gpu, value in counted
        ],
        impact=(
            f"Each such error ends the process that uses the memory{_xids(gpus)}."
            if fresh
            else "A process was ended by each; when it was, one reading does not tell. A second "
            "reading shows whether they go on (`gputop check --since FILE`)."
        ),
        fix=[
            _reset(gpus, "Drain the GPU and reset it, so that bad rows are replaced."),
            Fix(
                text="Test the memory before the GPU goes back into service.",
                command=vendors.command(gpus, nvidia="dcgmi diag -r 3"),
            ),
        ],
    )


def _xids(gpus: list[Gpu]) -> str:
    return "" if vendors.amd(gpus) else " (Xid 48, 63, 64, 94 or 95)"


def _remap_pending(case: Case) -> Found:
    return _flagged(
        case,
        REMAP_PENDING,
        "remap_pending",
        SLOW,
        "a row of memory waits to be replaced",
        "The bad row stays until the GPU is reset; its page is out of use, or ends a process.",
    )


def _remap_failed(case: Case) -> Found:
    return _flagged(
        case,
        REMAP_FAILED,
        "remap_failed",
        BROKEN,
        "no spare row is left for bad memory",
        "The bad memory stays in use: processes on it end with uncorrected errors.",
    )


def _unrepairable(case: Case) -> Found:
    """The flag counts as a fault only beside errors: drivers set it on memory without any, too."""
    hit = [ecc for _, ecc in _counts(case) if ecc.unrepairable]
    proven = any(map(_worn, hit))
    return _flagged(
        case,
        UNREPAIRABLE,
        "unrepairable",
        BROKEN if proven else CANNOT_TELL,
        "memory that cannot be repaired"
        if proven
        else "memory is flagged as beyond repair, with no error counted,",
        "What fails next has no spare (Xid 157): jobs run on, and one that meets the bad memory "
        "ends with an uncorrected error."
        if proven
        else "Either the flag or the counts are wrong: a second source has to say which.",
    )


def _worn(ecc: EccCounts) -> bool:
    """Whether anything was counted that wears memory out."""
    return bool(
        ecc.uncorrected_volatile
        or ecc.uncorrected_aggregate
        or ecc.rows_remapped_uncorrected
        or ecc.rows_remapped_corrected
        or ecc.remap_failed
    )


def _retirement_pending(case: Case) -> Found:
    return _flagged(
        case,
        RETIREMENT_PENDING,
        "retirement_pending",
        SLOW,
        "a bad page of memory is still in use",
        "Until the driver loads again, a process that gets this page can end with an error.",
    )


def _flagged(
    case: Case, rule: Rule, field: str, severity: Severity, title: str, impact: str
) -> Found:
    """A finding about one flag of EccCounts; if it is BROKEN, a reset does not help."""
    known = [(gpu, ecc) for gpu, ecc in _counts(case) if getattr(ecc, field) is not None]
    if not known:
        return None
    hit = [(gpu, ecc) for gpu, ecc in known if getattr(ecc, field)]
    if not hit:
        return []
    gpus = [gpu for gpu, _ in hit]
    return rule.finding(
        severity,
        f"{title} on {case.names(gpus)}",
        devices=gpus,
        evidence=[
            (
                f"{field.replace('_', ' ')}, {case.name(gpu)}",
                f"yes{_rows(ecc)}",
                vendors.source([gpu], _CALLS[field]),
            )
            for gpu, ecc in hit
        ],
        impact=impact,
        fix=[_remedy(gpus, severity)],
    )


def _remedy(gpus: list[Gpu], severity: Severity) -> Step:
    if severity == BROKEN:
        return "Take the GPU out of service and have it replaced."
    if severity == CANNOT_TELL:
        return "Test the memory. $ dcgmi diag -r 3"
    return _reset(gpus, "Drain the GPU and reset it.")


def _rows(ecc: EccCounts) -> str:
    counted = [
        f"{word}: {count}"
        for count, word in (
            (ecc.rows_remapped_uncorrected, "rows replaced after uncorrected errors"),
            (ecc.rows_remapped_corrected, "rows replaced after corrected errors"),
            (ecc.pages_retired_double, "pages retired after uncorrected errors"),
            (ecc.pages_retired_single, "pages retired after corrected errors"),
        )
        if count
    ]
    return f" ({'; '.join(counted)})" if counted else ""


UNCORRECTED = Rule(
    id="ecc-uncorrected",
    title="memory errors that ECC could not correct",
    evidence="uncorrected errors since the driver loaded, and the same in an earlier reading",
    disproof="the same count in a second reading; errors of the whole life of the GPU do not count",
    sources=(_GUIDE, "NVIDIA Xid 48, 63, 64, 94, 95", "DCGM error DCGM_FR_VOLATILE_DBE_DETECTED"),
    check=_uncorrected,
)
REMAP_PENDING = Rule(
    id="row-remap-pending",
    title="rows of memory that wait for a reset to be replaced",
    evidence="the state of row remapping",
    vendor=NVIDIA.id,
    disproof="`nvidia-smi -q -d ROW_REMAPPER` with Pending: No",
    sources=(_GUIDE, "DCGM error DCGM_FR_PENDING_ROW_REMAP", "Azure/azurehpc-health-checks"),
    check=_remap_pending,
)
REMAP_FAILED = Rule(
    id="row-remap-failed",
    title="rows of memory that could not be replaced",
    evidence="the state of row remapping",
    vendor=NVIDIA.id,
    disproof="`nvidia-smi -q -d ROW_REMAPPER` with Remapping Failure Occurred: No",
    sources=(_GUIDE, "DCGM error DCGM_FR_ROW_REMAP_FAILURE"),
    check=_remap_failed,
)
UNREPAIRABLE = Rule(
    id="memory-unrepairable",
    title="memory that can be neither repaired nor replaced",
    evidence="the driver's flag for it",
    vendor=NVIDIA.id,
    disproof="`nvidia-smi -q -d ECC` with Unrepairable Memory: No",
    sources=(
        "NVML nvmlUnrepairableMemoryStatus_v1_t",
        "DCGM field DCGM_FI_DEV_MEMORY_UNREPAIRABLE_FLAG",
        "NVIDIA Xid 157",
    ),
    check=_unrepairable,
)
RETIREMENT_PENDING = Rule(
    id="page-retirement-pending",
    title="pages of memory that wait to be taken out of use",
    evidence="the state of page retirement",
    disproof="`nvidia-smi -q -d PAGE_RETIREMENT` with Pending Page Blacklist: No",
    disproof_by=((AMD.id, "`amd-smi bad-pages` without a page that is pending"),),
    sources=("NVIDIA Dynamic Page Retirement", _GUIDE),
    check=_retirement_pending,
)
RULES = (UNCORRECTED, UNREPAIRABLE, REMAP_FAILED, REMAP_PENDING, RETIREMENT_PENDING)
