"""Bounds by hand: FLOP of a parameter against the bytes of it that must be sent meanwhile.

Sources: ZeRO, arXiv 1910.02054, 7.2 (2 Psi are sent without, 3 Psi with sharded parameters); "How
to scale your model", GPUs (989 TFLOP/s over twice 450 GB/s with reduction in the switch is 1098
tokens, FSDP takes twice as many).
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gputop.topology.cost.layout import Layout, StepPlan
from gputop.topology.cost.models import models
from gputop.topology.cost.rooflines import DATA, SHARDED, JoinedRanks, rooflines
from gputop.topology.cost.step import StepTime, step_time
from gputop.topology.cost.wires import GroupWire, flat
from gputop.topology.expectation.calls.kinds import CollectiveKind
from gputop.topology.hardware.specs import skus
from gputop.topology.model.severity import FigureBasis
from tests.topology.cost.test_step import RATES

C, W = 989.4e12, 450e9
H100 = msgspec.structs.replace(RATES, sheet_flops=C, flops=C)
DENSE = models()["Llama 3 8B"]


def ring(ranks: int, rate: float = W) -> GroupWire:
    return flat("by hand", ranks, rate, 0.0, FigureBasis.ESTIMATE, "")


def tokens(sku: str, wire: GroupWire | None, **more: Any) -> dict[str, tuple[Any, Any]]:
    """(on paper, here) by bound."""
    joined = JoinedRanks(inside=wire, ranks=8, over=wire, **more)
    found = rooflines(DENSE, H100, skus()[sku], joined)
    return {one.what: (one.paper, one.here) for one in found}


def test_on_paper_a_switch_that_adds_halves_data_parallelism_alone() -> None:
    found = tokens("H100-SXM", None)
    assert found[DATA] == (pytest.approx(1099, abs=1), None)
    assert found[SHARDED] == (pytest.approx(2199, abs=1), None)


@pytest.mark.parametrize("name", ["A100-SXM4-80", "V100-SXM2-32", "MI300X"])
def test_without_such_a_switch_both_take_as_many_on_paper(name: str) -> None:
    found, total = tokens(name, None), skus()[name].total_gbs
    assert total is not None
    assert found[DATA] == found[SHARDED] == (pytest.approx(C / (total * 1e9)), None)


def test_a_ring_of_eight_takes_as_many_for_both() -> None:
    """Reducing: 4 T / C = 2 * 2 * (7/8) / W. Gathering: 2 T / C = 2 * (7/8) / W, and 4 T / C =
    (2 + 2) * (7/8) / W backward. All are T = (7/8) * 989.4e12 / 450e9 = 1923.8."""
    found = tokens("H100-SXM", ring(8))
    assert found[DATA][1] == pytest.approx(1923.8, abs=0.1)
    assert found[SHARDED][1] == pytest.approx(1923.8, abs=0.1)


def test_a_faster_reduction_changes_nothing_about_gathers() -> None:
    wire = ring(8)
    curves = {
        CollectiveKind.ALL_REDUCE: ((1 << 30, 480e9),),
        CollectiveKind.ALL_GATHER: ((1 << 30, 360e9),),
        CollectiveKind.REDUCE_SCATTER: ((1 << 30, 300e9),),
    }
    found = tokens("H100-SXM", msgspec.structs.replace(wire, curves=curves))
    assert found[DATA][1] == pytest.approx(7 / 8 * C / 480e9)
    assert found[SHARDED][1] == pytest.approx(7 / 8 * C * (1 / 360e9 + 1 / 300e9) / 2)


def test_a_network_counts_by_its_nics_and_adds_nothing_up() -> None:
    """989.4e12 / 400e9 = 2473.5; the book's 1236 takes InfiniBand switches that add."""
    found = tokens("H100-SXM", ring(16, 368e9), network_gbs=400.0, by_network=True)
    paper = pytest.approx(2473.5)
    here = pytest.approx(15 / 16 * C / 368e9)
    assert found[DATA] == (paper, here)
    assert found[SHARDED] == (paper, here)
    unknown = tokens("H100-SXM", None, by_network=True)
    assert unknown[DATA] == unknown[SHARDED] == (None, None)


def test_bridges_join_two_and_give_no_bound_of_eight() -> None:
    assert tokens("H100-NVL", None)[DATA] == (None, None)


@pytest.mark.parametrize("zero", [1, 3])
def test_at_the_bound_a_step_sends_as_long_as_it_computes(zero: int) -> None:
    """What the bounds say and what the model of a step adds up are one thing."""
    name = SHARDED if zero == 3 else DATA
    least = tokens("H100-SXM", ring(8))[name][1]
    shape = msgspec.structs.replace(DENSE, vocabulary=8)
    plan = StepPlan(sequence=round(least), micro=1, accumulation=1, zero=zero)
    found = step_time(shape, Layout(dp=8), plan, H100, lambda ranks, _stride: ring(ranks))
    assert isinstance(found, StepTime)
    (sent,) = found.exposed
    computed = found.products_s * (1 if zero == 3 else 2 / 3)
    assert sent.seconds == pytest.approx(computed, rel=0.1)
