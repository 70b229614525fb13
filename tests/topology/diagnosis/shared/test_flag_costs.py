"""What a variable costs is predicted once, and few such costs are kept."""

from __future__ import annotations

import msgspec

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.diagnosis.shared import flag_costs
from gputop.topology.model.snapshot import EnvironmentVariable, NodeSnapshot
from gputop.topology.node import Node
from tests.support.rule_cases import base

H200 = "hgx-h200-4gpu-live"


def with_variables(name: str, origin: str = "environment", **values: str) -> NodeSnapshot:
    whole = base(name)
    more = tuple(EnvironmentVariable(name=n, value=v, origin=origin) for n, v in values.items())
    return msgspec.structs.replace(whole, environment=(*whole.environment, *more))


def test_the_same_node_is_predicted_once() -> None:
    report = Node(with_variables(H200, NCCL_P2P_DISABLE="1"))
    report = report.decide()
    diagnose(Case(report))
    kept = [id(cost) for _, cost in flag_costs._kept]
    diagnose(Case(report))
    assert [id(cost) for _, cost in flag_costs._kept] == kept
    for number in range(2 * flag_costs.KEPT):
        again = Node(with_variables(H200, NCCL_MAX_NCHANNELS=str(number + 1)))
        again = again.decide()
        diagnose(Case(again))
    assert len(flag_costs._kept) <= flag_costs.KEPT
