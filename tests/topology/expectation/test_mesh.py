"""A point-to-point mesh: a pair has one link, a GPU has one for each peer, a group so many."""

from __future__ import annotations

import msgspec
import pytest

from gputop.measuring.runs import request_for
from gputop.topology.expectation.four_numbers import four_numbers
from gputop.topology.expectation.judge import Judge
from gputop.topology.expectation.patterns import patterns
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from gputop.topology.recorded.feeds import DemoFeed


def node(demo: str = "mi300x-8") -> tuple[NodeSnapshot, list[str]]:
    snapshot = DemoFeed(demo).at(0)
    return snapshot, sorted(gpu.address for gpu in snapshot.machine.gpus)


def pair(quantity: str, src: str, dst: str | None, value: float, **rest: object) -> Measurement:
    return Measurement(
        probe="p2p",
        quantity=quantity,
        src=src,
        dst=dst,
        value=value,
        unit="GB/s",
        bytes_per_copy=1 << 29,
        engine="copy engine",
        **rest,  # type: ignore[arg-type]
    )


def numbers(snapshot: NodeSnapshot, figure: Measurement) -> tuple[float | None, float | None]:
    """One way by the data sheet, and what to expect."""
    found = four_numbers(snapshot, figure)
    assert found is not None
    assert found.one_way is not None
    real = found.realistic.value if found.realistic is not None else None
    return round(found.one_way.value, 1), None if real is None else round(real, 1)


def test_a_pair_of_mi300x_is_64_on_paper_and_48_reached() -> None:
    snapshot, gpus = node()
    figure = pair("write_bandwidth", gpus[0], gpus[5], 47.0)
    assert numbers(snapshot, figure) == (64.0, 48.0)
    (judged,) = Judge(snapshot).judge([figure])
    assert judged.verdict == "healthy"
    (low,) = Judge(snapshot).judge([pair("write_bandwidth", gpus[0], gpus[5], 30.0)])
    assert low.verdict == "low"


@pytest.mark.parametrize("variant", ["one to all", "all to one"])
def test_all_peers_together_are_448_on_paper(variant: str) -> None:
    snapshot, gpus = node()
    ends = (gpus[0], None) if variant == "one to all" else (None, gpus[0])
    total = Measurement(
        probe="p2p-concurrent",
        quantity="concurrent_total",
        src=ends[0],
        dst=ends[1],
        value=320.0,
        unit="GB/s",
        variant=f"{variant} ({gpus[0]})",
        bytes_per_copy=1 << 28,
        details={"pairs": 7},
    )
    assert numbers(snapshot, total) == (448.0, 336.0)
    each = pair("concurrent_bandwidth", gpus[0], gpus[3], 45.0, variant=f"{variant} ({gpus[0]})")
    assert numbers(snapshot, each) == (64.0, 48.0)
    (judged,) = Judge(snapshot).judge([total])
    assert judged.band is not None
    assert judged.band.basis == "estimate"


def test_mi355x_has_its_own_paper_and_no_borrowed_reference() -> None:
    snapshot, gpus = node("mi355x-8")
    assert numbers(snapshot, pair("write_bandwidth", gpus[0], gpus[5], 57.0)) == (76.8, None)
    total = pair(
        "concurrent_total", gpus[0], None, 400.0, variant="one to all", details={"pairs": 7}
    )
    assert numbers(snapshot, total) == (537.6, None)


@pytest.mark.parametrize(
    ("count", "paper", "reached"), [(2, 64, 47.7), (4, 192, 143), (8, 448, 313)]
)
def test_a_group_has_one_link_less_than_it_has_gpus(
    count: int, paper: float, reached: float
) -> None:
    snapshot, gpus = node()
    figure = Measurement(
        probe="collectives",
        quantity="all_reduce_busbw",
        value=reached,
        unit="GB/s",
        bytes_per_copy=1 << 30,
        details={"ranks": count, "devices": gpus[:count]},
    )
    sheet, expected = numbers(snapshot, figure)
    assert sheet == paper
    assert expected == pytest.approx(reached, rel=0.01)


def test_a_link_that_is_down_leaves_the_hub_without_a_sum() -> None:
    snapshot, gpus = node("sick-mi300x-8")
    lost = next(
        gpu.address
        for gpu in snapshot.machine.gpus
        if any(link.active is False for link in gpu.xgmi)
    )
    total = pair("concurrent_total", lost, None, 280.0, variant="one to all", details={"pairs": 7})
    assert four_numbers(snapshot, total) is None
    (judged,) = Judge(snapshot).judge([total])
    assert judged.verdict == "no reference"
    well = next(member for member in gpus if not any(
        link.active is False for gpu in snapshot.machine.gpus if gpu.address == member
        for link in gpu.xgmi
    ))  # fmt: skip
    fine = pair("concurrent_total", well, None, 320.0, variant="one to all", details={"pairs": 7})
    assert numbers(snapshot, fine) == (448.0, 336.0)


def test_switches_have_no_such_sum() -> None:
    snapshot, gpus = node("hgx-h100-8")
    total = pair(
        "concurrent_total", gpus[0], None, 390.0, variant="one to all", details={"pairs": 7}
    )
    (judged,) = Judge(snapshot).judge([total])
    assert judged.verdict == "no reference"
    assert four_numbers(snapshot, total) is None


def uneven(src: str, dst: str, snapshot: NodeSnapshot) -> float:
    """Three quarters of what a pair of MI250X has; less where it has no link of its own."""
    (gpu,) = (gpu for gpu in snapshot.machine.gpus if gpu.address == src)
    own = [link.links for link in gpu.xgmi if link.remote_address == dst]
    return 37.0 * (own[0] or 1) if own else 25.0


def test_pairs_of_an_uneven_mesh_are_compared_with_their_like() -> None:
    snapshot, gpus = node("mi250x-8")
    figures = [
        pair("write_bandwidth", a, b, uneven(a, b, snapshot)) for a in gpus for b in gpus if a != b
    ]
    names = {gpu: gpu for gpu in gpus}
    judged = Judge(snapshot).judge(figures)
    assert patterns(figures, names, snapshot, judgements=judged) == ()
    assert not any("siblings" in judgement.note for judgement in judged)
    half = [
        msgspec.structs.replace(figure, value=figure.value / 2)
        if figure.value == 148.0 and {figure.src, figure.dst} == set(gpus[:2])
        else figure
        for figure in figures
        if figure.value
    ]
    (found,) = patterns(half, names, snapshot)
    assert (found.kind, set(found.devices)) == ("pair", set(gpus[:2]))


def test_a_package_of_two_has_four_links_on_paper() -> None:
    snapshot, gpus = node("mi250x-8")
    assert numbers(snapshot, pair("write_bandwidth", gpus[0], gpus[1], 148.0))[0] == 200.0
    assert numbers(snapshot, pair("write_bandwidth", gpus[0], gpus[2], 37.0))[0] == 50.0
    assert numbers(snapshot, pair("write_bandwidth", gpus[0], gpus[6], 74.0))[0] == 100.0


def test_a_worker_hears_which_pairs_of_an_uneven_mesh_are_alike() -> None:
    snapshot, gpus = node("mi250x-8")
    kinds = dict(request_for("p2p", snapshot.machine, ()).kinds)
    assert kinds[f"{gpus[0]} {gpus[1]}"] == "XGMI 4"
    assert kinds[f"{gpus[0]} {gpus[3]}"] == "XGMI over other GPUs"
    assert len(set(kinds.values())) == 4
