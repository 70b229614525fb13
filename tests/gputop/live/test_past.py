"""Since when GPUs carry nothing, by what the app has read."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gputop.live.past import past_of
from gputop.live.recent import KEPT, Recent
from gputop.topology.jobs.traffic import LINKS, PCIE, GpuPast
from gputop.topology.model.readings import GpuReading, Readings
from gputop.topology.model.snapshot import NodeSnapshot

ONE = "0000:01:00.0"
FAST, SLOW, POLLED = 2.0**36, 2.0**34, 2.0**27
"""Bytes a second that a ring of single precision keeps as they are."""


def looked(*rates: float | None, pcie: float | None = None, kind: str = "nvlink") -> Recent:
    """One reading a second."""
    recent = Recent()
    for second, rate in enumerate(rates):
        figures: dict[str, Any] = {f"{kind}_tx_bytes_per_second": rate}
        figures["pcie_tx_bytes_per_second"] = pcie
        gpu = GpuReading(address=ONE, utilization_percent=100, **figures)
        readings = replace(Readings(), gpus=(gpu,))
        recent.add(NodeSnapshot(taken_at=1000.0 + second, source=("live",), readings=readings))
    return recent


@pytest.mark.parametrize("kind", ["nvlink", "xgmi"])
def test_links_that_fell_silent(kind: str) -> None:
    past = past_of(looked(FAST, SLOW, *[0.0] * 8, kind=kind))
    assert past[LINKS] == {ONE: GpuPast(7.0, 9.0, SLOW)}


def test_links_that_carry_something_now_and_some_that_never_did() -> None:
    assert past_of(looked(0.0, 0.0, SLOW))[LINKS] == {ONE: GpuPast(0.0, 2.0, SLOW)}
    assert past_of(looked(0.0, 0.0, 0.0))[LINKS] == {ONE: GpuPast(2.0, 2.0, None)}


def test_pcie_that_a_polling_kernel_keeps_busy_is_not_silent() -> None:
    recent = looked(*[0.0] * 9, pcie=POLLED)
    assert past_of(recent)[PCIE] == {ONE: GpuPast(0.0, 8.0, POLLED)}


def test_what_is_not_read_is_not_known() -> None:
    assert past_of(looked(None, None))[LINKS] == {}
    assert past_of(looked(FAST, *[None] * 30))[LINKS] == {}, "the last reading is too old"
    assert past_of(Recent()) == {LINKS: {}, PCIE: {}}


def test_a_ring_that_is_full() -> None:
    past = past_of(looked(*[FAST] * 50, *[0.0] * (KEPT - 10)))
    assert past[LINKS][ONE] == GpuPast(KEPT - 11.0, KEPT - 1.0, FAST)
