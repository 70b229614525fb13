"""Since when GPUs carry nothing, by the readings that the app has kept."""

from __future__ import annotations

from gputop.live.recent import LINKS, PCIE, Recent
from gputop.topology.jobs import traffic
from gputop.topology.jobs.traffic import GpuPast, TrafficPast

NEW_SECONDS = 10.0
"""A GPU without a reading for so long is one of which nothing is known."""
LEAST_BYTES, SILENT_SHARE = 1e6, 0.005
"""Up to so many bytes a second, or so much of the most that it was seen to carry, a GPU is silent.
"""


def past_of(recent: Recent) -> TrafficPast:
    """Both kinds of traffic of every GPU."""
    kinds = ((traffic.LINKS, LINKS), (traffic.PCIE, PCIE))
    return {
        kind: {
            address: found
            for address in recent.addresses
            if (found := _past(recent, address, figure)) is not None
        }
        for kind, figure in kinds
    }


def _past(recent: Recent, address: str, figure: int) -> GpuPast | None:
    known, newest = recent.readings(address, figure), recent.newest
    if not known or newest is None or newest - known[0][0] > NEW_SECONDS:
        return None
    watched = newest - known[-1][0]
    silent = max(LEAST_BYTES, SILENT_SHARE * max(value for _, value in known))
    quiet = 0.0
    for time, value in known:
        if value > silent:
            return GpuPast(quiet, watched, value)
        quiet = newest - time
    return GpuPast(watched, watched)
