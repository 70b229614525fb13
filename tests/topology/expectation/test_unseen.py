"""Nodes that no demo shows: bridges, links that are down, readings that a figure refutes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from gputop.topology.expectation.four_numbers import four_numbers
from gputop.topology.expectation.judge import judge
from gputop.topology.expectation.judgement import Judgement
from gputop.topology.expectation.patterns import patterns
from gputop.topology.model.machine import NvLink
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from tests.support.expectation_made import (
    GIB,
    addresses,
    change_gpu,
    collective,
    demo,
    figure,
    h200,
    links_up,
    matrix,
    with_machine,
)


def one(snapshot: NodeSnapshot, item: Measurement) -> Judgement:
    return judge(snapshot, [item])[0]


def line(snapshot: NodeSnapshot, item: Measurement) -> str:
    found = four_numbers(snapshot, item)
    assert found is not None
    return found.line


def bridged(
    name: str, count: int, pairs: Mapping[tuple[int, int], int], *, links: int, version: str = "4.0"
) -> NodeSnapshot:
    """GPUs of a PCIe box with bridges: places of a pair -> links; the others are inactive."""
    snapshot = demo("pcie-l40s-8")
    gpus = []
    for place, gpu in enumerate(snapshot.machine.gpus[:count]):
        ends = [
            snapshot.machine.gpus[pair[1] if pair[0] == place else pair[0]].address
            for pair, number in pairs.items()
            for _ in range(number)
            if place in pair
        ]
        wires = [
            NvLink(link=i, active=True, version=version, remote_address=end, remote_kind="gpu")
            for i, end in enumerate(ends)
        ]
        wires += [NvLink(link=i, active=False, version=version) for i in range(len(ends), links)]
        gpus.append(msgspec.structs.replace(gpu, name=name, pci_id=None, nvlinks=tuple(wires)))
    return with_machine(snapshot, gpus=tuple(gpus), pairs=())


NVL = "NVIDIA H100 NVL"


def test_twelve_of_eighteen_links_are_healthy_on_h100_nvl() -> None:
    snapshot = bridged(NVL, 2, {(0, 1): 12}, links=18)
    item = figure("write_bandwidth", 256.0, *addresses(snapshot))
    found = one(snapshot, item)
    assert (found.verdict, found.cause) == ("healthy", "")
    assert line(snapshot, item).startswith("data sheet 600 both ways -> 300 one way -> about 257")


def test_half_a_bridge_is_seen_beside_a_whole_one() -> None:
    snapshot = bridged(NVL, 4, {(0, 1): 6, (2, 3): 12}, links=18)
    gpus = addresses(snapshot)
    found = one(snapshot, figure("write_bandwidth", 128.0, gpus[0], gpus[1]))
    assert (found.verdict, found.explained) == ("low", True)
    assert found.cause.startswith("6 NVLinks join this pair, 12 join another pair of this box")
    assert one(snapshot, figure("write_bandwidth", 256.0, gpus[2], gpus[3])).verdict == "healthy"


def test_a_collective_between_bridged_pairs_crosses_pcie() -> None:
    pairs = {(0, 1): 12, (2, 3): 12}
    snapshot = bridged("NVIDIA A100 80GB PCIe", 4, pairs, links=12, version="3.0")
    assert line(snapshot, collective(20.0)).startswith("data sheet 63 both ways -> 31.5 one way")
    assert one(snapshot, collective(20.0)).verdict == "no reference"
    inside = collective(208.0)
    inside.details["devices"] = addresses(snapshot)[:2]
    assert line(snapshot, inside).startswith("data sheet 600 both ways -> 300 one way")
    assert not patterns(
        matrix(snapshot, lambda i, j: 250.0 if i // 2 == j // 2 else 20.0), {}, snapshot
    )


def test_a_gpu_of_a_board_without_its_links_is_low_on_another_way() -> None:
    snapshot = demo("hgx-h100-8")
    snapshot = change_gpu(snapshot, 3, **links_up(snapshot.machine.gpus[3], 0))
    gpus = addresses(snapshot)
    pair = one(snapshot, figure("write_bandwidth", 40.0, gpus[0], gpus[3]))
    assert (pair.verdict, pair.explained) == ("low", True)
    assert pair.cause == "GPU3 has 0 of 18 NVLinks up"
    assert one(snapshot, figure("write_bandwidth", 380.0, gpus[0], gpus[1])).verdict == "healthy"
    together = one(snapshot, collective(20.0))
    assert (together.verdict, together.explained) == ("low", True)
    assert "GPU3 has 0 of 18 NVLinks up" in together.cause
    assert line(snapshot, collective(20.0)).startswith("data sheet 900 both ways -> 450 one way")
    names = {address: f"GPU{place}" for place, address in enumerate(gpus)}
    shapes = patterns(
        matrix(snapshot, lambda i, j: 40.0 if 3 in (i, j) else 380.0), names, snapshot
    )
    assert [(shape.kind, shape.devices) for shape in shapes] == [("gpu", (gpus[3],))]


def test_a_board_that_was_handed_out_without_links_is_not_low() -> None:
    snapshot = demo("hgx-h100-8")
    for place, gpu in enumerate(snapshot.machine.gpus):
        snapshot = change_gpu(snapshot, place, **links_up(gpu, 0))
    found = one(snapshot, figure("write_bandwidth", 40.0, *addresses(snapshot)[:2]))
    assert found.verdict == "no reference"


def test_a_figure_refutes_an_old_reading_of_its_link() -> None:
    snapshot = h200()
    gpus = addresses(snapshot)
    asleep = figure("h2d_bandwidth", 55.4, gpus[0], details={"pcie_generation": 1})
    found = one(snapshot, asleep)
    assert (found.verdict, found.cause) == ("healthy", "")
    assert found.band is not None
    assert (found.band.scaled, found.band.reach) == ((), None)
    snapshot = change_gpu(snapshot, 1, **links_up(snapshot.machine.gpus[1], 9))
    pair = one(snapshot, figure("write_bandwidth", 396.0, gpus[0], gpus[1]))
    assert pair.band is not None
    assert (pair.verdict, pair.cause, pair.band.reach) == ("healthy", "", None)
    both = one(snapshot, collective(350.0))
    assert (both.verdict, both.cause) == ("healthy", "")


def test_a_poor_slot_is_reported_where_only_an_estimate_is_known() -> None:
    snapshot = demo("pcie-l40s-8")
    details = {"pcie_generation": 4, "pcie_width": 8}
    found = one(snapshot, figure("h2d_bandwidth", 13.0, addresses(snapshot)[0], details=details))
    assert found.verdict == "no reference"
    assert found.cause == "GPU0 runs at PCIe gen4 x8 instead of gen4 x16"


@pytest.mark.parametrize("value", [1e300, 5e-324, -1.0, float("nan"), float("inf"), 0.0])
def test_senseless_values_make_no_senseless_text(value: float) -> None:
    snapshot = h200()
    gpus = addresses(snapshot)[:2]
    items = [figure("write_bandwidth", value, *gpus), figure("kernel_latency", value, *gpus)]
    for item in (*items, collective(value)):
        found = one(snapshot, item)
        assert len(found.note) < 120
        assert "inf" not in found.note
        numbers = four_numbers(snapshot, item)
        assert numbers is None or len(numbers.line) < 160
        assert numbers is None or (numbers.measured is None) == (not 0 < value < float("inf"))


def test_clocks_and_heat_are_named_beside_a_link_and_do_not_account_for_it() -> None:
    snapshot = h200()
    details = {"throttle": ["application-clocks"]}
    found = one(snapshot, figure("h2d_bandwidth", 30.0, addresses(snapshot)[0], details=details))
    assert found.cause == "GPU0 was held at clocks that somebody set"
    assert not found.explained


def test_host_copies_of_a_part_of_a_gpu_have_no_reference() -> None:
    snapshot = change_gpu(h200(), 0, mig_enabled=True)
    found = one(snapshot, figure("h2d_bandwidth", 15.0, addresses(snapshot)[0]))
    assert found.verdict == "no reference"


def test_messages_of_a_size_that_no_one_measured_have_no_reference() -> None:
    snapshot = demo("hgx-h100-8")
    tiny = one(snapshot, collective(0.1, bytes_per_copy=1024))
    assert (tiny.verdict, tiny.band) == ("no reference", None)
    gpus = tuple(
        msgspec.structs.replace(gpu, name="NVIDIA B200", pci_id=None)
        for gpu in snapshot.machine.gpus
    )
    b200 = with_machine(snapshot, gpus=gpus)
    assert one(b200, collective(500.0, ranks=4)).verdict == "no reference"  # 1 GiB is no plateau
    large = collective(500.0, ranks=4, bytes_per_copy=8 * GIB)
    assert one(b200, large).verdict == "low"
