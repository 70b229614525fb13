"""Machines of which little or nothing was read: the screens claim nothing."""

from __future__ import annotations

import pytest

from gputop.app import GpuTop
from gputop.topology.explain.ladder import OPEN, ladder
from gputop.topology.explain.why import why_pair
from gputop.topology.model.machine import Gpu
from tests.support.app import give, gpu, picture, press, report_of

UNREAD = tuple(Gpu(address=f"0000:{bus}:00.0", vendor="nvidia") for bus in ("10", "11"))


def test_gpus_of_which_nothing_is_known_are_not_called_joined() -> None:
    report = report_of(UNREAD, ())
    pair = UNREAD[0].address, UNREAD[1].address
    assert {(rung.state, rung.answer) for rung in ladder(report.node, *pair)[:1]} == {
        (OPEN, "not known")
    }
    claim = why_pair(report.node, *pair).claim
    assert claim.startswith("?: the machine does not say enough to tell.")
    assert "PCIe joins" not in claim


@pytest.mark.parametrize(
    ("source", "expected"),
    [("live", "reading the node…"), ("file empty.json", "No GPU is seen here.")],
)
async def test_a_node_without_anything_is_no_empty_screen(source: str, expected: str) -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, report_of((), source=(source,)))
        assert expected in picture(pilot)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_the_columns_of_sixteen_gpus_have_names_apart(size: tuple[int, int]) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        await give(pilot, report_of(tuple(gpu(number) for number in range(16))))
        await press(pilot, "3")
        head = next(line for line in picture(pilot).splitlines() if line.startswith("↓ to →"))
        assert "GPU9  GPU10 GPU11" in head
