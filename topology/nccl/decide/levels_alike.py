"""A ground for another P2P level that allows the same paths: only the words differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from msgspec.structs import replace as with_fields

from ..nodes import PathType
from ..prediction import DecisionStep, PairDecision
from ..settings import Settings
from ..system.compute import Computed
from ..system.peers import limit_of
from .ground import Ground, NotedSettings, Reach
from .steps import NEAR_ENOUGH, near_enough
from .transports import vendor_of_cpu

LEVELS = ("NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE")
"""Nothing but the limit of P2P asks for these."""


def reach_of(views: list[Computed], pairs: tuple[PairDecision, ...]) -> Reach | None:
    """What the levels were compared with, where all GPUs are in one view."""
    if len(views) != 1:
        return None
    computed = views[0]
    peers = computed.peers
    near: dict[DecisionStep, PathType] = {}
    vendor = vendor_of_cpu(computed)
    _, level = limit_of(computed.settings, computed.version, peers.default)
    for kind in peers.asked:
        near[near_enough(computed.version, peers.limit, level, vendor, kind)] = kind
    said = {step for pair in pairs for step in pair.steps if step.question == NEAR_ENOUGH}
    if not said <= near.keys():
        return None
    return Reach(peers.limit, peers.default, frozenset(peers.asked), near, vendor)


def for_level(
    ground: Ground, asked: Mapping[str, str | None], settings: Settings
) -> tuple[Ground, dict[str, str | None]] | None:
    """The ground under these settings with what it asked for; None where it must be made.

    The library uses the level for nothing but to compare paths between GPUs with it. If all
    comparisons come out as before, so does all that follows from them.
    """
    reach = ground.reach
    if reach is None:
        return None
    rest = {name: value for name, value in asked.items() if name not in LEVELS}
    if any(settings.values.get(name) != value for name, value in rest.items()):
        return None
    noted = NotedSettings(settings.values)
    limit, level = limit_of(noted, ground.version, reach.default)
    if any((kind <= limit) is not (kind <= reach.limit) for kind in reach.asked):
        return None
    words = {
        step: near_enough(ground.version, limit, level, reach.vendor, kind)
        for step, kind in reach.near.items()
    }
    near = {words[step]: kind for step, kind in reach.near.items()}
    made = replace(
        ground,
        pairs=tuple(_reworded(pair, words) for pair in ground.pairs),
        reach=reach._replace(limit=limit, near=near),
    )
    return made, {**rest, **noted.asked}


def _reworded(pair: PairDecision, words: dict[DecisionStep, DecisionStep]) -> PairDecision:
    steps = tuple(words[step] if step.question == NEAR_ENOUGH else step for step in pair.steps)
    return with_fields(pair, steps=steps)
