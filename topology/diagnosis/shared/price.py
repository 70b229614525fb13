"""The cost of a fault in published figures."""

from __future__ import annotations

from ...expectation.judgement import BEST, TYPICAL
from ...model.units import figure as three
from ..case import Case

_KINDS = (TYPICAL, BEST)
LARGE_BYTES = 1 << 30


def all_reduce(case: Case, share: float) -> str:
    """What a large all-reduce over the examined GPUs drops to at this share of its links.

    "all-reduce over 4 GPUs drops from about 363 to about 323 GB/s busbw"; "" where no table has the
    model and number of GPUs. A collective runs at the pace of its slowest GPU.
    """
    models = [case.sku(gpu) for gpu in case.gpus]
    sku = models[0] if models else None
    if sku is None or any(model != sku for model in models):
        return ""
    chosen = {
        choice.algorithm
        for choice in (case.prediction.choices if case.prediction is not None else ())
        if choice.collective == "AllReduce" and choice.bytes == LARGE_BYTES
    }
    if chosen:
        chosen |= {""}  # the source does not say which
    if "TREE" in chosen:
        chosen |= {"RING"}  # both reach the same inside a node
    known = [
        figure
        for figure in sku.figures
        if figure.quantity == "allreduce_busbw"
        and figure.gpus == len(models)
        and figure.kind in _KINDS
        and (not chosen or figure.algorithm in chosen)
    ]
    known.sort(key=lambda figure: _KINDS.index(figure.kind))
    if not known:
        return ""
    healthy = known[0].measured
    return (
        f"all-reduce over {len(models)} GPUs drops from about {three(healthy)} to about "
        f"{three(healthy * share)} GB/s busbw"
    )
