"""New NVLink errors between two readings of one node.

DCGM's health check takes one replay or recovery for a failure, and CRC errors from 100 a second.
"""

from __future__ import annotations

from ....hardware.vendors import NVIDIA
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.severity import NOTICE, SLOW
from ....model.units import seconds as time_of
from ...case import Case
from ...rule import Found, Rule
from ...shared.counters import elapsed_seconds, growth, rate

COUNTERS = {"replay_errors": "replays", "recovery_errors": "recoveries", "crc_errors": "CRC errors"}
"""A replay repeats a packet; a recovery trains the link again while all traffic waits."""


def _check(case: Case) -> Found:
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
    check=_check,
    thresholds=(("crc_per_second", 100.0),),
)

RULES = (ERRORS,)
