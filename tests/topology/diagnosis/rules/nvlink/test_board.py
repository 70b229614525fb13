"""Boards of which the node shows some GPUs only: every known one, with each number of its GPUs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.diagnosis.rules.nvlink.board import INCOMPLETE
from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.model.severity import Verdict
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import Container, ContainerKind
from gputop.topology.node import Node
from tests.support.rule_cases import base, diagnosed

HGX, V100, OAM, TRAY = "hgx-h100-8", "dgx-1v", "mi300x-8", "gb200-nvl72-tray"
BOARDS = [
    ("DGX-1", V100, "Tesla V100-SXM2-32GB"),
    ("", V100, "Tesla V100-SXM2-16GB"),
    ("DGX A100", "hgx-a100-8", "NVIDIA A100-SXM4-40GB"),
    ("", "hgx-a100-8", "NVIDIA A100-SXM4-80GB"),
    ("", "hgx-a100-8", "NVIDIA A800-SXM4-80GB"),
    ("", HGX, "NVIDIA H100 80GB HBM3"),
    ("", HGX, "NVIDIA H800"),
    ("", HGX, "NVIDIA H20"),
    ("", HGX, "NVIDIA H200"),
    ("DGX H200", HGX, "NVIDIA H200"),
    ("", HGX, "NVIDIA B200"),
    ("", HGX, "NVIDIA B300"),
    ("p5.48xlarge", HGX, "NVIDIA H100 80GB HBM3"),
    ("GB200 NVL demo", TRAY, "NVIDIA GB200"),
    ("", TRAY, "NVIDIA GB300"),
    ("", OAM, "AMD Instinct MI300X"),
    ("", OAM, "AMD Instinct MI325X"),
    ("", "mi355x-8", "AMD Instinct MI350X"),
    ("", "mi355x-8", "AMD Instinct MI355X"),
    ("", "mi250x-8", "AMD Instinct MI250X"),
]
"""The host's model, a demo, and the model of its GPUs."""


def changed(snapshot: NodeSnapshot, change: Callable[[Machine], Machine]) -> NodeSnapshot:
    return msgspec.structs.replace(snapshot, machine=change(snapshot.machine))


@cache
def board(demo: str, name: str, host: str) -> NodeSnapshot:
    """A demo with this model of GPUs in a host of this model."""

    def named(machine: Machine) -> Machine:
        assert machine.host is not None
        product = msgspec.structs.replace(machine.host, dmi_product=host or None)
        gpus = tuple(msgspec.structs.replace(gpu, name=name, pci_id=None) for gpu in machine.gpus)
        return msgspec.structs.replace(machine, host=product, gpus=gpus)

    return changed(base(f"demo {demo}"), named)


def without(snapshot: NodeSnapshot, gone: Collection[str]) -> NodeSnapshot:
    """The node with neither a driver nor a bus that shows these GPUs."""

    def fewer(machine: Machine) -> Machine:
        return msgspec.structs.replace(
            machine,
            gpus=tuple(gpu for gpu in machine.gpus if gpu.address not in gone),
            pci=tuple(device for device in machine.pci if device.address not in gone),
            pairs=tuple(p for p in machine.pairs if not {p.src, p.dst}.intersection(gone)),
        )

    left = tuple(now for now in snapshot.readings.gpus if now.address not in gone)
    readings = msgspec.structs.replace(snapshot.readings, gpus=left)
    return msgspec.structs.replace(changed(snapshot, fewer), readings=readings)


def titles(snapshot: NodeSnapshot) -> list[str]:
    return [one.title for one in diagnose(Case(Node(snapshot)), (INCOMPLETE,)).findings
            if one.id == INCOMPLETE.id]  # fmt: skip


@pytest.mark.parametrize(("host", "demo", "name"), BOARDS)
def test_some_of_a_board_is_no_board(host: str, demo: str, name: str) -> None:
    whole = board(demo, name, host)
    addresses = [gpu.address for gpu in whole.machine.gpus]
    assert titles(whole) == []
    for count in range(1, len(addresses)):
        for gone in (addresses[count:], addresses[: len(addresses) - count]):
            assert titles(without(whole, gone)), (count, gone)


@pytest.mark.parametrize("demo", [HGX, TRAY, OAM])
def test_a_board_of_one_less_is_nowhere_called_healthy(demo: str) -> None:
    whole = base(f"demo {demo}")
    left = diagnosed(without(whole, [whole.machine.gpus[-1].address]))
    assert left.verdict == Verdict.CANNOT_TELL
    assert "board-incomplete" in [finding.id for finding in left.findings]


def hosted(snapshot: NodeSnapshot, **fields: object) -> NodeSnapshot:
    def other(machine: Machine) -> Machine:
        assert machine.host is not None
        return msgspec.structs.replace(
            machine, host=msgspec.structs.replace(machine.host, **fields)
        )

    return changed(snapshot, other)


def each(snapshot: NodeSnapshot, change: Callable[[Gpu], Gpu]) -> NodeSnapshot:
    def other(machine: Machine) -> Machine:
        return msgspec.structs.replace(machine, gpus=tuple(map(change, machine.gpus)))

    return changed(snapshot, other)


def test_a_guest_or_a_container_may_have_been_given_some_of_a_board() -> None:
    whole = board(HGX, "NVIDIA H100 80GB HBM3", "")
    some = without(whole, [gpu.address for gpu in whole.machine.gpus[5:]])
    container = Container(kind=ContainerKind.DOCKER)
    assert titles(some)
    assert titles(hosted(some, hypervisor="KVM")) == []
    assert titles(hosted(some, container=container)) == []


def test_on_arm_the_driver_tells_who_is_a_guest() -> None:
    whole = board(TRAY, "NVIDIA GB200", "")
    some = without(whole, [whole.machine.gpus[0].address])
    assert titles(some)
    passed = each(some, lambda gpu: msgspec.structs.replace(gpu, virtualization="passthrough"))
    assert titles(passed) == []


def test_links_to_power_cpus_belong_to_any_number() -> None:
    whole = board(V100, "Tesla V100-SXM2-16GB", "")
    six = without(whole, [gpu.address for gpu in whole.machine.gpus[6:]])
    assert titles(six)

    def wired(gpu: Gpu) -> Gpu:
        end = {"remote_kind": "ibmnpu", "remote_address": None}
        links = tuple(msgspec.structs.replace(link, **end) for link in gpu.nvlinks)
        return msgspec.structs.replace(gpu, nvlinks=links)

    assert titles(each(six, wired)) == []


def test_four_of_a_model_without_switches_are_a_board() -> None:
    whole = board(V100, "Tesla V100-SXM2-16GB", "")
    four = without(whole, [gpu.address for gpu in whole.machine.gpus[4:]])
    here = {gpu.address for gpu in four.machine.gpus}
    assert "lead to GPUs that are not here" in titles(four)[0]

    def inner(gpu: Gpu) -> Gpu:
        links = tuple(link for link in gpu.nvlinks if link.remote_address in here)
        return msgspec.structs.replace(gpu, nvlinks=links)

    assert titles(each(four, inner)) == []


def test_a_hole_between_the_slots_of_a_board_without_a_table_is_told() -> None:
    whole = board("hgx-a100-8", "NVIDIA A100-SXM-64GB", "")
    gone = {gpu.address for gpu in whole.machine.gpus if gpu.module_id not in (1, 2, 4)}
    assert titles(without(whole, gone)) == ["slots of the board without a GPU: 3"]
    gone = {gpu.address for gpu in whole.machine.gpus if gpu.module_id not in (1, 3)}
    assert titles(without(whole, gone)) == ["slots of the board without a GPU: 2"]
    gone = {gpu.address for gpu in whole.machine.gpus if gpu.module_id not in (2, 3, 4)}
    unslotted = each(whole, lambda gpu: msgspec.structs.replace(gpu, module_id=None))
    assert "3 GPUs are joined by NVLink" in titles(without(unslotted, gone))[0]


def test_cards_are_no_board() -> None:
    whole = base("demo pcie-l40s-8")
    for count in range(1, 8):
        gone = [gpu.address for gpu in whole.machine.gpus[count:]]
        assert titles(without(whole, gone)) == []
