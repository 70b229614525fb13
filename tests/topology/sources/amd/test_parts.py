"""A node whose packages show as parts, and one without any link: what the screens say of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.topology.explain.links import link_facts, mesh_facts
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.report import Report
from gputop.topology.wiring.paths import path_between
from tests.support.app import demo_report, give, picture, press

TREES = "tests/recordings/kfd"


@cache
def tree(name: str) -> Report:
    return Report(Node(load([f"{TREES}/{name}.tar.gz"]).snapshot).decide())


async def shown(name: str, *keys: str, lines: int = 50) -> str:
    async with GpuTop().run_test(size=(160, lines)) as pilot:
        return await _drawn(pilot, name, keys)


async def _drawn(pilot: Pilot[Any], name: str, keys: tuple[str, ...]) -> str:
    await give(pilot, tree(name))
    await press(pilot, *keys)
    return picture(pilot)


async def test_a_wire_whose_state_nobody_read_is_not_called_down() -> None:
    screen = await shown("mi308x-8-cpx", lines=60)
    assert "31 neighbours, whether they are up was not" in screen
    assert "None" not in screen


async def test_parts_of_a_package_are_no_odd_pairs_of_the_mesh() -> None:
    screen = await shown("mi308x-8-cpx", "2")
    assert "every pair of packages 1 link, 64 GB/s one way; their parts share it" in screen
    assert "other !" not in screen


@pytest.mark.parametrize("key", ["1", "2"])
async def test_an_amd_gpu_alone_has_no_nvlink(key: str) -> None:
    screen = await shown("vega10", key)
    assert "19:00.0" in screen
    assert "NVLink" not in screen


def test_why_counts_no_unread_link_as_up() -> None:
    report = tree("mi308x-8-cpx")
    fact = next(iter(link_facts(report.node, report.snapshot.machine.gpus[0])))
    assert fact.what == "Which xGMI links are up?"
    assert fact.value == "not read; 31 neighbours are listed"


def test_the_wires_of_a_part_are_not_added_up() -> None:
    report = tree("mi308x-8-cpx")
    part, far = report.snapshot.machine.gpus[0], report.snapshot.machine.gpus[-1]
    path = path_between(report.graph, part.address, far.address)
    assert path is not None
    assert path.payload_gbs == 64.0
    assert not list(mesh_facts(part, path))
    whole = demo_report("mi300x-8").snapshot.machine.gpus[0]
    (fact,) = mesh_facts(whole, path)
    assert "NCCL_MIN_NCHANNELS=32" in fact.because
