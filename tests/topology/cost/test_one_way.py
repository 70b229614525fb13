"""One way and one figure: calls, explain and cost say the same of every machine and variable."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest

from gputop.topology.cost.node_wires import WAYS, NodeWires
from gputop.topology.expectation.calls.kinds import CollectiveKind
from gputop.topology.expectation.calls.times import CallTime, TimesOfCalls
from gputop.topology.expectation.cost.costs import Costs
from gputop.topology.expectation.over_pcie import over_pcie_here
from gputop.topology.expectation.variables import Variables
from gputop.topology.expectation.ways import TakenWay, way_of_rings
from gputop.topology.model import quantities
from gputop.topology.model.snapshot import DataVerdict, EnvironmentVariable, Measurement
from gputop.topology.node import Node
from gputop.topology.recorded.demos.demo import names
from tests.grid import turns
from tests.support.snapshots import demo_node

GIB = 1 << 30
REFUSED = "every copy refused"
SET = {
    "nothing": {},
    "NCCL_P2P_DISABLE=1": {"NCCL_P2P_DISABLE": "1"},
    "NCCL_P2P_LEVEL=LOC": {"NCCL_P2P_LEVEL": "LOC"},
    "NCCL_P2P_LEVEL=SYS": {"NCCL_P2P_LEVEL": "SYS"},
    "NCCL_SHM_DISABLE=1": {"NCCL_SHM_DISABLE": "1"},
    "neither": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
    REFUSED: {},
}


def _node(demo: str, case: str) -> Node:
    snapshot = demo_node(demo).snapshot
    refused = [
        Measurement(
            probe="p2p",
            quantity=quantities.CAN_ACCESS,
            src=one,
            dst=other,
            verdict=DataVerdict.NOT_GRANTED,
        )
        for one, other in permutations([gpu.address for gpu in snapshot.machine.gpus], 2)
    ]
    set_now = [
        EnvironmentVariable(name=name, value=value, origin="--set")
        for name, value in SET[case].items()
    ]
    return Node(
        msgspec.structs.replace(
            snapshot,
            environment=tuple(set_now),
            measurements=tuple(refused) if case == REFUSED else (),
        )
    ).decide()


def _busbw(call: CallTime, us: float) -> float:
    return call.busbw_gbs * call.us / us


@pytest.mark.parametrize(("demo", "case"), turns(names(), SET))
def test_calls_explain_and_cost_state_one_way_and_one_figure(demo: str, case: str) -> None:
    node = _node(demo, case)
    gpus = [gpu.address for gpu in node.machine.gpus]
    call = TimesOfCalls(node).of(gpus, CollectiveKind.ALL_REDUCE, GIB)
    told, wire = Costs(node).all_reduce, NodeWires(node).of(len(gpus), 1)
    assert call is not None
    assert told is not None
    assert wire is not None
    assert told.here is not None
    assert node.prediction is not None
    assert call.way is way_of_rings(node.prediction)
    assert (wire.name in WAYS.values()) is (call.way is not TakenWay.LINKS)
    spent = wire.seconds(CollectiveKind.ALL_REDUCE, GIB) * 1e6
    assert spent == pytest.approx(call.us)
    if told.least is not None:
        ends = told.least, told.here  # NVLS may come up or not
        assert ends == pytest.approx((call.busbw_gbs, _busbw(call, call.low_us)), rel=0.01)
    elif call.way is TakenWay.LINKS:
        assert _busbw(call, call.high_us) < told.here < _busbw(call, call.low_us)
    else:
        # A call has a fixed part, and the figure has none.
        assert call.busbw_gbs == pytest.approx(told.here, rel=0.01)
        low, high = _busbw(call, call.high_us), _busbw(call, call.low_us)
        assert (told.low, told.high) == pytest.approx((low, high), rel=0.01)


@pytest.mark.parametrize("demo", names())
def test_nothing_that_takes_p2p_away_makes_a_call_faster(demo: str) -> None:
    free = TimesOfCalls(_node(demo, "nothing"))
    taken = {
        case: TimesOfCalls(_node(demo, case))
        for case in ("NCCL_P2P_DISABLE=1", "NCCL_P2P_LEVEL=LOC", REFUSED)
    }
    gpus = [gpu.address for gpu in demo_node(demo).machine.gpus]
    for some in (gpus, gpus[:2], gpus[:4]):
        for collective in CollectiveKind:
            before = free.of(some, collective, GIB)
            assert before is not None
            for case, times in taken.items():
                after = times.of(some, collective, GIB)
                assert after is not None
                assert after.us > 0.999 * before.us, (case, collective, some)
                assert after.way in (TakenWay.HOST, TakenWay.NETWORK)


@pytest.mark.parametrize("case", ["NCCL_P2P_DISABLE=1", REFUSED])
def test_a_variable_and_a_refusal_that_do_the_same_give_the_same(case: str) -> None:
    node = _node("pcie-l40s-8", case)
    assert node.prediction is not None
    assert way_of_rings(node.prediction) is TakenWay.HOST
    found = over_pcie_here(Variables(node.snapshot, node.prediction), node, None)
    assert found is not None
    assert (round(found.low, 2), round(found.high, 1)) == (5.67, 25.8)
