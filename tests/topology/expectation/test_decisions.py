"""Decisions at their borders: links seen from one end, siblings by time, copies of the host."""

from __future__ import annotations

import msgspec
import pytest

from gputop.topology.expectation import modelled
from gputop.topology.expectation.four_numbers import four_numbers
from gputop.topology.expectation.links import SAME, mesh_links_down
from gputop.topology.expectation.patterns import host_low
from gputop.topology.expectation.reference import of_snapshot
from gputop.topology.expectation.siblings import behind
from gputop.topology.model import quantities
from gputop.topology.model.machine import Machine
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed
from tests.support.expectation_made import change_gpu
from tests.support.snapshots import gpu, node_of


@pytest.fixture
def mesh() -> NodeSnapshot:
    return DemoFeed("mi300x-8").at(0)


def figure(quantity: str, src: str | None, value: float, unit: str = "GB/s") -> Measurement:
    return Measurement(
        probe="host", quantity=quantity, src=src, value=value, unit=unit, engine="copy engine",
        variant="pinned",
    )  # fmt: skip


def test_a_link_of_a_mesh_that_one_end_alone_calls_down_is_down(mesh: NodeSnapshot) -> None:
    first, *others = mesh.machine.gpus
    far = others[0].address
    links = tuple(
        msgspec.structs.replace(link, active=link.remote_address != far) for link in first.xgmi
    )
    assert mesh_links_down((first, *others)) == ()
    (said,) = mesh_links_down((msgspec.structs.replace(first, xgmi=links), *others))
    assert said.endswith("is down")


def test_the_host_copies_of_a_gpu_are_held_against_those_of_the_others(mesh: NodeSnapshot) -> None:
    one, *others = (gpu.address for gpu in mesh.machine.gpus)
    copies = [figure(quantities.HOST_TO_DEVICE, other, 54.0) for other in others]
    slow = (*copies, figure(quantities.HOST_TO_DEVICE, one, 20.0))
    node = Node(msgspec.structs.replace(mesh, measurements=slow))
    assert host_low(node, one).startswith("20.0 GB/s, the others 54.0 GB/s")
    assert host_low(node, others[0]) == ""


def test_of_siblings_the_one_that_takes_longer_is_behind(mesh: NodeSnapshot) -> None:
    times = (4.0, 4.1, 3.9, 4.0, 4.0, 4.0, 4.0, 9.0)
    figures = [
        figure("kernel_launch", gpu.address, value, "us")
        for gpu, value in zip(mesh.machine.gpus, times, strict=True)
    ]
    found = behind(Node(mesh), figures)
    assert list(found) == [7]
    assert found[7].startswith("125 % over its siblings' median (4 us)")


def test_a_part_of_a_gpu_has_no_number_on_paper() -> None:
    board = DemoFeed("hgx-h100-8").at(0)
    gpu = board.machine.gpus[0]
    copy = figure(quantities.HOST_TO_DEVICE, gpu.address, 50.0)
    assert four_numbers(board, copy) is not None
    parted = (msgspec.structs.replace(gpu, mig_enabled=True), *board.machine.gpus[1:])
    machine = msgspec.structs.replace(board.machine, gpus=parted)
    assert four_numbers(msgspec.structs.replace(board, machine=machine), copy) is None


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        (100.0, SAME * 100.0, None),
        (100.0, 50.0, 0.5),
        (0.0, 50.0, None),
        (100.0, None, None),
    ],
)
def test_rings_that_lost_nothing_have_no_share_left(
    before: float, after: float | None, left: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modelled, "ring_gbs", lambda prediction: prediction)
    assert modelled.rings_left(before, after) == left  # type: ignore[arg-type]


def test_a_slot_of_a_generation_without_a_rate_has_no_number_on_paper(mesh: NodeSnapshot) -> None:
    newer = change_gpu(mesh, 0, name="NVIDIA B200", pci_id="10de:2901", vendor="nvidia")
    copy = figure(quantities.HOST_TO_DEVICE, mesh.machine.gpus[0].address, 50.0)
    assert four_numbers(change_gpu(newer, 0, pcie_gen_max_device=5), copy) is not None
    assert four_numbers(change_gpu(newer, 0, pcie_gen_max_device=9), copy) is None


def test_a_sister_that_does_not_tell_how_two_gpus_are_joined_says_nothing_of_them() -> None:
    gpus = tuple(gpu(number, f"0000:0{number}:00.0") for number in range(2))
    sister = of_snapshot(node_of(Machine(gpus=gpus)).snapshot, "sister.json")
    assert sister.code(0, 1, 2) is None
