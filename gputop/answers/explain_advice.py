"""Advice that a prediction does not show: for a job on some of the GPUs of an Instinct board."""

from __future__ import annotations

import msgspec

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.rules.amd.links import FEW
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.prediction import Prediction
from gputop.topology.node import Node

ADVISED = "NCCL_MIN_NCHANNELS"
ENOUGH = 32


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """One remark of a rule of `gputop check` on the whole communicator."""

    id: str
    """The rule's id, "amd-few-gpus"."""
    title: str
    why: str
    text: str = ""
    command: str = ""
    """A command to copy; "" where the environment has it already."""


def advice_on(snapshot: NodeSnapshot, prediction: Prediction) -> tuple[Advice, ...]:
    """The remarks of `check --gpus` on these GPUs; only RCCL has any."""
    gpus = sorted({pair.src_bus_id for pair in prediction.pairs})
    if prediction.library.name != "rccl" or len(gpus) < 2:
        return ()
    value = prediction.environment.get(ADVISED, "")
    done = value.isdecimal() and len(value) < 6 and int(value) >= ENOUGH
    return tuple(
        Advice(
            id=finding.id,
            title=finding.title,
            why=f"{finding.evidence[0].value}; {finding.impact}",
            text="" if done else finding.fix[0].text,
            command="" if done else finding.fix[0].command,
        )
        for finding in FEW.answer(Case(Node(snapshot), gpus=gpus)) or ()
    )
