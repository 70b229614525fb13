"""Advice that a prediction does not show: for a job on some of the GPUs of an Instinct board."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gputop.commands.explain.document import Advice
from gputop.printing.render import wrapped_text
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.rules.amd.few_gpus import FEW
from gputop.topology.node import Node

if TYPE_CHECKING:
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.nccl.prediction import Prediction

ADVISED = "NCCL_MIN_NCHANNELS"
ENOUGH = 32


def advice(snapshot: NodeSnapshot, prediction: Prediction) -> tuple[Advice, ...]:
    """The remarks of `check --gpus` on these GPUs; only RCCL has any."""
    gpus = sorted({pair.src_bus_id for pair in prediction.pairs})
    if prediction.library.name != "rccl" or len(gpus) < 2:
        return ()
    found = FEW.check(Case(Node(snapshot), gpus=gpus))
    return tuple(
        Advice(
            id=finding.id,
            title=finding.title,
            why=f"{finding.evidence[0].value}; {finding.impact}",
            text="" if _set(prediction) else finding.fix[0].text,
            command="" if _set(prediction) else finding.fix[0].command,
        )
        for finding in found or ()
    )


def _set(prediction: Prediction) -> bool:
    value = prediction.environment.get(ADVISED, "")
    return value.isdecimal() and len(value) < 6 and int(value) >= ENOUGH


def lines(suggestions: tuple[Advice, ...], width: int) -> Iterator[str]:
    """The advice as lines of text."""
    for suggestion in suggestions:
        yield from wrapped_text(f"{suggestion.title}: {suggestion.why}", width, 2)
        if suggestion.command:
            yield from wrapped_text(
                f"  {suggestion.text.rstrip('.')}: {suggestion.command}", width, 4
            )
