"""One observed step gives back the factor that made it."""

from __future__ import annotations

import pytest

from gputop.topology.cost.calibration import Calibration, calibrated, slowed, told
from gputop.topology.cost.layout import Layout
from gputop.topology.cost.step import StepTime, step_time
from tests.topology.cost.test_step import PLAN, RATES, model, timed, wires

LAYOUTS = [Layout(), Layout(dp=8), Layout(tp=8), Layout(pp=4, dp=2)]


def fitted(layout: Layout, seconds: float) -> Calibration | str:
    return calibrated(model("Llama 3 8B"), layout, PLAN, RATES, wires(300), seconds)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.text)
@pytest.mark.parametrize("factor", [0.8, 1.0, 1.37, 4.0])
def test_the_factor_of_computing_is_found_again(layout: Layout, factor: float) -> None:
    shape = model("Llama 3 8B")
    made = step_time(shape, layout, PLAN, slowed(RATES, factor), wires(300))
    assert isinstance(made, StepTime)
    found = fitted(layout, made.step_s)
    assert isinstance(found, Calibration)
    assert found.slower == pytest.approx(factor, rel=1e-3)
    assert layout.text in told(found)


def test_communication_is_named_where_it_may_be_the_reason() -> None:
    whole = timed(Layout(tp=8))
    found = fitted(Layout(tp=8), whole.step_s + whole.exposed_s)
    assert isinstance(found, Calibration)
    assert found.wires_slower == pytest.approx(2, rel=0.01)
    assert "communication instead" in told(found)
    alone = fitted(Layout(), 2 * timed(Layout()).step_s)
    assert isinstance(alone, Calibration)
    assert alone.wires_slower is None


@pytest.mark.parametrize(("seconds", "said"), [(1e-3, "cannot take"), (1e4, "times what is")])
def test_what_no_factor_explains_is_said(seconds: float, said: str) -> None:
    found = fitted(Layout(dp=8), seconds)
    assert isinstance(found, str)
    assert said in found
