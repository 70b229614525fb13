"""The cost of the variables that are set: the node is predicted again without them."""

from collections.abc import Mapping

import msgspec

from ...expectation.collectives import ring_gbs
from ...expectation.cost.cost import PREDICTED
from ...expectation.judge import Judge
from ...expectation.modelled import modelled
from ...expectation.over_pcie import over_pcie_here
from ...expectation.variables import VariableEffect
from ...model.quantities import ALL_REDUCE
from ...model.snapshot import Measurement
from ...nccl.decide.predict import predict
from ...nccl.prediction import Prediction
from ...nccl.settings import Settings
from ..case import Case

COLLECTIVE = "AllReduce"
LARGE_BYTES, MEDIUM_BYTES = 1 << 30, 1 << 20
WORSE = 0.9
"""Share of the bandwidth below which a variable costs something by the library's own model."""
ORDER = ("P2P", "SHM", "NET", "none")
FAST = ("NVL", "NVB", "C2C", "XGMI")
LIBRARY = ("NCCL_", "RCCL_")
KEPT = 4
MANY = 24
"""With more variables than this, none is blamed for a start that fails."""


class VariableCost(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of all variables on an all-reduce over all GPUs; bandwidths GB/s busbw."""

    names: tuple[tuple[str, str], ...]
    """Those to blame, with their values."""
    text: str
    """"NCCL_P2P_DISABLE=1 turns P2P off: all 12 pairs go through shared memory (SHM)"."""
    fails: str = ""
    """Why the library would not start with them; "" where it would."""
    before_gbs: float | None = None
    after_gbs: float | None = None
    figures_from: str = ""
    """The table of the two figures."""
    sure: bool = True
    """False where pairs move from P2P over PCIe to shared memory, which may even be faster
    (NVIDIA/nccl#814)."""


class Moves(msgspec.Struct, frozen=True):
    """How pairs move between transports."""

    worst: str
    """The slowest transport that a pair falls to; "" for none."""
    gains: bool
    """Whether any pair comes to a faster one."""
    sure: bool
    """Whether a pair falls from NVLink or xGMI, or to the network: that is slower for sure."""
    sockets: bool
    """Whether a pair falls to TCP."""


Key = tuple[Prediction, tuple[str, ...], tuple[tuple[str, str], ...]]
_kept: list[tuple[Key, VariableCost | None]] = []
"""Answers of the last predictions: an app asks again every few seconds about the same one."""


def cost_of(case: Case, values: Mapping[str, str], gpus: tuple[str, ...]) -> VariableCost | None:
    """What variables cost a job on these GPUs; None where they cost nothing or nobody knows.

    Makes some predictions the first time, each some hundredths of a second.
    """
    prediction = case.prediction
    of_library = tuple(sorted(item for item in values.items() if item[0].startswith(LIBRARY)))
    if prediction is None or not of_library or len(gpus) < 2:
        return None
    key: Key = (prediction, gpus, of_library)
    for known, cost in _kept:
        if known[0] is prediction and known[1:] == key[1:]:
            return cost
    every = gpus == tuple(gpu.address for gpu in case.machine.gpus)
    cost = _cost(case, dict(values), None if every else gpus)
    _kept[:] = [(key, cost), *_kept[: KEPT - 1]]
    return cost


def _cost(case: Case, values: dict[str, str], gpus: tuple[str, ...] | None) -> VariableCost | None:
    prediction = None if gpus else case.node.prediction
    judge = Judge(case.snapshot, prediction)
    variables = judge.variables
    before = variables.without(values, gpus)
    if before is None or before.failure:
        return None
    own = values == {name: value for name, (value, _) in case.variables.items()}
    after = case.node.prediction if own and gpus is None else _predicted(case, values, gpus)
    if after is None:
        return None
    if after.failure:
        names = _to_blame(case, values, gpus)
        if not names:
            return None
        settings = " and ".join(f"{name}={value}" for name, value in names)
        return VariableCost(
            names=names, text=f"with {settings} the start fails", fails=after.failure
        )
    moves = _moves(before, after)
    if moves.gains:
        return None  # some pairs gain: only a measurement shows whether the job loses
    found = [
        (effect, size)
        for size in (LARGE_BYTES, MEDIUM_BYTES)
        if (effect := variables.effect(values, gpus, COLLECTIVE, size)) is not None
        and (moves.worst or (effect.share is not None and effect.share < WORSE))
    ]
    if not found:
        return None
    figure = Measurement(
        probe="collectives",
        quantity=ALL_REDUCE,
        details={"variables": {}, **({"gpus": list(gpus)} if gpus else {})},
    )
    effect, size = found[0]
    if size != LARGE_BYTES and not moves.worst:
        # Large messages lose nothing, and the tables hold no others.
        return VariableCost(names=effect.variables, text=effect.text)
    return _with_figures(case, judge, figure, effect, moves, after, gpus)


def _predicted(
    case: Case, values: Mapping[str, str], gpus: tuple[str, ...] | None
) -> Prediction | None:
    try:
        return predict(case.snapshot, Settings(dict(values)), gpus=gpus)
    except (ValueError, LookupError, ArithmeticError, RecursionError):
        # No version table fits the topology, so nothing is known.
        return None


def _to_blame(
    case: Case, values: Mapping[str, str], gpus: tuple[str, ...] | None
) -> tuple[tuple[str, str], ...]:
    """Variables without which the start would not fail."""
    found = []
    for name, value in sorted(values.items()):
        if name.startswith(LIBRARY) and len(values) <= MANY:
            rest = {other: text for other, text in values.items() if other != name}
            made = _predicted(case, rest, gpus)
            if made is not None and not made.failure:
                found.append((name, value))
    return tuple(found)


def _moves(before: Prediction, after: Prediction) -> Moves:
    then = {(pair.src_bus_id, pair.dst_bus_id): pair.transport for pair in after.pairs}
    labels = {(pair.src_bus_id, pair.dst_bus_id): pair.label for pair in after.pairs}
    worst, gains, sure, sockets = "", False, False, False
    for pair in before.pairs:
        new = then.get((pair.src_bus_id, pair.dst_bus_id), pair.transport)
        step = ORDER.index(new) - ORDER.index(pair.transport)
        gains = gains or step < 0
        if step > 0:
            sure = sure or pair.path in FAST or new != "SHM"
            sockets = sockets or "Socket" in labels[pair.src_bus_id, pair.dst_bus_id]
            if not worst or ORDER.index(new) > ORDER.index(worst):
                worst = new
    return Moves(worst=worst, gains=gains, sure=sure, sockets=sockets)


def _ring(effect: VariableEffect) -> bool:
    """Whether a ring of full speed takes the place of NVLS; LL has half the bandwidth or less."""
    return any(f"by Ring {proto} instead of NVLS" in effect.text for proto in ("Simple", "LL128"))


def _with_figures(
    case: Case,
    judge: Judge,
    figure: Measurement,
    effect: VariableEffect,
    moves: Moves,
    there: Prediction,
    gpus: tuple[str, ...] | None,
) -> VariableCost:
    """The two bandwidths, as far as the model, a table or a measurement gives them.

    `there`: the prediction with the variables.
    """
    count = len(gpus or case.machine.gpus)
    made = judge.expected(figure).band
    before = made.healthy if made is not None else None
    after: float | None = None
    basis = f"{made.basis}: {made.source}" if made is not None else ""
    whole = judge.variables.healthy(there.environment, gpus)
    by_model = None if whole is None else modelled(whole, LARGE_BYTES)
    if by_model is not None:
        before, basis = by_model, f"{PREDICTED}: the library's own model"
    sku = case.sku(case.gpus[0])
    worst = moves.worst
    if worst:
        over = over_pcie_here(judge.variables, case.node, gpus, there)
        after = None if over is None else over.gbs
        basis = "; ".join(filter(None, (basis, "" if over is None else over.source)))
        # On a node that gains nothing from P2P (all pairs over PCIe) there is nothing to compare.
        if before is not None and after is not None and after >= WORSE * before:
            after = None
    elif by_model is not None:
        after = modelled(there, LARGE_BYTES)
    elif before is not None:
        ring = ring_gbs(sku, figure, count) if sku is not None and _ring(effect) else None
        after = ring if ring is not None else before * (effect.share or 1.0)
        basis += "; ring of the table" if ring is not None else "; the library's own model"
    return VariableCost(
        names=effect.variables,
        text=effect.text,
        before_gbs=before,
        after_gbs=after,
        figures_from=basis,
        sure=moves.sure or not worst,
    )
