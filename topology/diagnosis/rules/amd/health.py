"""What AMD's driver reports of a GPU: throttling, ECC errors of its blocks, bad pages."""

from __future__ import annotations

from ....hardware.vendors import AMD
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.readings import EccBlock, GpuReading
from ....model.severity import BROKEN, NOTICE, SLOW, Severity
from ... import vendors
from ...case import Case
from ...rule import Found, Rule

HEAT = {
    "socket thermal": "the package",
    "hbm thermal": "its memory",
    "vr thermal": "its voltage regulators",
}
"""Words of throttle_reasons that name a sensor."""
_PROCHOT = "prochot"
_UNNAMED = "throttled, reason not told"
_WORDS = (_PROCHOT, *HEAT, _UNNAMED)
_MEMORY_BLOCK = "UMC"
_XGMI_BLOCK = "XGMI_WAFL"


def _check_throttle(case: Case) -> Found:
    throttling = [
        (gpu, reading, reading.throttle_reasons)
        for gpu in vendors.amds(case)
        if (reading := case.reading(gpu)) is not None and reading.throttle_reasons is not None
    ]
    if not throttling:
        return None
    hit = [(gpu, now, why) for gpu, now, why in throttling if any(word in _WORDS for word in why)]
    if not hit:
        return []
    limit = case.threshold(THROTTLE, "busy_percent")
    groups: dict[Severity, list[int]] = {}
    for place, (_, now, why) in enumerate(hit):
        named = _PROCHOT in why or any(word in HEAT for word in why)
        busy = now.utilization_percent is None or now.utilization_percent >= limit
        groups.setdefault(SLOW if named and busy else NOTICE, []).append(place)
    return [
        _throttled(case, severity, [hit[place] for place in places])
        for severity, places in groups.items()
    ]


def _throttled(
    case: Case, severity: Severity, chosen: list[tuple[Gpu, GpuReading, tuple[str, ...]]]
) -> Finding:
    """The finding about GPUs, their readings, and what holds their clocks down."""
    addresses = [gpu.address for gpu, _, _ in chosen]
    causes = {word for _, _, why in chosen for word in why if word in _WORDS}
    return THROTTLE.finding(
        severity,
        f"{_cause(causes)} slows {case.names(addresses)} down",
        devices=addresses,
        evidence=[
            (
                f"clocks of {case.name(gpu)} are held by",
                ", ".join(
                    [
                        *(word for word in why if word in _WORDS),
                        *([f"{now.temperature_c} °C"] if now.temperature_c else []),
                        *(
                            [f"memory {now.temperature_memory_c} °C"]
                            if now.temperature_memory_c
                            else []
                        ),
                    ]
                ),
                "amdsmi gpu_metrics, amdsmi_get_violation_status",
            )
            for gpu, now, why in chosen
        ],
        impact="Clocks drop under load; a collective waits for the slowest GPU."
        if severity == SLOW
        else "At rest, or without a reason, this costs nothing that can be shown; look "
        "again under load.",
        fix=[
            "Check fans, air flow, coolant, inlet temperature, power supplies.",
            "Watch whether it stays. $ amd-smi metric --power --temperature --clock",
        ],
    )


def _cause(words: set[str]) -> str:
    hot = [HEAT[word] for word in HEAT if word in words]
    if hot:
        return f"heat ({', '.join(hot)})"
    return "PROCHOT" if _PROCHOT in words else "something"


def _check_blocks(case: Case) -> Found:
    known = [
        (gpu, ecc_block)
        for gpu in vendors.amds(case)
        if (reading := case.reading(gpu)) is not None
        for ecc_block in reading.ecc_blocks
        if ecc_block.block not in (_MEMORY_BLOCK, _XGMI_BLOCK) and ecc_block.uncorrected is not None
    ]
    if not known:
        return None
    new: list[tuple[Gpu, EccBlock, int]] = []
    old: list[tuple[Gpu, EccBlock, int]] = []
    for gpu, ecc_block in known:
        count = ecc_block.uncorrected or 0
        before = _before(case, gpu, ecc_block.block)
        grown = 0 if before is None else count - before if count >= before else count
        if grown:
            new.append((gpu, ecc_block, grown))
        elif count and before is None:
            old.append((gpu, ecc_block, count))
    return [
        _block_finding(case, severity, those)
        for severity, those in ((BROKEN, new), (NOTICE, old))
        if those
    ]


def _before(case: Case, gpu: Gpu, block: str) -> int | None:
    reading = case.earlier_reading(gpu)
    counts = {ecc.block: ecc.uncorrected for ecc in (reading.ecc_blocks if reading else ())}
    return counts.get(block)


def _block_finding(
    case: Case, severity: Severity, those: list[tuple[Gpu, EccBlock, int]]
) -> Finding:
    addresses = list(dict.fromkeys(gpu.address for gpu, _, _ in those))
    fresh = severity == BROKEN
    return BLOCKS.finding(
        severity,
        f"{'new ' if fresh else ''}uncorrected errors in parts of {case.names(addresses)}",
        devices=addresses,
        evidence=[
            (
                f"uncorrected errors in {ecc_block.block} of {case.name(gpu)}",
                f"{count} since the {'earlier reading' if fresh else 'driver loaded'}",
                "amdsmi amdsmi_get_gpu_ecc_count",
            )
            for gpu, ecc_block, count in those
        ],
        impact="Each ends the process that met it, and the driver may reset the whole hive."
        if fresh
        else "When they came, one reading does not tell; a second one shows whether they go on "
        "(`gputop check --since FILE`).",
        fix=[
            "Read the counters of all blocks. $ amd-smi metric --ecc-blocks",
            "If they go on, drain the GPU and have it looked at.",
        ],
    )


def _check_pages(case: Case) -> Found:
    known = [
        (gpu, reading.ecc.pages_retired_double)
        for gpu in vendors.amds(case)
        if (reading := case.reading(gpu)) is not None and reading.ecc is not None
        if reading.ecc.pages_retired_double is not None
    ]
    if not known:
        return None
    bad = [(gpu, count) for gpu, count in known if count]
    if not bad:
        return []
    addresses = [gpu.address for gpu, _ in bad]
    return PAGES.finding(
        NOTICE,
        f"bad pages of memory on {case.names(addresses)}",
        devices=addresses,
        evidence=[
            (f"bad pages of {case.name(gpu)}", str(count), "amdsmi amdsmi_get_gpu_bad_page_info")
            for gpu, count in bad
        ],
        impact="The driver keeps a page from jobs once it has reserved it. A number that "
        "grows tells of memory that fails.",
        fix=[
            "List the pages. # amd-smi bad-pages",
            "If their number grows, have the GPU replaced.",
        ],
    )


THROTTLE = Rule(
    id="amd-throttled",
    title="AMD GPUs that heat or PROCHOT slows down",
    evidence="what held the clocks down, by the driver's counters",
    vendor=AMD.id,
    disproof="no such reason in `amd-smi metric` while a job runs; the power limit alone is normal",
    sources=("ROCm/amdsmi amdsmi_get_violation_status", "amdgpu gpu_metrics"),
    check=_check_throttle,
    thresholds=(("busy_percent", 5.0),),
)
BLOCKS = Rule(
    id="amd-ecc-block",
    title="uncorrected errors in parts of an AMD GPU other than memory and xGMI",
    evidence="error counters of each block",
    vendor=AMD.id,
    disproof="the same counts in a second reading of `amd-smi metric --ecc-blocks`",
    sources=("ROCm/amdsmi amdsmi_get_gpu_ecc_count", "Linux Documentation/gpu/amdgpu/ras.rst"),
    check=_check_blocks,
    implied_by=("ecc-uncorrected",),
)
PAGES = Rule(
    id="amd-bad-pages",
    title="bad pages of an AMD GPU's memory",
    evidence="the list of bad pages",
    vendor=AMD.id,
    disproof="`amd-smi bad-pages` without an entry",
    sources=("ROCm/amdsmi amdsmi_get_gpu_bad_page_info", "Linux amdgpu bad_page_threshold"),
    check=_check_pages,
)
RULES = (BLOCKS, THROTTLE, PAGES)
