"""What a library decides, and which of the set variables have no effect as written."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...model.snapshot import NodeSnapshot
from ...nccl.decide.predict import predict
from ...nccl.prediction import Prediction
from ...nccl.settings import Settings
from ..catalogue.catalogue import catalogue


def predict_with_flags(
    snapshot: NodeSnapshot,
    settings: Settings | None = None,
    *,
    library: str | None = None,
    gpus: Sequence[str] | None = None,
    nodes: int = 1,
) -> Prediction:
    """Call `predict` and name the variables without effect: by the catalogue, then by the model.

    Raises NoGpusError, UnknownVersionError.
    """
    made = predict(snapshot, settings, library=library, gpus=gpus, nodes=nodes)
    if not made.environment:
        return made
    from .values import ignored

    found = ignored(made.environment, made.library, catalogue())
    named = {name for name, _, _ in found}
    rest = (entry for entry in made.ignored if entry[0] not in named)
    return msgspec.structs.replace(made, ignored=(*found, *rest))
