"""Data sheet, one way, realistic, measured: four numbers in one line."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.expectation.four_numbers import FourNumbers, four_numbers
from gputop.topology.model.snapshot import NodeSnapshot
from tests.support.expectation_made import (
    CUBE,
    addresses,
    change_gpu,
    collective,
    demo,
    figure,
    h200,
    links_up,
)


def of(snapshot: NodeSnapshot, quantity: str, value: float, *places: int, **facts: Any) -> str:
    ends = [addresses(snapshot)[place] for place in places]
    found = four_numbers(snapshot, figure(quantity, value, *ends, **facts))
    assert found is not None
    return found.line


def test_the_line_of_a_pair_of_h200() -> None:
    assert of(h200(), "write_bandwidth", 395.8, 0, 1) == (
        "data sheet 900 both ways -> 450 one way -> about 396 realistic (88 %) -> "
        "395.8 measured (88 %)"
    )


@pytest.mark.parametrize(
    ("quantity", "value", "places", "facts", "line"),
    [
        (
            "together_bandwidth", 783.5, (0, 1), {},
            "data sheet 900 both ways -> about 784 realistic (87 %) -> 783.5 measured (87 %)",
        ),
        (
            "h2d_bandwidth", 55.5, (0,), {"variant": "pinned"},
            "data sheet 126 both ways -> 63 one way -> about 55.4 realistic (88 %) -> "
            "55.5 measured (88 %)",
        ),
        (
            "h2d_bandwidth", 25.8, (0,), {"variant": "pageable"},
            "data sheet 126 both ways -> 63 one way -> 25.8 measured (41 %)",
        ),
        (
            "memory_copy", 4221.0, (0,), {},
            "data sheet 4800 of the memory bus -> about 4165 realistic (87 %) -> "
            "4221 measured (88 %)",
        ),
        (
            "memory_copy", 2110.0, (0,), {"counted": "bytes copied, once"},
            "data sheet 2400 of the memory bus, halved as counted once -> about 2082 realistic "
            "(87 %) -> 2110 measured (88 %)",
        ),
        (
            "gemm", 664.0, (0,), {"variant": CUBE},
            "data sheet 989 bf16 dense -> about 657 realistic (66 %) -> 664 measured (67 %)",
        ),
        (
            "gemm", 660.0, (0,), {"variant": "fp16 M8192 K8192 N8192 matmul"},
            "data sheet 989 fp16 dense -> about 657 by an estimate (66 %) -> 660 measured (67 %)",
        ),
        (
            "train_step", 400.0, (0,), {},
            "data sheet 989 bf16 dense -> 400 measured (40 %)",
        ),
        (
            "train_step", 380.0, (), {"variant": "data parallel"},
            "data sheet 989 bf16 dense -> 380 measured (38 %)",
        ),
    ],
)  # fmt: skip
def test_other_lines(
    quantity: str, value: float, places: tuple[int, ...], facts: dict[str, Any], line: str
) -> None:
    assert of(h200(), quantity, value, *places, **facts) == line


@pytest.mark.parametrize(
    ("name", "ranks", "value", "line"),
    [
        (
            "hgx-h100-8", 8, 464.0,
            "data sheet 900 both ways -> 450 one way -> about 466 realistic (104 %) -> "
            "464 measured (103 %)",
        ),
        (
            "mi300x-8", 2, 47.0,
            "data sheet 128 both ways -> 64 one way -> about 47.7 realistic (75 %) -> "
            "47 measured (73 %)",
        ),
        (
            "mi300x-8", 8, 312.0,
            "data sheet 896 both ways -> 448 one way -> about 313 realistic (70 %) -> "
            "312 measured (70 %)",
        ),
        (
            "dgx-1v", 8, 122.0,
            "data sheet 300 both ways -> 150 one way -> about 120 by an estimate (80 %) -> "
            "122 measured (81 %)",
        ),
    ],
)  # fmt: skip
def test_collectives(name: str, ranks: int, value: float, line: str) -> None:
    found = four_numbers(demo(name), collective(value, ranks=ranks))
    assert found is not None
    assert found.line == line


def numbers_of(snapshot: NodeSnapshot) -> FourNumbers:
    item = figure(
        "write_bandwidth", 395.8, *addresses(snapshot)[:2], engine="copy engine", method="p2p/2"
    )
    found = four_numbers(snapshot, item)
    assert found is not None
    return found


def test_each_number_says_what_it_is_and_where_it_comes_from() -> None:
    found = numbers_of(h200())
    assert [number.what for number in found.numbers] == [
        "data sheet, both ways",
        "one way, payload",
        "realistic",
        "measured",
    ]
    assert all(number.source for number in found.numbers)
    assert found.measured is not None
    assert found.measured.source == "probe made (copy engine, p2p/2)"
    assert found.measured.share == pytest.approx(395.8 / 450)
    assert found.realistic is not None
    assert found.realistic.source == "nvbandwidth run"


def test_what_is_there_stands_beside_what_belongs_there() -> None:
    snapshot = h200()
    snapshot = change_gpu(snapshot, 1, **links_up(snapshot.machine.gpus[1], 9))
    line = of(snapshot, "write_bandwidth", 197.0, 0, 1)
    assert "about 396 realistic (88 %), 198 with what is there -> 197 measured (44 %)" in line


@pytest.mark.parametrize(
    ("quantity", "facts"),
    [
        ("latency", {}),
        ("first_use", {}),
        ("write_bandwidth", {"device_kind": "cpu"}),
        ("write_bandwidth", {"engine": "copy, staged through the host"}),
    ],
)
def test_no_line_where_no_data_sheet_speaks(quantity: str, facts: dict[str, Any]) -> None:
    snapshot = h200()
    item = figure(quantity, 1.0, *addresses(snapshot)[:2], **facts)
    assert four_numbers(snapshot, item) is None
