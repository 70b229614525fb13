"""`gputop explain --json`: a prediction with its sources."""

from __future__ import annotations

import msgspec

from ...topology.model.versions import Library
from ...topology.nccl.hosts.records import MultiNode
from ...topology.nccl.prediction import (
    AlgorithmChoice,
    DomainView,
    Graphs,
    PairDecision,
    Prediction,
    Tuning,
)

SCHEMA = "gputop.explain/1"


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """One remark of a rule of `gputop check` on the whole communicator."""

    id: str
    """The rule's id, "amd-few-gpus"."""
    title: str
    why: str
    text: str = ""
    command: str = ""
    """A command to copy; "" where the environment has it already."""


class ExplainDocument(msgspec.Struct, kw_only=True):
    """One JSON document; `baseline` and `two_node` are documents of the same kind."""

    schema: str = SCHEMA
    gputop: str
    source: tuple[str, ...]
    library: Library
    environment: dict[str, str]
    nodes: int
    coll_channels: int | None
    pairs: tuple[PairDecision, ...]
    views: tuple[DomainView, ...]
    graphs: Graphs
    choices: tuple[AlgorithmChoice, ...]
    tuning: Tuning
    ignored: tuple[tuple[str, str, str], ...]
    failure: str | None
    assumptions: tuple[str, ...]
    advice: tuple[Advice, ...] = ()
    """Remarks of `check --gpus` on the design of this communicator."""
    baseline: ExplainDocument | msgspec.UnsetType = msgspec.UNSET
    two_node: ExplainDocument | msgspec.UnsetType = msgspec.UNSET
    """What one of two equal hosts decides, with `--nodes 2`."""
    multi_node: MultiNode | msgspec.UnsetType = msgspec.UNSET
    """Rings, trees and rails over all hosts, with `--nodes` of two and more."""


def document(
    prediction: Prediction,
    *,
    gputop: str,
    source: tuple[str, ...],
    pair: tuple[int, int] | None = None,
    advice: tuple[Advice, ...] = (),
) -> ExplainDocument:
    """Turn a prediction into a document; `pair` keeps only that ordered pair of ranks."""
    pairs = prediction.pairs
    if pair is not None:
        pairs = tuple(item for item in pairs if (item.src, item.dst) == pair)
    return ExplainDocument(
        gputop=gputop,
        source=source,
        library=prediction.library,
        environment=prediction.environment,
        nodes=prediction.nodes,
        coll_channels=prediction.coll_channels,
        pairs=pairs,
        views=prediction.views,
        graphs=prediction.graphs,
        choices=prediction.choices,
        tuning=prediction.tuning,
        ignored=prediction.ignored,
        failure=prediction.failure,
        assumptions=prediction.assumptions,
        advice=advice,
    )
