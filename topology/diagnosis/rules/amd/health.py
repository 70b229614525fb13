"""What AMD's driver reports of a GPU: throttling, ECC errors of its blocks, bad pages."""

from ....hardware.vendors import AMD
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.readings import EccBlock, GpuReading
from ....model.severity import BROKEN, NOTICE, SLOW, Severity
from ...case import Case
from ...gpu_rule import of_gpus
from ...rule import Found, Rule, faulty, needed
from ...shared.counters import news

HEAT = {
    "socket thermal": "the package",
    "hbm thermal": "its memory",
    "vr thermal": "its voltage regulators",
}
"""Words of throttle_reasons that name a sensor."""
_PROCHOT = "prochot"
_NAMED = {_PROCHOT, *HEAT}
_WORDS = (_PROCHOT, *HEAT, "throttled, reason not told")
_OTHERS = ("UMC", "XGMI_WAFL")
"""The blocks of memory and xGMI, which have rules of their own."""


def _check_throttle(case: Case) -> Found:
    known = needed(
        [
            (gpu, now, [word for word in now.throttle_reasons if word in _WORDS])
            for gpu, now in case.read
            if gpu.vendor == AMD.id and now.throttle_reasons is not None
        ]
    )
    limit = case.threshold(THROTTLE, "busy_percent")
    groups: dict[Severity, list[tuple[Gpu, GpuReading, list[str]]]] = {}
    for gpu, now, words in faulty([entry for entry in known if entry[2]]):
        busy = now.utilization_percent is None or now.utilization_percent >= limit
        harm = SLOW if busy and not _NAMED.isdisjoint(words) else NOTICE
        groups.setdefault(harm, []).append((gpu, now, words))
    return [
        of_gpus(
            THROTTLE,
            case,
            chosen,
            harm,
            f"{_cause({word for _, _, words in chosen for word in words})} slows {{gpus}} down",
            (
                "clocks of {gpu} are held by",
                _held,
                "amdsmi gpu_metrics, amdsmi_get_violation_status",
            ),
            impact="Clocks drop under load; a collective waits for the slowest GPU."
            if harm == SLOW
            else "At rest, or without a reason, this costs nothing that can be shown; look "
            "again under load.",
            fix=[
                "Check fans, air flow, coolant, inlet temperature, power supplies.",
                "Watch whether it stays. $ amd-smi metric --power --temperature --clock",
            ],
        )
        for harm, chosen in groups.items()
    ]


def _held(_: Gpu, now: GpuReading, words: list[str]) -> str:
    warm = [f"{now.temperature_c} °C"] if now.temperature_c else []
    memory = [f"memory {now.temperature_memory_c} °C"] if now.temperature_memory_c else []
    return ", ".join([*words, *warm, *memory])


def _cause(words: set[str]) -> str:
    hot = [HEAT[word] for word in HEAT if word in words]
    if hot:
        return f"heat ({', '.join(hot)})"
    return "PROCHOT" if _PROCHOT in words else "something"


def _check_blocks(case: Case) -> Found:
    known = needed(
        [
            (gpu, ecc_block, ecc_block.uncorrected)
            for gpu, now in case.read
            if gpu.vendor == AMD.id
            for ecc_block in now.ecc_blocks
            if ecc_block.block not in _OTHERS and ecc_block.uncorrected is not None
        ]
    )
    new: list[tuple[Gpu, EccBlock, int]] = []
    old: list[tuple[Gpu, EccBlock, int]] = []
    for gpu, ecc_block, count in known:
        before = _before(case, gpu, ecc_block.block)
        if grown := news(count, before):
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
        (gpu, now.ecc.pages_retired_double)
        for gpu, now in case.read
        if gpu.vendor == AMD.id and now.ecc is not None
    ]
    known = needed([(gpu, count) for gpu, count in known if count is not None])
    return of_gpus(
        PAGES,
        case,
        faulty([(gpu, count) for gpu, count in known if count]),
        NOTICE,
        "bad pages of memory on {gpus}",
        ("bad pages", lambda _, count: str(count), "amdsmi amdsmi_get_gpu_bad_page_info"),
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
