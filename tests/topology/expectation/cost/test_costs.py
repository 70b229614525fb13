"""One pair of figures for one fact, and the machine without its faults."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from gputop.topology.expectation.cost.cost import Cost
from gputop.topology.expectation.cost.costs import Costs, costs_of, worst_copy
from gputop.topology.expectation.judge import judge
from gputop.topology.expectation.repaired import repaired
from gputop.topology.explain import value_rows
from gputop.topology.model.severity import FigureBasis
from gputop.topology.model.snapshot import EnvironmentVariable, Measurement
from gputop.topology.model.units import figure
from gputop.topology.nccl.prediction import Prediction
from gputop.topology.node import Node
from tests.support.snapshots import demo_node, gpus_of

SICK = {"sick-h100-8": "hgx-h100-8", "sick-mi300x-8": "mi300x-8"}


def text(node: Node) -> str:
    cost = costs_of(node.decide()).all_reduce
    return "" if cost is None else cost.text


def all_reduce(value: float, **details: object) -> Measurement:
    return Measurement(
        probe="collectives",
        quantity="all_reduce_busbw",
        value=value,
        unit="GB/s",
        bytes_per_copy=1 << 30,
        device_kind="gpu",
        details=details,
    )


@pytest.mark.parametrize("sick", SICK)
def test_a_sick_node_repaired_costs_what_its_healthy_sister_does(sick: str) -> None:
    here, sister = (costs_of(demo_node(name).decide()).all_reduce for name in (sick, SICK[sick]))
    assert here is not None
    assert sister is not None
    assert here.healthy == sister.healthy == sister.here
    assert here.lost
    assert not sister.lost


def test_what_the_sick_demos_lose() -> None:
    assert text(demo_node("sick-h100-8")) == (
        "all-reduce 1 GiB: healthy 473 → here 355 GB/s (predicted)"
    )
    assert text(demo_node("sick-mi300x-8")) == (
        "all-reduce 1 GiB: healthy 333 → here 95.7 GB/s (predicted)"
    )
    assert text(demo_node("hgx-h100-8")) == "all-reduce 1 GiB: 473 GB/s (predicted)"


@pytest.mark.parametrize("shape", ["hgx-h100-8", "mi300x-8", "dgx-1v", "mi250x-8", "pcie-l40s-8"])
def test_a_healthy_machine_has_nothing_to_repair(shape: str) -> None:
    assert repaired(demo_node(shape).snapshot.machine) is None


def test_repairing_joins_the_pairs_that_lost_their_link() -> None:
    machine = repaired(demo_node("sick-mi300x-8").snapshot.machine)
    whole = demo_node("mi300x-8").snapshot.machine
    assert machine is not None
    assert (machine.gpus, machine.pairs) == (whole.gpus, whole.pairs)


def test_a_copy_and_the_host_are_told_by_what_is_up() -> None:
    node = demo_node("sick-h100-8").decide()
    gpus = gpus_of(node)
    worst = worst_copy(node, node.snapshot.machine.gpus[3])
    host = costs_of(node).host(gpus[3])
    assert worst is not None
    assert host is not None
    assert worst.text == "copy GPU3 to GPU0: healthy 380 → here 338 GB/s (typical)"
    assert host.text == "host copy GPU3: healthy 51.0 → here 25.5 GB/s (typical)"


def test_a_pair_without_its_xgmi_link_has_no_figure_that_nobody_measured() -> None:
    node = demo_node("sick-mi300x-8").decide()
    gpus = gpus_of(node)
    cost = costs_of(node).copy(gpus[2], gpus[5])
    assert cost is not None
    assert cost.pair == "healthy 48.0 → here not known"
    assert cost.missing == ("the xGMI link of GPU2 and GPU5 is down",)


def test_what_was_measured_is_the_figure_here() -> None:
    node = demo_node("sick-h100-8", measurements=(all_reduce(351.0, ranks=8),)).decide()
    cost = costs_of(node).all_reduce
    assert cost is not None
    assert cost.basis is FigureBasis.MEASURED
    assert cost.text == "all-reduce 1 GiB: healthy 466 → here 351 GB/s (measured)"
    few = demo_node("sick-h100-8", measurements=(all_reduce(200.0, ranks=4),))
    assert "predicted" in text(few)


def test_the_verdict_on_a_measured_all_reduce_names_the_same_figure() -> None:
    node = demo_node("sick-h100-8", measurements=(all_reduce(351.0, ranks=8),))
    (found,) = judge(node.snapshot, node.snapshot.measurements)
    assert found.explained
    assert "GPU3 has 16 of 18 NVLinks up: 355 GB/s is what that can give" in found.cause


def test_what_a_mesh_without_a_link_reaches_is_known_to_the_verdict() -> None:
    node = demo_node("sick-mi300x-8", measurements=(all_reduce(88.0, ranks=8),))
    (found,) = judge(node.snapshot, node.snapshot.measurements)
    assert found.cause.startswith("the xGMI link of GPU2 and GPU5 is down: 95.7 GB/s")
    assert found.explained


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ("hgx-h100-8", "healthy 473 → here 39.9 to 230 GB/s (predicted)"),
        ("hgx-a100-8", "healthy 238 → here 5.67 to 25.8 GB/s (estimate)"),
    ],
)
def test_without_p2p_the_figure_is_a_range(shape: str, said: str) -> None:
    """Whether NVLS comes up without P2P is not known; NICs instead are bounded by the slots."""
    node = demo_node(shape)
    variable = EnvironmentVariable(name="NCCL_P2P_DISABLE", value="1", origin="environment")
    changed = Node(msgspec.structs.replace(node.snapshot, environment=(variable,)))
    assert text(changed) == f"all-reduce 1 GiB: {said}"


def test_costs_are_worked_out_once_for_a_node_that_stays() -> None:
    node = demo_node("sick-h100-8").decide()
    later = node.follow(msgspec.structs.replace(node.snapshot, taken_at=1.0))
    assert costs_of(later) is costs_of(node)


def test_what_rccl_loses_without_p2p_is_a_range_of_the_slots() -> None:
    off = EnvironmentVariable(name="NCCL_P2P_DISABLE", value="1", origin="environment")
    told = "all-reduce 1 GiB: healthy 333 → here 11.3 to 41.6 GB/s (estimate)"
    for demo in ("mi300x-8", "sick-mi300x-8"):
        node = Node(msgspec.structs.replace(demo_node(demo).snapshot, environment=(off,))).decide()
        cost = costs_of(node).all_reduce
        assert cost is not None
        assert cost.text == told
    # The model of this node keeps its rings of xGMI, whose speed says nothing of shared memory.
    node = Node(
        msgspec.structs.replace(demo_node("mi250x-8").snapshot, environment=(off,))
    ).decide()
    cost = costs_of(node).all_reduce
    assert cost is not None
    assert cost.text == "all-reduce 1 GiB: healthy 250 → here 5.67 to 25.8 GB/s (estimate)"


def test_a_loss_that_rccl_does_not_see_is_an_estimate_by_its_rings() -> None:
    """As if its tables gave the sick node the choices and times of a healthy one."""
    sick, whole = (demo_node(name).decide() for name in ("sick-mi300x-8", "mi300x-8"))
    assert sick.prediction is not None
    assert whole.prediction is not None
    blind = msgspec.structs.replace(sick.prediction, choices=whole.prediction.choices)
    assert (
        text(sick.with_prediction(blind))
        == "all-reduce 1 GiB: healthy 333 → here 95.2 GB/s (estimate)"
    )


@pytest.mark.parametrize(
    ("healthy", "here", "high", "span"),
    [
        (16.6, 16.6, 18.0, (2.8, 18.0)),  # nothing is lost: an estimate from an odd node
        (16.6, 8.3, 12.9, (2.8, 12.9)),  # less is left, whichever end is true
        (16.6, 8.3, 17.0, None),  # what is lost is told by one figure: its range may have none
        (None, 8.3, 12.9, (2.8, 12.9)),
    ],
)
def test_both_texts_of_a_figure_show_the_same_range(
    healthy: float | None, here: float, high: float, span: tuple[float, float] | None
) -> None:
    """Explain prints the one, flags the other."""
    cost = Cost(
        what="all-reduce 1 GiB",
        healthy=healthy,
        here=here,
        low=2.8,
        high=high,
        basis=FigureBasis.ESTIMATE,
    )
    assert cost.span == span
    told = f"{figure(span[0])} to {figure(span[1])}" if span else f"{figure(here)} GB/s"
    assert told in cost.pair
    costs, made = SimpleNamespace(all_reduce=cost), SimpleNamespace(failure="")
    shown = value_rows._cost(cast("Costs", costs), cast("Prediction", made))
    assert told in shown
