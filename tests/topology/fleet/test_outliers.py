"""Figures of equal nodes: who is odd, on which side, and by how much."""

from __future__ import annotations

from array import array

import pytest

from gputop.topology.fleet.outliers import Strip, outliers, strips
from gputop.topology.fleet.record import FigureKind, NodeReport
from gputop.topology.model.severity import SLOW, Verdict

RATE = FigureKind(key="p2p write_bandwidth", over="NV18", unit="GB/s")
TIME = FigureKind(key="p2p latency", over="NV18", unit="us")


def node(number: int, worst: float, kind: FigureKind, middle: float = 1.0) -> NodeReport:
    return NodeReport(
        host=f"g{number}",
        path=f"g{number}.json",
        verdict=Verdict.HEALTHY,
        taken_at=0.0,
        written_at=0.0,
        modified_at=0.0,
        kinds=(kind,),
        values=array("d", (middle, worst)),
        at=(f"GPU{number}",),
    )


def strip(kind: FigureKind, *worst: float) -> tuple[Strip, dict[str, NodeReport]]:
    nodes = [node(number, value, kind) for number, value in enumerate(worst)]
    (made,) = strips({"8 × H100": nodes})
    return made, {one.host: one for one in nodes}


@pytest.mark.parametrize(
    ("kind", "odd", "said"),
    [
        (RATE, (60.0, 80.0), ("g5 GPU5", "60 GB/s, 40 % under", "down to 60 GB/s")),
        (RATE, (80.0,), ("g5 GPU5", "80 GB/s, 20 % under", ": 80 GB/s,")),
        (TIME, (140.0, 120.0), ("g5 GPU5", "140 us, 40 % over", "up to 140 us")),
        (TIME, (120.0,), ("g5 GPU5", "120 us, 20 % over", ": 120 us,")),
    ],
)
def test_the_worst_stands_first_with_its_distance(
    kind: FigureKind, odd: tuple[float, ...], said: tuple[str, str, str]
) -> None:
    made, nodes = strip(kind, 100.0, 100.0, 100.0, 100.0, 100.0, *odd)
    (found,) = outliers([made], nodes)
    assert (found.severity, len(found.evidence)) == (SLOW, len(odd))
    first = found.evidence[0]
    assert (first.what, first.source) == (said[0], "g5.json")
    assert first.value.startswith(said[1])
    assert "z =" not in first.value  # all others are equal
    assert said[2] in found.title


def test_distance_is_counted_in_robust_deviations() -> None:
    made, nodes = strip(RATE, 99.0, 101.0, 99.0, 101.0, 100.0, 100.0, 100.0, 50.0)
    (found,) = outliers([made], nodes)
    assert (made.median, made.mad) == (100.0, 1.0)
    assert "z = 34" in found.evidence[0].value  # 0.6745 × 50 / 1


@pytest.mark.parametrize(
    ("worst", "limit"),
    [
        # The share decides where the noise is small, six deviations where it is large.
        ((100.0, 100.0, 100.0, 100.0, 92.5), 92.0),
        ((100.0, 110.0, 90.0, 110.0, 90.0, 100.0, 100.0, 30.0, 100.0, 90.0, 110.0), 11.05),
        ((100.0, 100.0, 100.0, 50.0), None),
    ],
)
def test_how_far_is_too_far(worst: tuple[float, ...], limit: float | None) -> None:
    made, nodes = strip(RATE, *worst)
    assert made.limit == (None if limit is None else pytest.approx(limit, abs=0.01))
    assert outliers([made], nodes) == []


def test_only_the_worse_side_counts_and_the_limit_itself_does_not() -> None:
    assert strip(RATE, 100.0, 100.0, 100.0, 100.0, 100.0, 300.0, 92.0)[0].outliers == ()
    assert strip(TIME, 100.0, 100.0, 100.0, 100.0, 100.0, 10.0, 108.0)[0].outliers == ()


def test_no_figure_is_no_distance() -> None:
    made, nodes = strip(TIME, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0)
    (found,) = outliers([made], nodes)
    assert found.evidence[0].value.startswith("5 us, 0 % over")
