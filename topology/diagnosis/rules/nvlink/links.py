"""NVLinks that are up or may be: inactive without a reason, circular, slow, with new errors."""

from collections.abc import Iterator

from ....hardware.vendors import AMD, NVIDIA
from ....model.machine import Gpu
from ....model.readings import GpuReading
from ....model.severity import CANNOT_TELL, NOTICE, SLOW
from ....model.units import gbs
from ....model.units import seconds as time_of
from ...case import Case
from ...gpu_rule import of_gpus
from ...rule import Found, Rule, faulty, needed
from ...shared.counters import both_readings, elapsed_seconds, growth, rate
from .down import REPAIR, STATE, down, links_read, price, up


def _check(case: Case) -> Found:
    """Look at meshes alone: on boards with NVSwitches `nvlink-down` has the last word."""
    known = links_read(case)
    if not known or case.in_vm is False:
        return None
    if case.in_vm or any(gpu.passed_through for gpu in known):
        return []
    meshed = [(gpu, case.sku(gpu)) for gpu in known if case.devices.part_of_mesh(gpu) and down(gpu)]
    counted = [(gpu, (sku.link_count if sku is not None else None) or 0) for gpu, sku in meshed]
    found = faulty([(gpu, count) for gpu, count in counted if 0 < up(gpu) < count])
    # A guest's GPUs have lost the same number of links, those to the GPUs of other guests.
    if len(known) > 1 and len(set(map(up, known))) == 1:
        return []
    links = sum(len(down(gpu)) for gpu, _ in found)
    total = sum(count for _, count in found)
    return of_gpus(
        INACTIVE,
        case,
        found,
        CANNOT_TELL,
        f"{links} of {total} NVLinks of {{gpus}} inactive: a fault, unless a guest has no GPU at "
        "their other ends",
        (
            "NVLinks of {gpu} that are up",
            lambda gpu, count: f"{up(gpu)} of {count}; inactive: {', '.join(map(str, down(gpu)))}",
            lambda gpu, count: f"{STATE}; {count} by the model's data sheet",
        ),
        impact=price(case, [(gpu, count, "") for gpu, count in found]),
        fix=(
            "Hold it against the other GPUs: those of a whole board have all their links, "
            "those of a guest as few as this one. $ nvidia-smi nvlink -s",
            "Ask whether this is a guest. $ systemd-detect-virt",
            *REPAIR[1:],
        ),
    )


def _check_itself(case: Case) -> Found:
    known = needed([(gpu, ends) for gpu in case.gpus if (ends := _ends(gpu))])
    loops = faulty([(gpu, ends) for gpu, ends in known if gpu.address in ends])
    return of_gpus(
        ITSELF,
        case,
        loops,
        SLOW,
        "links of {gpus} lead back to the GPU itself",
        (
            "links",
            lambda gpu, ends: (
                f"{ends.count(gpu.address)} of {len(ends)} to {gpu.address}, its own address"
            ),
            case.source,
        ),
        impact=f"{case.words.library} counts them and can send nothing over them: where "
        "they really lead it uses PCIe or the network.",
        fix=[
            "Let the library write the file anew on this machine, without NCCL_TOPO_FILE "
            "set. $ export NCCL_TOPO_DUMP_FILE=system.xml",
            "See where each link leads. $ nvidia-smi nvlink -p",
        ],
    )


def _ends(gpu: Gpu) -> list[str]:
    ends = [link.remote_address for link in gpu.nvlinks]
    ends += [link.remote_address for link in gpu.xgmi]
    return [end for end in ends if end is not None]


SPEED = "NVML field NVLINK_SPEED_MBPS"
_SAME_RATE = 0.98


def _check_rate(case: Case) -> Found:
    rates = [
        (gpu, link.link, link.raw_gbs)
        for gpu in links_read(case)
        for link in gpu.nvlinks
        if link.active
    ]
    known = needed([(gpu, link, raw) for gpu, link, raw in rates if raw])
    best: dict[str | None, float] = {}
    for gpu, _, raw in known:
        sku = case.sku(gpu)
        # The data sheet gives the payload, which is below the raw rate in every generation.
        sheet = (sku.link_gbs if sku is not None else None) or 0.0
        best[gpu.name] = max(best.get(gpu.name, 0.0), raw, sheet)
    slow = faulty([row for row in known if row[2] < _SAME_RATE * best[row[0].name]])
    gpu, _, raw = slow[0]
    return of_gpus(
        RATE,
        case,
        slow,
        SLOW,
        "NVLinks of {gpus} run at a lower rate than their siblings",
        (
            lambda gpu, link, _: f"raw rate one way of NVLink {link} of {{gpu}}",
            lambda gpu, _, raw: f"{gbs(raw)} instead of {gbs(best[gpu.name])}",
            SPEED,
        ),
        most=4,
        impact=f"Each slow link of {case.name(gpu)} carries {raw / best[gpu.name]:.0%} of what it "
        "should, and a collective runs at the pace of its slowest GPU.".replace("%", " %"),
        fix=REPAIR,
    )


# DCGM's health check takes one replay or recovery for a failure, and CRC errors from 100 a second.
COUNTERS = {"replay_errors": "replays", "recovery_errors": "recoveries", "crc_errors": "CRC errors"}
"""A replay repeats a packet; a recovery trains the link again while all traffic waits."""


def _check_errors(case: Case) -> Found:
    elapsed = elapsed_seconds(case)
    if elapsed is None:
        return None
    read = needed(
        [
            (gpu, link, counts)
            for gpu, now, before in both_readings(case)
            for link, counts in _counts(now, before)
        ]
    )
    grown = [
        (gpu, link, {what: n for what, n in counts.items() if n}) for gpu, link, counts in read
    ]
    found = faulty([entry for entry in grown if entry[2]])
    hard = any(counts.keys() - {"crc_errors"} for _, _, counts in found)
    crc = max(rate(counts.get("crc_errors", 0), elapsed, 1.0) for _, _, counts in found)
    harm = hard or crc >= case.threshold(ERRORS, "crc_per_second")
    return of_gpus(
        ERRORS,
        case,
        found,
        SLOW if harm else NOTICE,
        f"NVLink errors of {{gpus}} grew in {time_of(elapsed)}",
        (
            lambda gpu, link, _: f"added on NVLink {link} of {{gpu}} in {time_of(elapsed)}",
            lambda gpu, _, counts: ", ".join(f"{n} {COUNTERS[what]}" for what, n in counts.items()),
            "NVML nvmlDeviceGetNvLinkErrorCounter, two readings",
        ),
        most=6,
        impact="Packets are sent again, or the link is trained again while all traffic over it "
        "waits. Such a link often goes down next, and then a job hangs or ends."
        if harm
        else "The links correct a few CRC errors by themselves, which costs nothing. Watch "
        "whether it goes on.",
        fix=[
            "Watch the counters. $ nvidia-smi nvlink -e",
            "Look for Xid 74 and 144 to 150, and for SXid of the NVSwitches. "
            "# dmesg | grep -iE 'xid'",
            "If they go on, drain the node and have the link looked at.",
        ],
    )


def _counts(now: GpuReading, before: GpuReading) -> Iterator[tuple[int, dict[str, int]]]:
    """How much the error counters of each NVLink grew, where that is known."""
    links = {link.link: link for link in before.nvlinks}
    for link in now.nvlinks:
        if link.link in links and (counts := growth(link, links[link.link], tuple(COUNTERS))):
            yield link.link, counts


INACTIVE = Rule(
    id="nvlink-inactive",
    family="D12",
    title="NVLinks of a mesh that are inactive, in a guest or by a fault",
    evidence="state of each NVLink of a GPU, where nobody looked for a hypervisor",
    vendor=NVIDIA.id,
    disproof="the same number of links on the other GPUs of this guest",
    sources=("NVIDIA V100 data sheet: 6 NVLinks", "Azure/azhpc-diagnostics#73"),
    check=_check,
    implied_by=("nvlink-down", "gpu-lost"),
)
ITSELF = Rule(
    id="link-to-itself",
    family="D12",
    title="links that lead back to the GPU that they start from",
    evidence="the other end of each link",
    disproof="another address at the other end in {asked}",
    asked=((NVIDIA.id, "`nvidia-smi nvlink -p`"), (AMD.id, "`amd-smi xgmi`")),
    sources=("NCCL graph/xml.cc: ncclTopoGetXmlFromGpu writes a link's target as it is read",),
    check=_check_itself,
)
RATE = Rule(
    id="nvlink-slow-rate",
    family="D21",
    title="NVLinks that run slower than their siblings",
    evidence="raw rate of each active NVLink",
    vendor=NVIDIA.id,
    disproof="equal rates in `nvidia-smi nvlink -s`; raw, payload and measured rates are three "
    "different figures",
    sources=("NVIDIA/nccl#1054", "open-mpi/hwloc#574"),
    check=_check_rate,
)
ERRORS = Rule(
    id="nvlink-errors",
    family="D22",
    title="NVLink errors that were added between two readings",
    evidence="error counters of each NVLink, now and earlier on the same boot",
    over_time=True,
    vendor=NVIDIA.id,
    disproof="equal counters in two readings of `nvidia-smi nvlink -e`; a total says nothing, and "
    "counters that stand still do not clear the switch",
    sources=("NVIDIA/NVSentinel#364", "NVIDIA/DCGM DCGM_LIMIT_MAX_NVLINK_CRC_ERROR"),
    check=_check_errors,
    implied_by=("link-weather",),
    thresholds=(("crc_per_second", 100.0),),
)
RULES = (INACTIVE, ITSELF, RATE, ERRORS)
