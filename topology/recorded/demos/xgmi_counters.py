"""A demo's counters of xGMI links, in the words of ROCm 7.x."""

from __future__ import annotations

from ...model.part import Raw
from .readings import Load

REFUSED = {"error": "AmdSmiLibraryException: AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported"}
BASE_KB = 10**9
"""Values of the counters before the demo starts."""
_SHARE = 0.4
"""Share of the links' rate that the load uses, on average."""
_MOST_COUNTED = 8
"""Links whose bytes gpu_metrics has room for (amdsmi.h, AMDSMI_MAX_NUM_XGMI_LINKS)."""
Counts = dict[str, tuple[int, int]]
""""read" and "write": before and now."""


def counts_of(load: Load) -> Counts | None:
    """Kilobytes over each link that is up until the tick and one second later, both ways."""
    if (mesh := load.shape.xgmi) is None:
        return None
    level = mesh.raw_gbs * _SHARE * 1e9 / 1024 if load.busy else 0.0
    found = {}
    for name, period in (("read", 21), ("write", 19)):
        wave, tick = load.wave(level, 0.3, period), load.tick
        found[name] = BASE_KB + round(wave.until(tick)), BASE_KB + round(wave.until(tick + 1))
    return found


def by_number(counts: Counts | None, links: list[tuple[str, bool]]) -> Raw:
    """The counters of gpu_metrics, which have no room for more links."""
    if counts is None:
        return REFUSED
    return {"seconds": 1.0} | {
        f"xgmi_{name}_data_acc": [
            [kb if up else BASE_KB for _, up in links[:_MOST_COUNTED]] for kb in moments
        ]
        for name, moments in counts.items()
    }


def by_link(counts: Counts | None, links: list[tuple[str, bool]]) -> Raw:
    """The counters of each link, with the GPU at its far end."""
    if counts is None:
        return REFUSED
    now = {name: moments[1] for name, moments in counts.items()}
    down = dict.fromkeys(now, BASE_KB)
    return {"links": [{"bdf": end, **(now if up else down)} for end, up in links]}
