"""Memory of the GPUs: errors that ECC could not correct, rows and pages that are to be replaced.

NVIDIA GPU Memory Error Management: from the A100 on a bad row is replaced by a spare one at the
next reset; before that a bad page (two corrected errors at one address, or one that could not be
corrected) is taken out of use when the driver loads again.
"""

from ....hardware.vendors import AMD, NVIDIA
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.readings import EccCounts
from ....model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW, Severity
from ... import vendors
from ...case import Case
from ...gpu_rule import of_gpus
from ...rule import Found, Rule, Step, faulty, needed
from ...shared.counters import news

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
    return [(gpu, now.ecc) for gpu, now in case.read if now.ecc is not None]


def _uncorrected(case: Case) -> Found:
    known = [(gpu, ecc.uncorrected_volatile) for gpu, ecc in _counts(case)]
    new: list[tuple[Gpu, str]] = []
    old: list[tuple[Gpu, str]] = []
    for gpu, now in needed([(gpu, now) for gpu, now in known if now is not None]):
        before = _before(case, gpu)
        if grown := news(now, before):
            new.append((gpu, f"{grown} since the earlier reading, {now} since the driver loaded"))
        elif now and before is None:
            old.append((gpu, f"{now} since the driver loaded"))
    return [
        *([_uncorrected_finding(case, new, fresh=True)] if new else []),
        *([_uncorrected_finding(case, old, fresh=False)] if old else []),
    ]


def _before(case: Case, gpu: Gpu) -> int | None:
    reading = case.earlier_reading(gpu)
    return None if reading is None or reading.ecc is None else reading.ecc.uncorrected_volatile


def _uncorrected_finding(case: Case, counted: list[tuple[Gpu, str]], *, fresh: bool) -> Finding:
    gpus = [gpu for gpu, _ in counted]
    return of_gpus(
        UNCORRECTED,
        case,
        counted,
        BROKEN if fresh else NOTICE,
        f"{'new ' if fresh else ''}memory errors that ECC could not correct on {{gpus}}",
        ("uncorrected errors", lambda _, value: value, f"{_ECC_CALL}, volatile"),
        impact=(
            f"Each such error ends the process that uses the memory{_xids(gpus)}."
            if fresh
            else "A process was ended by each; when it was, one reading does not tell. A second "
            "reading shows whether they go on (`gputop check --since FILE`)."
        ),
        fix=[
            vendors.reset(gpus, "Drain the GPU and reset it, so that bad rows are replaced."),
            vendors.step(
                gpus,
                "Test the memory before the GPU goes back into service.",
                nvidia="dcgmi diag -r 3",
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
    known = needed([(gpu, ecc) for gpu, ecc in _counts(case) if getattr(ecc, field) is not None])
    hit = faulty([(gpu, ecc) for gpu, ecc in known if getattr(ecc, field)])
    return of_gpus(
        rule,
        case,
        hit,
        severity,
        f"{title} on {{gpus}}",
        (
            f"{field.replace('_', ' ')}, {{gpu}}",
            lambda _, ecc: f"yes{_rows(ecc)}",
            _CALLS[field],
        ),
        impact=impact,
        fix=[_remedy([gpu for gpu, _ in hit], severity)],
    )


def _remedy(gpus: list[Gpu], severity: Severity) -> Step:
    if severity == BROKEN:
        return "Take the GPU out of service and have it replaced."
    if severity == CANNOT_TELL:
        return "Test the memory. $ dcgmi diag -r 3"
    return vendors.reset(gpus, "Drain the GPU and reset it.")


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
