"""Differences between what KFD and another source say about the same AMD GPUs.

The earlier source of `sources.NAMES` wins a field, and the difference is shown as a problem: one of
the two is wrong, and nothing here shows which.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..hardware.vendors import AMD
from ..model.machine import Gpu, GpuPair, XgmiLink
from ..model.part import Part
from ..model.snapshot import Problem

KERNEL = "kfd"
PAIR_FIELDS = (("link_type", "link"), ("weight", "weight"))
GPU_FIELDS = (
    ("xgmi_hive", "xGMI hive"),
    ("compute_partition", "compute partition"),
    ("memory_partition", "memory partition"),
    ("compute_capability", "target"),
    ("core_count", "compute units"),
    ("kfd_node", "KFD node"),
    ("render_minor", "render node"),
)
LIMIT = 8
"""Number of differences of one kind that are spelled out; more are counted."""


def differences(parts: Sequence[Part]) -> tuple[Problem, ...]:
    """Compare what KFD says with what every other part says about the same GPUs and pairs."""
    kernel = next((part for part in parts if part.origin == KERNEL), None)
    if kernel is None:
        return ()
    found: list[Problem] = []
    for other in parts:
        if other is kernel or not (other.gpus or other.pairs):
            continue
        who = other.origin or "another source"
        lines = [*_missing(kernel, other, who), *_gpus(kernel, other, who)]
        lines += [*_pairs(kernel, other, who), *_links(kernel, other, who)]
        shown = lines[:LIMIT]
        if len(lines) > LIMIT:
            shown.append(f"KFD and {who} differ in {len(lines) - LIMIT} more points")
        found += [Problem(source=KERNEL, kind="mismatch", text=line) for line in shown]
    return tuple(found)


def _amd(part: Part) -> dict[str, Gpu]:
    return {gpu.address: gpu for gpu in part.gpus if gpu.vendor == AMD.id}


def _missing(kernel: Part, other: Part, who: str) -> list[str]:
    mine = {address for address, gpu in _amd(kernel).items() if gpu.kfd_node is not None}
    theirs = set(_amd(other))
    if not theirs or any(address.startswith("topo:") for address in theirs):
        return []
    return [f"KFD shows {address}, {who} does not" for address in sorted(mine - theirs)] + [
        f"{who} shows {address}, KFD does not" for address in sorted(theirs - mine)
    ]


def _gpus(kernel: Part, other: Part, who: str) -> list[str]:
    theirs = _amd(other)
    return [
        f"{address}: {what} is {ours} by KFD and sysfs, {said} by {who}"
        for address, gpu in _amd(kernel).items()
        if address in theirs
        for field, what in GPU_FIELDS
        if (ours := getattr(gpu, field)) is not None
        and (said := getattr(theirs[address], field)) is not None
        and ours != said
    ]


def _pairs(kernel: Part, other: Part, who: str) -> list[str]:
    said = {(pair.src, pair.dst): pair for pair in other.pairs}
    found: list[str] = []
    for pair in kernel.pairs:
        theirs = said.get((pair.src, pair.dst))
        # Both directions are listed; a difference in both is reported once.
        if theirs is None or (pair.src > pair.dst and (pair.dst, pair.src) in said):
            continue
        found += [line for line in _pair(pair, theirs, who) if line]
    return found


def _pair(ours: GpuPair, theirs: GpuPair, who: str) -> list[str]:
    return [
        f"{ours.src} and {ours.dst}: {what} {mine} by KFD, {said} by {who}"
        for field, what in PAIR_FIELDS
        if (mine := getattr(ours, field)) is not None
        and (said := getattr(theirs, field)) is not None
        and mine != said
    ]


def _links(kernel: Part, other: Part, who: str) -> list[str]:
    theirs = {address: _by_peer(gpu) for address, gpu in _amd(other).items() if gpu.xgmi}
    found: list[str] = []
    for address, gpu in _amd(kernel).items():
        for peer, link in _by_peer(gpu).items():
            said = theirs.get(address, {}).get(peer)
            if said is None or address > peer or link.links is None or said.links is None:
                continue
            if link.links != said.links:
                found.append(
                    f"{address} and {peer}: {link.links} xGMI links by KFD, {said.links} by {who}"
                )
    return found


def _by_peer(gpu: Gpu) -> dict[str, XgmiLink]:
    return {link.remote_address: link for link in gpu.xgmi}
