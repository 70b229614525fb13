"""Matrices read: one GPU's link, a border, one path, all of them; and nothing in healthy ones."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from gputop.topology.expectation.patterns import FigurePattern, patterns
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from tests.support.expectation_made import (
    addresses,
    change_gpu,
    demo,
    figure,
    h200,
    links_up,
    matrix,
)
from tests.support.snapshots import demo_node

Value = Callable[[int, int], float]
RATES = {"NV2": 48.3, "NV1": 24.2, "XGMI": 48.0, "PIX": 26.3, "NODE": 22.2, "SYS": 12.0}


def names(snapshot: NodeSnapshot) -> dict[str, str]:
    return {gpu.address: f"GPU{gpu.index}" for gpu in snapshot.machine.gpus}


def found(snapshot: NodeSnapshot, value: Value) -> tuple[FigurePattern, ...]:
    return patterns(matrix(snapshot, value), names(snapshot), snapshot)


def places(snapshot: NodeSnapshot, pattern: FigurePattern) -> list[int]:
    order = addresses(snapshot)
    return sorted(order.index(device) for device in pattern.devices)


def healthy(name: str) -> tuple[NodeSnapshot, Value]:
    """A demo, and what its pairs give by their relation."""
    report = demo_node(name)
    gpus = addresses(report.snapshot)

    def value(i: int, j: int) -> float:
        cell = report.matrix.cell(gpus[i], gpus[j])
        assert cell is not None
        wide = {"hgx-h100-8": 378.0, "hgx-a100-8": 274.0}
        return wide.get(name) or RATES[cell.code]

    return report.snapshot, value


SHAPES = ["hgx-h100-8", "hgx-a100-8", "mi300x-8", "pcie-l40s-8", "dgx-1v"]


@pytest.mark.parametrize("name", SHAPES)
def test_a_healthy_node_of_any_shape_shows_no_pattern(name: str) -> None:
    snapshot, value = healthy(name)
    assert found(snapshot, value) == ()
    assert found(snapshot, lambda i, j: value(i, j) * (1 - 0.004 * ((i + 2 * j) % 7))) == ()


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("sick", [0, 5])
def test_row_and_column_are_that_gpus_link(name: str, sick: int) -> None:
    snapshot, value = healthy(name)
    (one,) = found(snapshot, lambda i, j: value(i, j) * (0.3 if sick in (i, j) else 1))
    assert (one.kind, places(snapshot, one)) == ("gpu", [sick])
    assert one.text.startswith(f"Everything to and from GPU{sick} is low (")
    assert one.text.endswith("that GPU's own link, not the paths.")


@pytest.mark.parametrize("name", SHAPES)
def test_a_single_cell_is_that_path(name: str) -> None:
    snapshot, value = healthy(name)
    (one,) = found(snapshot, lambda i, j: value(i, j) * (0.3 if (i, j) == (2, 3) else 1))
    assert (one.kind, one.devices) == ("pair", tuple(addresses(snapshot)[2:4]))
    assert one.text.startswith("GPU2 to GPU3 alone is low")
    (both,) = found(snapshot, lambda i, j: value(i, j) * (0.3 if {i, j} == {2, 3} else 1))
    assert both.kind == "pair"
    assert "GPU2 and GPU3 alone are low, both ways" in both.text


@pytest.mark.parametrize(
    ("name", "border"),
    [
        ("hgx-h100-8", "NUMA nodes 0 and 1."),
        ("mi300x-8", "NUMA nodes 0 and 1."),
        ("hgx-a100-8", "NUMA nodes 1, 3 and 5, 7."),
    ],
)
def test_a_block_is_the_border_between_the_sockets(name: str, border: str) -> None:
    snapshot, value = healthy(name)
    (one,) = found(snapshot, lambda i, j: value(i, j) * (0.4 if (i < 4) != (j < 4) else 1))
    assert (one.kind, places(snapshot, one)) == ("block", list(range(8)))
    assert "GPU0, GPU1, GPU2, GPU3 and GPU4, GPU5, GPU6, GPU7" in one.text
    assert one.text.endswith(f"the border between {border}")


def test_a_border_that_every_pair_of_its_kind_crosses_is_no_fault() -> None:
    snapshot, value = healthy("pcie-l40s-8")
    assert found(snapshot, lambda i, j: value(i, j) * (0.4 if (i < 4) != (j < 4) else 1)) == ()


def test_a_block_within_a_group() -> None:
    snapshot, value = healthy("hgx-h100-8")
    (one,) = found(snapshot, lambda i, j: value(i, j) * (0.4 if min(i, j) > 4 else 1))
    assert (one.kind, places(snapshot, one)) == ("block", [5, 6, 7])
    assert "among GPU5, GPU6, GPU7" in one.text


def test_one_direction_of_one_gpu() -> None:
    snapshot, value = healthy("hgx-h100-8")
    (sends,) = found(snapshot, lambda i, j: value(i, j) * (0.4 if i == 6 else 1))
    assert (sends.kind, places(snapshot, sends)) == ("sends", [6])
    (receives,) = found(snapshot, lambda i, j: value(i, j) * (0.4 if j == 6 else 1))
    assert (receives.kind, places(snapshot, receives)) == ("receives", [6])
    assert "All that GPU6 receives is low" in receives.text


def test_all_low_is_something_common() -> None:
    snapshot, value = healthy("hgx-h100-8")
    (one,) = found(snapshot, lambda i, j: value(i, j) * 0.5)
    assert one.kind == "all"
    assert "something common to all" in one.text
    unjudged, value = healthy("dgx-1v")  # without a table nobody knows that all are low
    assert found(unjudged, lambda i, j: value(i, j) * 0.5) == ()


def test_two_sick_gpus_are_two_patterns() -> None:
    snapshot, value = healthy("hgx-h100-8")
    two = found(snapshot, lambda i, j: value(i, j) * (0.4 if {1, 6} & {i, j} else 1))
    assert [(pattern.kind, places(snapshot, pattern)) for pattern in two] == [
        ("gpu", [1]),
        ("gpu", [6]),
    ]


def test_a_gpu_with_fewer_links_is_named_among_its_siblings() -> None:
    snapshot = h200()
    snapshot = change_gpu(snapshot, 3, **links_up(snapshot.machine.gpus[3], 9))
    (one,) = found(snapshot, lambda i, j: 198.0 if 3 in (i, j) else 396.0)
    assert (one.kind, places(snapshot, one)) == ("gpu", [3])


def test_scattered_cells_are_reported_in_one_sentence() -> None:
    snapshot, value = healthy("hgx-h100-8")
    bad = {(0, 1), (2, 5), (7, 3), (4, 6), (6, 0)}
    (one,) = found(snapshot, lambda i, j: value(i, j) * (0.5 if (i, j) in bad else 1))
    assert one.kind == "scattered"
    assert one.text.startswith("5 of 56 pairs are low")


def test_a_pattern_is_reported_once_for_several_quantities() -> None:
    snapshot, value = healthy("hgx-h100-8")

    def sick(i: int, j: int) -> float:
        return value(i, j) * (0.4 if 2 in (i, j) else 1)

    figures = matrix(snapshot, sick) + matrix(snapshot, sick, "read_bandwidth")
    (one,) = patterns(figures, names(snapshot), snapshot)
    assert one.quantity == "write_bandwidth"


def test_without_a_snapshot_a_mesh_is_no_pattern() -> None:
    snapshot, value = healthy("dgx-1v")
    assert patterns(matrix(snapshot, value), names(snapshot)) == ()
    (one,) = patterns(matrix(snapshot, lambda i, j: 10.0 if 3 in (i, j) else 50.0), names(snapshot))
    assert (one.kind, places(snapshot, one)) == ("gpu", [3])


def test_wrong_data_and_the_self_test_are_left_out() -> None:
    snapshot, value = healthy("hgx-h100-8")
    good = matrix(snapshot, value)
    a, b = addresses(snapshot)[:2]
    odd = [
        figure("write_bandwidth", 3.0, a, b, engine="other", device_kind="cpu"),
        figure("write_bandwidth", 3.0, b, a, engine="other", verdict="wrong-data"),
    ]
    assert patterns([*good, *odd], names(snapshot), snapshot) == ()


def test_few_pairs_make_no_pattern() -> None:
    snapshot = demo("hgx-h100-8")
    a, b = addresses(snapshot)[:2]
    two: list[Measurement] = [figure("write_bandwidth", v, *ends) for v, ends in
                              ((10.0, (a, b)), (380.0, (b, a)))]  # fmt: skip
    assert patterns(two, names(snapshot), snapshot) == ()


def test_a_sample_of_pairs_shows_no_path() -> None:
    """The quick level measures both ways of two pairs: nothing tells a link from the path."""
    snapshot = demo("hgx-h100-8")
    every = addresses(snapshot)
    sample: list[Measurement] = [
        figure("both_ways_bandwidth", value, every[a], every[b])
        for a, b, value in ((0, 3, 332.0), (3, 0, 332.0), (0, 1, 376.0), (1, 0, 376.0))
    ]
    assert patterns(sample, names(snapshot), snapshot) == ()


def test_copies_that_compete_by_design_show_no_pattern() -> None:
    snapshot = h200()
    every = addresses(snapshot)
    hub = every[3]
    starved = [
        figure("concurrent_bandwidth", 396.0 if hub not in (src, dst) else 130.0, src, dst,
               variant=f"all to one ({hub})")
        for src in every for dst in every if src != dst
    ]  # fmt: skip
    assert patterns(starved, names(snapshot), snapshot) == ()
    alone = [msgspec.structs.replace(figure, quantity="write_bandwidth") for figure in starved]
    assert [pattern.kind for pattern in patterns(alone, names(snapshot), snapshot)] == ["gpu"]


@pytest.mark.parametrize(("measured", "kinds"), [(((1, 2),), ["pair"]), ((), [])])
def test_a_low_pair_is_a_path_where_both_ends_are_good_with_others(
    measured: tuple[tuple[int, int], ...], kinds: list[str]
) -> None:
    snapshot, value = healthy("hgx-h100-8")
    every = addresses(snapshot)
    pairs = ((0, 1), (0, 2), (0, 3), (2, 3), (2, 4), (3, 4), *measured)
    figures = [
        figure("write_bandwidth", 30.0 if {a, b} == {0, 1} else value(a, b), every[a], every[b])
        for pair in pairs
        for a, b in (pair, pair[::-1])
    ]
    assert [one.kind for one in patterns(figures, names(snapshot), snapshot)] == kinds
