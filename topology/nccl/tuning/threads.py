"""Threads per block and the work a thread gets before channels are added (graph/tuning.cc)."""

from ..settings import INTEGER
from .inputs import TuningInput
from .selection import Remark

WARP = 32
MOST_SIMPLE, MOST_LL, MOST_LL128, MOST = 512, 512, 640, 640
"""include/device.h: NCCL_*_MAX_NTHREADS."""

FEW = 256
SLOW_RING_GBS = 12.0
"""A ring no faster than PCIe gen 3 x16 (graph/topo.h:PCI_BW) gets fewer threads."""

THRESHOLDS = {"LL": 8, "LL128": 8, "SIMPLE": 64}
"""Bytes per thread and channel below which a channel is dropped (include/comm.h)."""


def most_threads(comm: TuningInput, algorithm: str, protocol: str) -> int:
    """The "Max NThreads" of the log for one algorithm and protocol; 0 where it is not used."""
    if algorithm not in ("TREE", "RING"):
        return MOST if protocol == "SIMPLE" and algorithm != "PAT" else 0
    if protocol == "LL128":
        return bounded(comm, "NCCL_LL128_NTHREADS", MOST_LL128 // 4, MOST_LL128, MOST_LL128)
    if protocol == "LL":
        return bounded(comm, "NCCL_NTHREADS", 2 * WARP, MOST_LL, MOST_LL)
    ring = comm.graph("RING")
    slow = algorithm == "RING" and ring.bw_intra * comm.searched <= SLOW_RING_GBS
    default = FEW if slow else MOST_SIMPLE
    return bounded(comm, "NCCL_NTHREADS", 2 * WARP, MOST_SIMPLE, default)


def bounded(comm: TuningInput, name: str, least: int, most: int, default: int) -> int:
    """A thread count from the environment (getNthreads): odd ones become the maximum."""
    wanted = comm.settings.integer(name, -2)
    if wanted <= 0:
        return default
    if wanted % WARP or wanted > most:
        return most
    return max(wanted, least)


def threshold(comm: TuningInput, algorithm: str, protocol: str) -> int:
    """Bytes per thread and channel below which a channel is dropped."""
    changed = user_thresholds(comm.settings.text("NCCL_THREAD_THRESHOLDS"))
    set_to = changed.get((algorithm, protocol), -1)
    if set_to >= 0:
        return set_to
    if algorithm in ("COLLNET_DIRECT", "COLLNET_CHAIN") and protocol == "SIMPLE":
        return 512
    bytes_each = THRESHOLDS[protocol]
    return bytes_each * comm.ranks if (algorithm, protocol) == ("RING", "LL") else bytes_each


def user_thresholds(text: str | None) -> dict[tuple[str, str], int]:
    """NCCL_THREAD_THRESHOLDS as sscanf reads it: up to six decimal numbers, tree's, then ring's."""
    found: dict[tuple[str, str], int] = {}
    places = [(algorithm, protocol) for algorithm in ("TREE", "RING") for protocol in THRESHOLDS]
    for place, word in zip(places, (text or "").split(), strict=False):
        digits = word[1:] if word[:1] in ("+", "-") else word
        whole = len(digits) - len(digits.lstrip("0123456789"))
        if not whole:
            break
        found[place] = int(digits[:whole][:18]) * (-1 if word[0] == "-" else 1)
        if whole < len(digits):
            break
    return found


def remarks(comm: TuningInput) -> list[Remark]:
    """Thread settings that do not do what they say."""
    found = []
    bounds = (("NCCL_NTHREADS", 2 * WARP, MOST_SIMPLE), ("NCCL_LL128_NTHREADS", 160, MOST_LL128))
    for name, least, most in bounds:
        text = comm.settings.text(name)
        wanted = comm.settings.integer(name, -2)
        if text is None or wanted == -2:
            continue
        if wanted <= 0:
            why = "not a positive number: NCCL keeps its default"
            found.append((name, text, why if INTEGER.match(text) else "no number: counts as 0"))
        elif wanted % WARP:
            found.append((name, text, f"not a multiple of {WARP}: NCCL takes {most}"))
        elif not least <= wanted <= most:
            kept = max(least, min(most, wanted))
            found.append((name, text, f"not within {least} to {most}: NCCL takes {kept}"))
    text = comm.settings.text("NCCL_THREAD_THRESHOLDS")
    if text is not None and not any(
        user_threshold >= 0 for user_threshold in user_thresholds(text).values()
    ):
        found.append(("NCCL_THREAD_THRESHOLDS", text, "no number that NCCL can read"))
    return found
