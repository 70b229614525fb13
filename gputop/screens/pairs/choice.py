"""Which pair is shown first: the one that is worst off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.measuring.judged import judged
from gputop.topology.flags.what_if.in_words import distance
from gputop.topology.model.quantities import WRITE
from gputop.widgets.measure import measured

if TYPE_CHECKING:
    from gputop.topology.report import Report
    from gputop.widgets.measure import Pair


def worst_pair(report: Report, device: str | None = None) -> Pair | None:
    """The pair that was measured low, else without P2P, else by the narrowest and longest way.

    `device`: the GPU that sends, None for any. None where nothing tells pairs apart yet.
    """
    low = _measured_low(report, device)
    if low is not None:
        return low
    pairs = () if report.prediction is None else report.prediction.pairs
    found = [pair for pair in pairs if device in (None, pair.src_bus_id)]
    worst = min(
        found,
        key=lambda pair: (
            pair.transport == "P2P",
            pair.bandwidth_gbs or 0.0,
            -distance(pair.path),
            pair.src,
            pair.dst,
        ),
        default=None,
    )
    return None if worst is None else (worst.src_bus_id, worst.dst_bus_id)


def _measured_low(report: Report, device: str | None) -> Pair | None:
    figures = measured(report.snapshot, WRITE) if report.snapshot.measurements else {}
    known = judged(report) if figures else None
    shares: dict[Pair, float] = {}
    for pair, found in figures.items():
        judgement = None if known is None else known.of(found)
        low = judgement is not None and judgement.verdict == "low"
        if low and judgement is not None and judgement.share and device in (None, pair[0]):
            shares[pair] = judgement.share
    return min(shares, key=lambda pair: shares[pair], default=None)
