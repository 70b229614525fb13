"""Bus bandwidths of an all-reduce by the library's own model, from a prediction."""

from __future__ import annotations

from ..nccl.prediction import Prediction
from .links import SAME
from .variables import choice_at

COLLECTIVE = "AllReduce"


def modelled(prediction: Prediction, size: int) -> float | None:
    """Bus bandwidth at this size, GB/s; None where the model does not say (some RCCL)."""
    choice = choice_at(prediction, COLLECTIVE, size)
    ranks = prediction.ranks
    if prediction.failure or choice is None or choice.expected_us <= 0 or ranks < 2:
        return None
    return choice.bytes / choice.expected_us / 1e3 * 2 * (ranks - 1) / ranks


def overlooked(whole: Prediction, here: Prediction, size: int) -> bool:
    """Whether RCCL's own model gives the same figure although its rings lost bandwidth.

    Its tables hang on the architecture of the GPUs, and some known nodes have one bandwidth
    whatever their rings are (graph/tuning.cc: baseBw).
    """
    if not here.library.is_rccl or rings_left(whole, here) is None:
        return False
    before, after = modelled(whole, size), modelled(here, size)
    return before is not None and after is not None and after >= SAME * before


def ring_gbs(prediction: Prediction) -> float | None:
    """All rings together by the library's count of its channels, GB/s; None without rings."""
    ring = prediction.graphs.ring
    if prediction.failure or ring is None or not ring.channels or len(prediction.views) != 1:
        return None
    return ring.channels * ring.bw_intra


def rings_left(whole: Prediction, here: Prediction) -> float | None:
    """The share of the rings' bandwidth that is left here; None where nothing is lost."""
    before, after = ring_gbs(whole), ring_gbs(here)
    if not before or after is None or after >= SAME * before:
        return None
    return after / before
