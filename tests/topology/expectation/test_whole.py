"""Whole judgements of figures from much too low to much too high, on sound and on poor nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from gputop.topology.expectation import collectives, devices, pairs
from gputop.topology.expectation.four_numbers import four_numbers
from gputop.topology.expectation.judge import Judge
from gputop.topology.expectation.patterns import QUANTITIES, patterns
from gputop.topology.hardware.specs import GOOD, LOOK
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from tests.grid import share
from tests.support.expectation_made import (
    CUBE,
    GIB,
    addresses,
    change_gpu,
    demo,
    figure,
    h200,
    links_up,
    matrix,
    with_variables,
)
from tests.support.whole import whole

UNHEARD = ("*",)
MIB = 1 << 20
SHARES = (0.0, 0.3, 0.8, LOOK, 0.91, GOOD, 1.0, 1.15, 1.2, 1.4)


def poorer(snapshot: NodeSnapshot) -> NodeSnapshot:
    """The same with half of the links of one GPU, a lower power limit and a narrow slot."""
    gpu = snapshot.machine.gpus[1]
    less = change_gpu(snapshot, 1, **links_up(gpu, len(gpu.nvlinks) // 2))
    return change_gpu(less, 0, power_limit_watts=300.0, pcie_width_max=8)


NODES: dict[str, Callable[[], NodeSnapshot]] = {
    "h200": h200,
    "poor h200": lambda: poorer(h200()),
    "h200, no P2P": lambda: h200(NCCL_P2P_DISABLE="1"),
    "poor a100": lambda: poorer(demo("hgx-a100-8")),
    "mi300x": lambda: demo("mi300x-8"),
    "l40s": lambda: poorer(demo("pcie-l40s-8")),
    "dgx-1v": lambda: with_variables(demo("dgx-1v"), NCCL_ALGO="Tree"),
    "sick": lambda: demo("sick-h100-8"),
}


def figures(snapshot: NodeSnapshot) -> Iterator[Measurement]:
    """One figure of each kind, between several pairs, of several sizes and ways."""
    gpus = addresses(snapshot)
    for quantity in pairs.OF_PAIRS:
        for ends in ((gpus[0], gpus[1]), (gpus[1], gpus[-1]), (gpus[0], gpus[0])):
            yield figure(quantity, 1.0, *ends)
            yield figure(quantity, 1.0, *ends, bytes_per_copy=64 * MIB, engine="copy, staged")
            yield figure(quantity, 1.0, *ends, bytes_per_copy=8 * MIB, variant="all to one (x)")
    for quantity in devices.OF_DEVICES:
        for variant in ("pinned", "pinned, NUMA node 0", "pageable", CUBE, "fp8 M128 K128 N128 x"):
            yield figure(quantity, 1.0, gpus[0], variant=variant)
            details: dict[str, Any] = {"pcie_generation": 3, "pcie_width": 8}
            details["throttle"] = ["HW_THERMAL"]
            counted = "bytes copied, once"
            yield figure(
                quantity, 1.0, gpus[1], variant=variant, details=details, counted=counted,
                bytes_per_copy=GIB,
            )  # fmt: skip
    for quantity in collectives.COLLECTIVES:
        for size in (None, MIB, 16 * MIB, 256 * MIB, GIB, 8 * GIB):
            for details in ({}, {"ranks": 2}, {"devices": gpus[1:4]}, {"ranks": 99}):
                yield figure(quantity, 1.0, bytes_per_copy=size, details=details)


def said_of(judge: Judge, item: Measurement) -> str:
    """All that is expected of a figure, and the verdicts of worse and better ones."""
    expected = judge.expected(item)
    said = " | ".join(whole(expected, without=("source",)).splitlines())
    if expected.band is None:
        return said
    words = []
    for part in SHARES:
        value = part * expected.band.healthy
        if expected.band.falling:
            value = expected.band.healthy / (part or 0.1)
        one = msgspec.structs.replace(item, value=value)
        (judged,) = judge.judge([one])
        words.append(f"{judged.verdict.value[:2]}{'!' * judged.explained}")
        if part in (0.3, 1.4):
            numbers = four_numbers(judge.node.snapshot, one, judge)
            said += f"\n  {judged.cause}; {judged.note}; {numbers.line if numbers else ''}"
    return f"{said}\n  {' '.join(words)}"


@pytest.mark.parametrize("name", share(NODES, 2))
def test_every_kind_of_figure(name: str, snapshot: SnapshotAssertion) -> None:
    judge = Judge(NODES[name]())
    alike: dict[str, list[str]] = {}
    for item in figures(judge.node.snapshot):
        size = "" if item.bytes_per_copy is None else f" {item.bytes_per_copy // MIB} MiB"
        details = "".join(f" {value}" for value in item.details.values())
        where = f"{item.quantity} {item.dst or ''}{size} {item.variant or ''}{details}"
        alike.setdefault(said_of(judge, item), []).append(" ".join(where.split()))
    assert "\n".join(f"{'; '.join(items)}\n  {said}" for said, items in alike.items()) == snapshot


LOW: dict[str, Callable[[int, int], bool]] = {
    "all": lambda i, j: True,
    "row and column": lambda i, j: 1 in (i, j),
    "row": lambda i, j: i == 1,
    "column": lambda i, j: j == 2,
    "pair": lambda i, j: (i, j) == (0, 3),
    "both ways": lambda i, j: {i, j} == {0, 3},
    "block": lambda i, j: i // 2 != j // 2,
    "one side": lambda i, j: {i, j} <= {0, 1, 2},
    "scattered": lambda i, j: (i * 3 + j) % 4 == 1,
}


@pytest.mark.parametrize("name", ["h200", "l40s", "dgx-1v", "mi300x"])
def test_every_shape_of_low_figures(name: str, snapshot: SnapshotAssertion) -> None:
    node = NODES[name]()
    names = {address: f"GPU{number}" for number, address in enumerate(addresses(node))}
    found: list[Any] = []
    for shape, is_low in LOW.items():
        made = matrix(node, lambda i, j: 12.0 + i if is_low(i, j) else 44.0, QUANTITIES[0])  # noqa: B023
        judged = Judge(node).judge(made)
        for known in (node, None):
            found += [shape, patterns(made, names, known, judgements=judged)]
    assert whole(found) == snapshot
