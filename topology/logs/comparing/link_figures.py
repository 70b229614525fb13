"""Turn bandwidths of the System block back into links (constants: NCCL graph/topo.h)."""

from __future__ import annotations

from collections.abc import Iterable

from ..report.communicator import LoggedGraph

_LANE_UNITS = (
    ("2.5 GT/s PCIe", 15),
    ("5.0 GT/s PCIe", 30),
    ("8.0 GT/s PCIe", 60),
    ("16.0 GT/s PCIe", 120),
    ("32.0 GT/s PCIe", 240),
    ("64.0 GT/s PCIe", 480),
)
"""Speed and NCCL's figure for a lane; GB/s is width x figure / 80 (graph/topo.cc:kvDictPciGen)."""

PER_LINK = ((90, 20.6), (80, 20.0), (100, 40.1), (86, 12.0), (60, 18.0))
"""Compute capability x10 and GB/s of one NVLink, likeliest first (graph/topo.h)."""
MOST_LINKS = {60: 4, 80: 12, 86: 4, 90: 18, 100: 18}
GEN4_GBS = 24.0
"""Sixteen lanes of generation 4; GPUs with generation 5 are Hopper, later GPUs or recent boards."""
XGMI_GBS = (("gfx942", 48.0), ("gfx90a", 36.0), ("gfx908", 24.0))
"""Targets and GB/s of one xGMI link, newest first (RCCL, graph/topo.h)."""

LADDER_90 = {60.0, 50.0, 24.0, 11.0}
LADDER_80 = {18.0, 10.0, 9.0, 7.0, 5.0, 4.0}
"""Channel speeds that only one of the two searches tries (graph/search.cc:sm90SpeedArrayIntra)."""


def lanes(gbs: float) -> tuple[str, int]:
    """A speed and width that NCCL takes for this bandwidth; full width where that is possible."""
    best = min(
        (
            (abs(width * unit / 80 - gbs), -width, speed, width)
            for speed, unit in _LANE_UNITS
            for width in (16, 8, 4, 2, 1)
        ),
    )
    return best[2], best[3]


def capability(
    nvlinks: Iterable[float],
    buses: Iterable[float],
    labels: Iterable[str],
    graphs: Iterable[LoggedGraph],
) -> tuple[int, str]:
    """Compute capability x10 of the GPUs, and how it was concluded.

    The log does not print it. The bandwidth of NVLinks and of PCIe links, the read label and the
    speeds of channels tell most generations apart.
    """
    peers = [label for label in labels if label.startswith("P2P/") and "indirect" not in label]
    if any("/read" in label for label in peers):
        return 80, "compute capability 8.0, because P2P reads are for that alone"
    links = [gbs for gbs in nvlinks if gbs > 0]
    if links:
        for sm, each in PER_LINK:
            if not all(_whole(gbs, each, MOST_LINKS[sm]) for gbs in links):
                continue
            if sm == 80 and peers:
                return 70, "compute capability 7.0: NVLinks count 20.0 GB/s, and nothing is read"
            return sm, f"compute capability {sm / 10:.1f}, because NVLinks count {each} GB/s"
    speeds = {graph.bw_intra for graph in graphs if graph.pattern == 4}
    if speeds & LADDER_90:
        return 90, "compute capability 9.0, because of the channels' bandwidth"
    if speeds & LADDER_80:
        return 80, "compute capability 8.0, because of the channels' bandwidth"
    if all(gbs <= GEN4_GBS for gbs in buses):
        return 89, "compute capability 8.9 is assumed, for the PCIe links are generation 4 or less"
    return 90, "compute capability 9.0 is assumed: the log does not tell it"


def architecture(links: Iterable[float]) -> tuple[str, float, str]:
    """Target of the AMD GPUs, GB/s of one of their links, and how both were concluded."""
    positive = [gbs for gbs in links if gbs > 0]
    for name, each in XGMI_GBS:
        if positive and all(_whole(gbs, each, 16) for gbs in positive):
            return name, each, f"{name} is assumed, because xGMI counts {each} GB/s a link"
    name, each = XGMI_GBS[0]
    return name, each, f"the log does not tell the architecture of the GPUs: {name} is assumed"


def _whole(gbs: float, each: float, most: int) -> bool:
    count = round(gbs / each)
    return 1 <= count <= most and abs(count * each - gbs) <= 0.051


def count_of(gbs: float, each: float) -> int:
    """How many links make this bandwidth."""
    return max(1, round(gbs / each))
