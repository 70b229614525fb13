"""Decisions that follow from others: they differ in words, or in that there is no NVLS."""

from collections.abc import Mapping
from dataclasses import replace

from msgspec.structs import replace as with_fields

from ..nodes import PathType
from ..prediction import DecisionStep, Graphs, PairDecision
from ..settings import Settings
from ..system.compute import Computed
from ..system.gdr import LEVEL as GDR_LEVEL
from ..system.gdr import GdrDistance
from ..system.peers import limit_of
from .netviews import FOR_RECEIVES, FOR_SENDS, gdr_step
from .steps import NEAR_ENOUGH, near_enough
from .transports import vendor_of_cpu
from .untuned import Reach, UntunedDecision
from .viewsteps import NVLS, NVLS_VARIABLE, nvls_switch

P2P_LEVELS = {"NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE"}
"""Nothing but the limit of P2P asks for these."""
LIMITED = (NEAR_ENOUGH, FOR_SENDS, FOR_RECEIVES)
"""Questions whose answers name a level."""


def reach_of(views: list[Computed], pairs: tuple[PairDecision, ...]) -> Reach | None:
    """The paths that the levels were compared with, where all GPUs are in one view."""
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


def gdr_of(views: list[Computed]) -> GdrDistance | None:
    """The distances that GPUDirect RDMA's level was compared with, where all GPUs are in one view.

    RCCL compares it also to decide which NICs stay, and that is not noted.
    """
    if len(views) != 1 or views[0].version.is_rccl:
        return None
    return views[0].gdr.by_distance


def derived(
    untuned: UntunedDecision, asked: Mapping[str, str | None], settings: Settings
) -> UntunedDecision | None:
    """The decision under these settings, if it follows from one that asked for those."""
    changed = {name for name, value in asked.items() if settings.values.get(name) != value}
    if not changed:
        return untuned
    if changed <= P2P_LEVELS:
        return _for_p2p_level(untuned, settings)
    if changed == {GDR_LEVEL}:
        return _for_gdr_level(untuned, settings)
    return _without_nvls(untuned, settings) if changed == {NVLS_VARIABLE} else None


def _for_p2p_level(untuned: UntunedDecision, settings: Settings) -> UntunedDecision | None:
    """The library uses the level for nothing but to compare paths between GPUs with it.

    If all comparisons come out as before, so does all that follows from them.
    """
    reach = untuned.reach
    if reach is None:
        return None
    limit, level = limit_of(settings, untuned.version, reach.default)
    if any((kind <= limit) is not (kind <= reach.limit) for kind in reach.asked):
        return None
    words = {
        step: near_enough(untuned.version, limit, level, reach.vendor, kind)
        for step, kind in reach.near.items()
    }
    near = {words[step]: kind for step, kind in reach.near.items()}
    return replace(
        untuned,
        pairs=tuple(
            with_fields(pair, steps=_reworded(pair.steps, words)) for pair in untuned.pairs
        ),
        reach=reach._replace(limit=limit, near=near),
    )


def _for_gdr_level(untuned: UntunedDecision, settings: Settings) -> UntunedDecision | None:
    """As with the level of P2P: GPUDirect RDMA compares it with distances, and that is all."""
    checks = None if untuned.gdr is None else untuned.gdr.equal_checks(settings)
    if checks is None:
        return None
    words = {
        gdr_step(untuned.version, question, was): gdr_step(untuned.version, question, now)
        for was, now in checks.items()
        for question in (FOR_SENDS, FOR_RECEIVES)
    }
    views = (
        with_fields(
            view,
            nets=tuple(with_fields(net, steps=_reworded(net.steps, words)) for net in view.nets),
        )
        for view in untuned.views
    )
    return replace(untuned, views=tuple(views), gdr=None)


def _reworded(
    steps: tuple[DecisionStep, ...], words: Mapping[DecisionStep, DecisionStep]
) -> tuple[DecisionStep, ...]:
    return tuple([words.get(step, step) if step.question in LIMITED else step for step in steps])


def _without_nvls(untuned: UntunedDecision, settings: Settings) -> UntunedDecision | None:
    """NVLS is searched last, and no other graph asks for it."""
    switch = nvls_switch(settings)
    if untuned.version.is_rccl or not switch.decides:
        return None
    views = (
        with_fields(view, graphs=_none(view.graphs), steps={**view.steps, NVLS: (switch,)})
        for view in untuned.views
    )
    return replace(
        untuned,
        views=tuple(views),
        all_graphs=tuple(map(_none, untuned.all_graphs)),
        graphs=_none(untuned.graphs),
        gdr=None,
        reach=None,
    )


def _none(graphs: Graphs) -> Graphs:
    return with_fields(graphs, nvls=None)
