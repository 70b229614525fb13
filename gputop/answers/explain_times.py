"""The times of all collectives that `explain --collectives` asks for, on a host and over hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.answers.predicting import selected
from gputop.exits import USAGE, Exit
from gputop.topology.cost.over_hosts import HostsCall, calls_over_hosts
from gputop.topology.explain.collectives import times_of
from gputop.topology.nccl.settings import Settings
from gputop.topology.node import Node

if TYPE_CHECKING:
    from gputop.answers.explain import ExplainRequest
    from gputop.topology.expectation.calls.times import CallTime
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.nccl.prediction import Prediction


def times_asked(
    asked: ExplainRequest,
    snapshot: NodeSnapshot,
    prediction: Prediction,
    addresses: tuple[str, ...] | None,
) -> tuple[CallTime, ...]:
    """Every collective at every size. Raises Exit where the options do not go together."""
    if not asked.collectives:
        raise Exit("--at-once needs --collectives", USAGE)
    everyone = tuple(gpu.address for gpu in snapshot.machine.gpus)
    groups = [selected(text, snapshot.machine) or everyone for text in asked.at_once]
    node = Node(snapshot).with_prediction(prediction)
    return times_of(node, addresses or everyone, groups)


def hosts_asked(
    asked: ExplainRequest, snapshot: NodeSnapshot, addresses: tuple[str, ...] | None
) -> tuple[HostsCall, ...] | None:
    """All-reduces over the hosts; None where nobody asked, or for some GPUs of each alone."""
    if not asked.collectives or asked.nodes < 2 or addresses is not None:
        return None
    return calls_over_hosts(Node(snapshot).decide(), asked.nodes, Settings.of(snapshot))
