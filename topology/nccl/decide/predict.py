"""From a snapshot and an environment to all decisions; nothing here asks the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...model.snapshot import NodeSnapshot
from ...model.versions import Library
from ..behaviour import Behaviour
from ..prediction import DomainView, PairDecision, Prediction
from ..settings import Settings
from ..versions import Version
from .ground import Ground, NotedSettings, keep_ground, known_ground
from .groundwork import Groundwork
from .groundwork import NoGpusError as NoGpusError
from .standing import Standing
from .steps import CAN_REACH
from .timing import timing_of

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
    standing: Standing | None = None,
) -> Prediction:
    """What the library decides on this node.

    `library`: "nccl-2.28.9", or rules that no version has as a whole; without it, what the node
    has. `gpus`: PCI addresses of the communicator; without it, all that are visible. `nodes`:
    number of identical hosts. `standing`: what is kept between predictions that differ in nothing
    but settings.
    Raises NoGpusError, UnknownVersionError.
    """
    settings = Settings.of(snapshot) if settings is None else settings
    if isinstance(library, Behaviour):
        ground = ground_of(snapshot, settings, library.version, gpus, nodes, standing)
        return _predicted(ground, settings, nodes, library)
    ground = ground_of(snapshot, settings, library, gpus, nodes, standing)
    return _predicted(ground, settings, nodes)


def ground_of(
    snapshot: NodeSnapshot,
    settings: Settings,
    library: str | Version | None,
    gpus: Sequence[str] | None,
    nodes: int,
    standing: Standing | None = None,
) -> Ground:
    """What a prediction decides before its tuning, made now or kept from one before.

    `nodes`: number of identical hosts; all counts above one have the same ground. Raises as
    `predict`.
    """
    key = library, None if gpus is None else tuple(gpus), min(nodes, MORE)
    ground = known_ground(snapshot, key, settings)
    if ground is None and standing is not None:
        ground = standing.ground(key, settings)
    if ground is None:
        noted = NotedSettings(settings.values)
        ground = Groundwork(snapshot, noted, library, gpus, nodes, standing).make()
        keep_ground(snapshot, key, noted.asked, ground)
        if standing is not None:
            standing.keep(key, noted.asked, ground)
    return ground


def _predicted(
    ground: Ground, settings: Settings, nodes: int, tried: Behaviour | None = None
) -> Prediction:
    library = ground.library if tried is None else tried.name
    timing = timing_of(
        ground.hardware,
        ground.all_graphs,
        ground.version,
        settings,
        asked=library,
        table=None if tried is None else tried.tuning,
        ranks=ground.ranks * nodes,
        nodes=len(ground.views) * nodes,
    )
    assumptions = dict.fromkeys(ground.assumptions)
    for text in (*timing.assumptions, *_standing_assumptions(ground.pairs, settings)):
        assumptions.setdefault(text.removesuffix("."))
    assumptions.pop("", None)
    return Prediction(
        library=Library(name=ground.version.library, version=library.rpartition("-")[2]),
        environment=dict(sorted(settings.values.items())),
        pairs=ground.pairs,
        views=ground.views,
        graphs=ground.graphs,
        choices=timing.choices,
        tuning=timing.tuning,
        coll_channels=timing.coll_channels,
        nodes=len(ground.views) * nodes,
        ignored=timing.ignored,
        failure=ground.failure or timing.failure,
        assumptions=tuple(assumptions),
    )


def _standing_assumptions(pairs: tuple[PairDecision, ...], settings: Settings) -> Iterator[str]:
    if any(
        step.basis == "assumed" and step.question == CAN_REACH
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
    settings = NotedSettings(prediction.environment)
    return Groundwork(snapshot, settings, library, tuple(gpus) or None, 2).nic_views()
