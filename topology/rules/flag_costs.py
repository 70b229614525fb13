"""What the variables that are set cost here: the same node predicted without them."""

from __future__ import annotations

import msgspec

from ..expectation.collectives import ring_gbs
from ..expectation.judge import Judge
from ..expectation.references import pcie_practical
from ..expectation.variables import Effect
from ..nccl.prediction import Prediction
from ..snapshot import Measurement
from .case import Case

ALL_REDUCE, COLLECTIVE = "all_reduce_busbw", "AllReduce"
LARGE_BYTES, MEDIUM_BYTES = 1 << 30, 1 << 20
WORSE = 0.9
"""Share of the bandwidth below which a variable costs something by the library's own model."""
ORDER = ("P2P", "SHM", "NET", "none")
SHM_MEASURED_GBS = 25.5
"""All-reduce over four H200 (PCIe 5.0 x16), 1 GiB, NCCL 2.28.9 with NCCL_P2P_DISABLE=1."""
NET_MEASURED_GBS = 4.2
"""The same with NCCL_SHM_DISABLE=1 as well, by sockets."""
KEPT = 4
MANY = 24
"""With more variables than this nobody is blamed for a start that fails."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What the variables together do to an all-reduce over all GPUs; bandwidths GB/s busbw."""

    names: tuple[tuple[str, str], ...]
    """Those to blame, with their values."""
    text: str
    """"NCCL_P2P_DISABLE=1 turns P2P off: all 12 pairs go through shared memory (SHM)"."""
    fails: str = ""
    """Why the library would not start with them; "" where it would."""
    before_gbs: float | None = None
    after_gbs: float | None = None
    basis: str = ""
    """Where the two figures come from."""


_kept: list[tuple[Prediction, tuple[str, ...], Cost | None]] = []
"""Answers of the last predictions: an app asks again every few seconds about the same one."""


def cost_of(case: Case) -> Cost | None:
    """What the variables cost; None where they cost nothing or nobody knows.

    Makes some predictions the first time, each some hundredths of a second.
    """
    prediction = case.prediction
    if prediction is None or not case.variables:
        return None
    gpus = tuple(gpu.address for gpu in case.gpus)
    for made, chosen, cost in _kept:
        if made is prediction and chosen == gpus:
            return cost
    cost = _cost(case, prediction, gpus if case.chosen else None)
    _kept[:] = [(prediction, gpus, cost), *_kept[: KEPT - 1]]
    return cost


def _cost(case: Case, after: Prediction, gpus: tuple[str, ...] | None) -> Cost | None:
    judge = Judge(case.snapshot, None if gpus else after, case.report.graph)
    variables = judge.variables
    before = variables.without(variables.here, gpus)
    if before is None or before.failure:
        return None
    if after.failure:
        names = _to_blame(case, gpus)
        if not names:
            return None
        told = " and ".join(f"{name}={value}" for name, value in names)
        return Cost(names=names, text=f"with {told} the start fails", fails=after.failure)
    worst, best = _moves(before, after)
    if best:
        return None  # some pairs gain: whether the whole loses only a measurement tells
    found = [
        effect
        for size in (LARGE_BYTES, MEDIUM_BYTES)
        if (effect := variables.effect(variables.here, gpus, COLLECTIVE, size)) is not None
        and (worst or (effect.share is not None and effect.share < WORSE))
    ]
    if not found:
        return None
    figure = Measurement(
        probe="collectives",
        quantity=ALL_REDUCE,
        details={"variables": {}, **({"gpus": list(gpus)} if gpus else {})},
    )
    return _with_figures(case, judge, figure, found[0], worst, len(gpus or case.gpus))


def _to_blame(case: Case, gpus: tuple[str, ...] | None) -> tuple[tuple[str, str], ...]:
    """Variables without which the start would not fail."""
    from ..nccl.predict import predict
    from ..nccl.settings import Settings

    values = {name: value for name, (value, _) in case.variables.items()}
    found = []
    for name, value in sorted(values.items()):
        if name.startswith(("NCCL_", "RCCL_")) and len(values) <= MANY:
            rest = {other: text for other, text in values.items() if other != name}
            if not predict(case.snapshot, Settings(rest), gpus=gpus).failure:
                found.append((name, value))
    return tuple(found)


def _moves(before: Prediction, after: Prediction) -> tuple[str, bool]:
    """The slowest transport that a pair falls to ("" for none), and whether any pair gains."""
    then = {(pair.src_bus_id, pair.dst_bus_id): pair.transport for pair in after.pairs}
    worst, gains = "", False
    for pair in before.pairs:
        new = then.get((pair.src_bus_id, pair.dst_bus_id), pair.transport)
        if new not in ORDER or pair.transport not in ORDER:
            continue
        step = ORDER.index(new) - ORDER.index(pair.transport)
        gains = gains or step < 0
        if step > 0 and (not worst or ORDER.index(new) > ORDER.index(worst)):
            worst = new
    return worst, gains


def _with_figures(
    case: Case, judge: Judge, figure: Measurement, effect: Effect, worst: str, count: int
) -> Cost:
    """The two bandwidths, as far as a table, the model or a measurement knows them."""
    made = judge.expected(figure).band
    before = made.healthy if made is not None else None
    after: float | None = None
    basis = f"{made.basis}: {made.source}" if made is not None else ""
    sku = case.sku(case.gpus[0])
    if worst:
        lanes = pcie_practical(sku.pcie_gen) if sku is not None else None
        if worst == "NET":
            after, note = NET_MEASURED_GBS, "measured by sockets on four H200"
        elif worst == "SHM" and sku is not None and sku.pcie_gen == 5 and lanes is not None:
            after, note = SHM_MEASURED_GBS, "measured through SHM on four H200, PCIe 5.0"
        else:
            note = ""
        basis = "; ".join(filter(None, (basis, note)))
        # A node that is no better with P2P (all by PCIe) has nothing to be held against.
        if before is not None and after is not None and after >= WORSE * before:
            after = None
    elif before is not None:
        ring = ring_gbs(sku, figure, count) if sku is not None and "NVLS" in effect.text else None
        after = ring if ring is not None else before * (effect.share or 1.0)
        basis += "; ring of the table" if ring is not None else "; the library's own model"
    return Cost(
        names=effect.variables,
        text=effect.text,
        before_gbs=before,
        after_gbs=after,
        basis=basis,
    )
