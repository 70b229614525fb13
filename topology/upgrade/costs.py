"""What an all-reduce over all GPUs costs under each of two versions, in one line."""

from __future__ import annotations

import msgspec

from ..expectation.cost.cost import PREDICTED, Cost
from ..expectation.cost.costs import Costs
from ..flags.what_if.changes import with_changes
from ..flags.what_if.effects import choice_of, described, named, untold
from ..model.snapshot import NodeSnapshot
from ..model.units import figure
from ..nccl.decide.summary import CAPITALS, library_name
from ..nccl.prediction import Prediction
from ..node import Node
from .units import ALGORITHMS
from .upgrade import Upgrade

LARGE_BYTES = 1 << 30
WHAT = "All-reduce 1 GiB"
SAME = 0.005
"""Two figures that differ by less than this share are the same."""


def cost_line(found: Upgrade, snapshot: NodeSnapshot, *, whole: bool) -> str:
    """What it costs before and after: "All-reduce 1 GiB: 473 → 355 GB/s (predicted)".

    `whole`: all GPUs of one host take part, for which there is one model of cost; else the
    library's own model alone is asked.
    """
    sides = found.before, found.after
    failed = [library_name(side) for side in sides if side.failure]
    if failed:
        return f"{' and '.join(failed)} would not start here"
    if any(side.ranks < 2 for side in sides):
        return ""
    if not all(side.choices for side in sides) and not whole:
        return f"{WHAT}: not predicted for {CAPITALS[found.after.library.name]}"
    silent = [library_name(side) for side in sides if untold(side)]
    if len(silent) == 1:
        return f"{WHAT}: not predicted for {silent[0]}"
    costs = [_cost(snapshot, side) if whole else None for side in sides]
    figures = [
        _bus(side) if cost is None else cost.here for cost, side in zip(costs, sides, strict=True)
    ]
    before, after = figures
    if before is None or after is None:
        return f"{WHAT}: what it costs is not known"
    kinds = dict.fromkeys(PREDICTED if cost is None else cost.basis for cost in costs)
    basis = " and ".join(kinds)
    remark = ""
    if kinds.keys() == {PREDICTED}:
        if _moved(*sides):
            remark = "; the model does not ask by which transport bytes go"
        elif _alike(*sides) and not {*found.topics} - {ALGORITHMS}:
            remark = "; by the same algorithm on the same channels: only the model's figures differ"
    if abs(after - before) <= SAME * before:
        both = f"{WHAT}: {figure(after)} GB/s with both ({basis})"
        return both + remark if _moved(*sides) else both
    share = 100 * (after / before - 1)
    return f"{WHAT}: {figure(before)} → {figure(after)} GB/s, {share:+.0f} % ({basis}){remark}"


def _cost(snapshot: NodeSnapshot, prediction: Prediction) -> Cost | None:
    """The cost by what is known without a measurement, which holds for one version alone."""
    changed = with_changes(snapshot, dict(prediction.environment))
    bare = msgspec.structs.replace(changed, measurements=())
    return Costs(Node(bare).with_prediction(prediction)).all_reduce


def _bus(prediction: Prediction) -> float | None:
    """Bus bandwidth by the library's own model, GB/s."""
    choice = choice_of(prediction, LARGE_BYTES)
    ranks = prediction.ranks
    if choice is None or not choice.time_us or ranks < 2:
        return None
    return choice.bytes / choice.time_us / 1e3 * 2 * (ranks - 1) / ranks


def _alike(before: Prediction, after: Prediction) -> bool:
    """Whether both do the same: algorithm, channels, and the graph that they run on."""
    choices = [choice_of(side, LARGE_BYTES) for side in (before, after)]
    if named(choices[0]) != named(choices[1]) or choices[0] is None:
        return False
    kind = choices[0].algorithm.partition("_")[0].lower()
    graphs = [getattr(side.graphs, kind, None) for side in (before, after)]
    return described(graphs[0]) == described(graphs[1])


def _moved(before: Prediction, after: Prediction) -> bool:
    then = {(pair.src, pair.dst): pair.transport for pair in before.pairs}
    return any(then.get((pair.src, pair.dst)) != pair.transport for pair in after.pairs)
