"""All decisions, from a snapshot and an environment; nothing here asks the machine."""

from collections.abc import Iterator, Sequence

from ...model.page import Basis
from ...model.snapshot import NodeSnapshot
from ...model.versions import Library, LibraryName
from ..behaviour import Behaviour
from ..prediction import AlgorithmChoice, DomainView, PairDecision, Prediction
from ..settings import Settings
from ..tuning.version import COLLECTIVES as COLLECTIVES
from ..versions import Version
from .prediction_cache import PredictionCache
from .steps import CAN_REACH
from .timing import pick, timing_of
from .untuned import TrackedSettings, UntunedDecision, keep_untuned, known_untuned
from .untuned_builder import NoGpusError as NoGpusError
from .untuned_builder import UntunedBuilder

NOT_FOLLOWED = (
    ("NCCL_GRAPH_FILE", "a graph given by file is not read; the search is predicted instead"),
    ("NCCL_RINGS", "rings given by hand are not followed"),
    ("NCCL_TUNER_PLUGIN", "a tuner plugin may choose other algorithms than predicted"),
)
MORE = 2
"""Hosts, as many as make a graph search look at NICs; it asks for nothing but this."""


def predict(
    snapshot: NodeSnapshot,
    settings: Settings | None = None,
    *,
    library: str | Behaviour | None = None,
    gpus: Sequence[str] | None = None,
    nodes: int = 1,
    cache: PredictionCache | None = None,
) -> Prediction:
    """The decisions of the library on this node.

    `library`: "nccl-2.28.9", or rules that no version has as a whole; without it, what the node
    has. `gpus`: PCI addresses of the communicator; without it, all that are visible. `nodes`:
    number of identical hosts. `cache`: what is kept between predictions that differ in nothing
    but settings.
    Raises NoGpusError, UnknownVersionError.
    """
    settings = Settings.of(snapshot) if settings is None else settings
    if isinstance(library, Behaviour):
        untuned = untuned_of(snapshot, settings, library.version, gpus, nodes, cache)
        return _predicted(untuned, settings, nodes, library)
    untuned = untuned_of(snapshot, settings, library, gpus, nodes, cache)
    return _predicted(untuned, settings, nodes)


def untuned_of(
    snapshot: NodeSnapshot,
    settings: Settings,
    library: str | Version | None,
    gpus: Sequence[str] | None,
    nodes: int,
    cache: PredictionCache | None = None,
) -> UntunedDecision:
    """The decisions before the tuning, made now or kept from a prediction before.

    `nodes`: number of identical hosts; all counts above one decide the same. Raises as
    `predict`.
    """
    key = library, None if gpus is None else tuple(gpus), min(nodes, MORE)
    untuned = known_untuned(snapshot, key, settings)
    if untuned is None and cache is not None:
        untuned = cache.untuned(key, settings)
    if untuned is None:
        tracked = TrackedSettings(settings.values)
        untuned = UntunedBuilder(snapshot, tracked, library, gpus, nodes, cache).make()
        keep_untuned(snapshot, key, tracked.asked, untuned)
        if cache is not None:
            cache.keep(key, tracked.asked, untuned)
    return untuned


def _predicted(
    untuned: UntunedDecision, settings: Settings, nodes: int, tried: Behaviour | None = None
) -> Prediction:
    library = untuned.library if tried is None else tried.name
    timing = timing_of(
        untuned.hardware,
        untuned.all_graphs,
        untuned.version,
        settings,
        asked=library,
        table=None if tried is None else tried.tuning,
        ranks=untuned.ranks * nodes,
        nodes=len(untuned.views) * nodes,
    )
    assumptions = dict.fromkeys(untuned.assumptions)
    for text in (*timing.assumptions, *_standing_assumptions(untuned.pairs, settings)):
        assumptions.setdefault(text.removesuffix("."))
    assumptions.pop("", None)
    return Prediction(
        library=Library(
            name=LibraryName(untuned.version.library), version=library.rpartition("-")[2]
        ),
        environment=dict(sorted(settings.values.items())),
        pairs=untuned.pairs,
        views=untuned.views,
        graphs=untuned.graphs,
        choices=timing.choices,
        tuning=timing.tuning,
        coll_channels=timing.coll_channels,
        nodes=len(untuned.views) * nodes,
        ignored=timing.ignored,
        failure=untuned.failure or timing.failure,
        assumptions=tuple(assumptions),
    )


def choice_of(
    snapshot: NodeSnapshot,
    settings: Settings,
    collective: str,
    size_bytes: int,
    *,
    library: str | None = None,
    gpus: Sequence[str] | None = None,
    nodes: int = 1,
) -> AlgorithmChoice | None:
    """The choice for one call (of COLLECTIVES), where `predict` has those for all-reduces.

    `size_bytes`: the larger of the buffers sent and received. None where nothing is predicted.
    Raises as `predict`.
    """
    untuned = untuned_of(snapshot, settings, library, gpus, nodes)
    return pick(
        untuned.hardware,
        untuned.all_graphs,
        untuned.version,
        settings,
        asked=untuned.library,
        ranks=untuned.ranks * nodes,
        nodes=len(untuned.views) * nodes,
        call=(collective, size_bytes),
    )


def _standing_assumptions(pairs: tuple[PairDecision, ...], settings: Settings) -> Iterator[str]:
    if any(
        step.basis == Basis.ASSUMED and step.question == CAN_REACH
        for pair in pairs
        for step in pair.steps
    ):
        yield "the driver is assumed to grant peer access: it was not asked"
    yield "one process per GPU, all in one container with one /dev/shm"
    for name, text in NOT_FOLLOWED:
        if settings.text(name):
            yield f"{name}: {text}"


def nics_between_nodes(snapshot: NodeSnapshot, prediction: Prediction) -> tuple[DomainView, ...]:
    """The NICs that the communicator of a prediction would take in a job over several nodes.

    The views of the prediction itself where it has NICs: older versions leave them out within one
    node (graph/topo.cc:ncclTopoTrimSystem), so that their way is computed as for two hosts.
    """
    if any(view.nets for view in prediction.views):
        return prediction.views
    library = f"{prediction.library.name}-{prediction.library.version}"
    gpus = dict.fromkeys(pair.src_bus_id for pair in prediction.pairs)
    settings = TrackedSettings(prediction.environment)
    return UntunedBuilder(snapshot, settings, library, tuple(gpus) or None, 2).nic_views()
