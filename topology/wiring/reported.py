"""NVLinks known only from the letters of `nvidia-smi topo -m`, and what follows from them."""

from __future__ import annotations

from ..model.machine import Machine

MOST_NVLINKS = 18
"""No GPU up to NVLink 5 has more; a pair list that adds up to more goes through switches."""
MOST_BRIDGED = 12
"""NVLinks of the widest bridge between two cards (A100, H100 NVL)."""

_SWITCHED = {
    12: (80, "12 NVLinks to NVSwitches are those of an A100"),
    6: (70, "6 NVLinks to NVSwitches are those of a V100"),
}
Counts = dict[frozenset[str], int]


def reported_nvlinks(machine: Machine) -> Counts:
    """Count the NVLinks of each pair of GPUs, by their addresses, as another tool printed them."""
    return {
        frozenset((pair.src, pair.dst)): pair.nvlinks_reported
        for pair in machine.pairs
        if pair.nvlinks_reported and pair.src != pair.dst
    }


def of_one(counts: Counts, address: str) -> dict[str, int]:
    """Pick the links of one GPU: address of the other end -> count."""
    return {
        other: count
        for ends, count in counts.items()
        if address in ends
        for other in ends - {address}
    }


def to_switches(counts: Counts) -> bool:
    """Whether this many links must lead to NVSwitches: more than a GPU or a bridge has."""
    return bool(counts) and (
        max(counts.values()) > MOST_BRIDGED or max(_totals(counts)) > MOST_NVLINKS
    )


def capability_of_links(counts: Counts) -> tuple[int, str] | None:
    """Conclude the compute capability x10 from the number of links, with the reason.

    None where several generations have so many: a bridge, or 12 links to one other GPU.
    """
    if not counts:
        return None
    most, total = max(counts.values()), max(_totals(counts))
    bridges = all(len(of_one(counts, end)) == 1 for pair in counts for end in pair)
    if most == MOST_NVLINKS:
        return 90, "Hopper was the first with 18 NVLinks"
    if to_switches(counts):
        return _SWITCHED.get(most)
    if bridges:
        return None
    if total == 12:
        return 80, "12 NVLinks are those of an A100"
    if (total, most) == (4, 1):
        return 60, "4 single NVLinks are those of a P100"
    return (70, "so few NVLinks to several GPUs are those of a V100") if total <= 6 else None


def _totals(counts: Counts) -> list[int]:
    ends = {end for pair in counts for end in pair}
    return [sum(of_one(counts, end).values()) for end in ends]
