"""NVLinks that are up or may be: inactive without a reason, circular, slow, with new errors."""

from __future__ import annotations

from ....hardware.vendors import AMD, NVIDIA
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.severity import CANNOT_TELL, NOTICE, SLOW
from ....model.units import gbs
from ....model.units import seconds as time_of
from ...case import Case
from ...rule import Found, Rule
from ...shared.counters import elapsed_seconds, growth, rate
from .down import REPAIR, STATE, alike, down, links_read, price, up


def _check(case: Case) -> Found:
    """Look at meshes alone: on boards with NVSwitches `nvlink-down` has the last word."""
    known = links_read(case)
    if not known or case.in_vm is False:
        return None
    if case.in_vm or any(gpu.virtualization == "passthrough" for gpu in known):
        return []
    found = [
        (gpu, sku.link_count)
        for gpu in known
        if (sku := case.sku(gpu)) is not None and sku.link_count and case.devices.part_of_mesh(gpu)
        if 0 < up(gpu) < sku.link_count and down(gpu)
    ]
    # A guest's GPUs have lost the same number of links, those to the GPUs of other guests.
    if not found or (len(known) > 1 and len({up(gpu) for gpu in known}) == 1):
        return []
    return _inactive(case, found)


def _inactive(case: Case, found: list[tuple[Gpu, int]]) -> Finding:
    who = [gpu.address for gpu, _ in found]
    links = sum(len(down(gpu)) for gpu, _ in found)
    total = sum(count for _, count in found)
    return INACTIVE.finding(
        CANNOT_TELL,
        f"{links} of {total} NVLinks of {case.names(who)} inactive: a fault, unless a guest has "
        "no GPU at their other ends",
        devices=who,
        evidence=[
            (
                f"NVLinks of {case.name(gpu)} that are up",
                f"{up(gpu)} of {count}; inactive: {', '.join(map(str, down(gpu)))}",
                f"{STATE}; {count} by the model's data sheet",
            )
            for gpu, count in found
        ],
        impact=price(case, [(gpu, count, "") for gpu, count in found]),
        fix=(
            (
                "Hold it against the other GPUs: those of a whole board have all their links, "
                "those of a guest as few as this one. $ nvidia-smi nvlink -s"
            ),
            "Ask whether this is a guest. $ systemd-detect-virt",
            *REPAIR[1:],
        ),
    )


def _check_itself(case: Case) -> Found:
    ends = {gpu.address: _ends(gpu) for gpu in case.gpus}
    if not any(ends.values()):
        return None
    loops = {own: found.count(own) for own, found in ends.items() if own in found}
    if not loops:
        return []
    who = list(loops)
    return ITSELF.finding(
        SLOW,
        f"links of {case.names(who)} lead back to the GPU itself",
        devices=who,
        evidence=[
            (
                f"links of {case.name(own)}",
                f"{count} of {len(ends[own])} to {own}, its own address",
                ", ".join(case.snapshot.source),
            )
            for own, count in loops.items()
        ],
        impact=f"{case.words.library} counts them and can send nothing over them: where "
        "they really lead it uses PCIe or the network.",
        fix=[
            (
                "Let the library write the file anew on this machine, without NCCL_TOPO_FILE "
                "set. $ export NCCL_TOPO_DUMP_FILE=system.xml"
            ),
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
    rates = {
        gpu.address: [(link.link, link.raw_gbs) for link in gpu.nvlinks if link.active]
        for gpu in links_read(case)
    }
    fastest = {
        own: max((raw or 0.0 for _, raw in links), default=0.0) for own, links in rates.items()
    }
    if not any(fastest.values()):
        return None
    found = []
    for gpu in case.gpus:
        those = [gpu.address, *(other.address for other in alike(case, gpu))]
        best = max(fastest.get(address, 0.0) for address in those)
        sku = case.sku(gpu)
        # The data sheet gives the payload, which is below the raw rate in every generation.
        best = max(best, (sku.link_gbs or 0.0) if sku is not None else 0.0)
        slow = [
            (link, raw)
            for link, raw in rates.get(gpu.address, ())
            if raw and raw < _SAME_RATE * best
        ]
        if slow:
            found.append((gpu, slow, best))
    if not found:
        return []
    who = [gpu.address for gpu, _, _ in found]
    gpu, slow, best = found[0]
    return RATE.finding(
        SLOW,
        f"NVLinks of {case.names(who)} run at a lower rate than their siblings",
        devices=who,
        evidence=[
            (
                f"raw rate one way of NVLink {link} of {case.name(slow_gpu)}",
                f"{gbs(raw)} instead of {gbs(most)}",
                SPEED,
            )
            for slow_gpu, links, most in found
            for link, raw in links[:4]
        ],
        impact=f"Each slow link of {case.name(gpu)} carries "
        f"{(slow[0][1] or 0) / best:.0%} of what it should, and a collective runs at the pace "
        "of its slowest GPU.".replace("%", " %"),
        fix=REPAIR,
    )


# DCGM's health check takes one replay or recovery for a failure, and CRC errors from 100 a second.
COUNTERS = {"replay_errors": "replays", "recovery_errors": "recoveries", "crc_errors": "CRC errors"}
"""A replay repeats a packet; a recovery trains the link again while all traffic waits."""


def _check_errors(case: Case) -> Found:
    elapsed = elapsed_seconds(case)
    if elapsed is None:
        return None
    read = False
    found: list[tuple[Gpu, dict[int, dict[str, int]]]] = []
    for gpu in case.gpus:
        now, before = case.reading(gpu), case.earlier_reading(gpu)
        if now is None or before is None:
            continue
        links = {link.link: link for link in before.nvlinks}
        grown: dict[int, dict[str, int]] = {}
        for link in now.nvlinks:
            if link.link not in links:
                continue
            counts = growth(link, links[link.link], tuple(COUNTERS))
            read = read or bool(counts)
            if any(counts.values()):
                grown[link.link] = {name: count for name, count in counts.items() if count}
        if grown:
            found.append((gpu, grown))
    if not read:
        return None
    return [_finding(case, found, elapsed)] if found else []


def _finding(
    case: Case, found: list[tuple[Gpu, dict[int, dict[str, int]]]], elapsed: float
) -> Finding:
    who = [gpu.address for gpu, _ in found]
    counts = [counters for _, links in found for counters in links.values()]
    hard = any(counters.keys() - {"crc_errors"} for counters in counts)
    crc = max(rate(counters.get("crc_errors", 0), elapsed, 1.0) for counters in counts)
    often = crc >= case.threshold(ERRORS, "crc_per_second")
    return ERRORS.finding(
        SLOW if hard or often else NOTICE,
        f"NVLink errors of {case.names(who)} grew in {time_of(elapsed)}",
        devices=who,
        evidence=[
            (
                f"added on NVLink {link} of {case.name(gpu)} in {time_of(elapsed)}",
                ", ".join(f"{count} {COUNTERS[name]}" for name, count in counts.items()),
                "NVML nvmlDeviceGetNvLinkErrorCounter, two readings",
            )
            for gpu, links in found
            for link, counts in list(links.items())[:6]
        ],
        impact=(
            "Packets are sent again, or the link is trained again while all traffic over it "
            "waits. Such a link often goes down next, and then a job hangs or ends."
            if hard or often
            else "The links correct a few CRC errors by themselves, which costs nothing. Watch "
            "whether it goes on."
        ),
        fix=[
            "Watch the counters. $ nvidia-smi nvlink -e",
            (
                "Look for Xid 74 and 144 to 150, and for SXid of the NVSwitches. "
                "# dmesg | grep -iE 'xid'"
            ),
            "If they go on, drain the node and have the link looked at.",
        ],
    )


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
    thresholds=(("crc_per_second", 100.0),),
)
RULES = (INACTIVE, ITSELF, RATE, ERRORS)
