"""What `gputop probe launch` measured of the host, in the steps of eager PyTorch."""

from __future__ import annotations

import pytest

from gputop.topology.cost.layer import EAGER_KERNELS, LAUNCH_S, launches_here
from gputop.topology.model.snapshot import Measurement

USUAL_US = 1e6 * sum(EAGER_KERNELS) * LAUNCH_S


def layer(steady_us: float | None, variant: str = "eager layer") -> Measurement:
    details = {} if steady_us is None else {"steady_us": steady_us}
    return Measurement(
        probe="launch", quantity="first_use", value=0.5, variant=variant, details=details
    )


def test_a_host_is_measured_against_a_usual_one() -> None:
    assert launches_here([layer(USUAL_US)]) == pytest.approx(1.0)
    assert launches_here([layer(USUAL_US), layer(4.5 * USUAL_US)]) == pytest.approx(4.5)


@pytest.mark.parametrize(
    "figures", [[], [layer(None)], [layer(0.0)], [layer(USUAL_US, "empty kernel")]]
)
def test_a_host_that_was_not_measured_is_not_known(figures: list[Measurement]) -> None:
    assert launches_here(figures) is None
