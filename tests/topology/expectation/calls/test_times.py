"""Times of calls: which source counts, what groups share, and what must hold for any node."""

from __future__ import annotations

import msgspec
import pytest

from gputop.topology.expectation.calls.kinds import CollectiveKind, bus_share
from gputop.topology.expectation.calls.times import TimesOfCalls, at_sizes
from gputop.topology.expectation.judge import Judge
from gputop.topology.expectation.ways import TakenWay
from gputop.topology.model import quantities
from gputop.topology.model.severity import FigureBasis
from gputop.topology.model.snapshot import EnvironmentVariable, Measurement
from gputop.topology.node import Node
from tests.support.snapshots import demo_node

MIB = 1 << 20
SIZES = (MIB, 16 * MIB, 256 * MIB, 1024 * MIB)
NODES = ("hgx-h100-8", "dgx-1v", "mi300x-8", "pcie-l40s-8", "gb200-nvl72-tray")


def _times(name: str, figures: tuple[Measurement, ...] = ()) -> tuple[TimesOfCalls, list[str]]:
    node = demo_node(name, measurements=figures).decide()
    return TimesOfCalls(node), [gpu.address for gpu in node.machine.gpus]


@pytest.mark.parametrize("name", NODES)
def test_every_collective_has_a_time_that_grows_with_the_size(name: str) -> None:
    times, gpus = _times(name)
    found = at_sizes(times, gpus, SIZES)
    assert found.keys() == set(CollectiveKind)
    for collective, rows in found.items():
        spent = [row.us for row in rows]
        assert spent == sorted(spent)
        for row in rows:
            assert row.low_us <= row.us <= row.high_us
            assert row.fixed_us < row.us
            share = bus_share(collective, len(gpus))
            assert row.busbw_gbs == pytest.approx(row.algbw_gbs * share)
            assert row.source


@pytest.mark.parametrize("name", NODES)
def test_groups_of_other_links_take_nothing_and_a_twin_takes_half(name: str) -> None:
    times, gpus = _times(name)
    pair, other = gpus[:2], gpus[2:4]
    for collective in CollectiveKind:
        alone = times.of(pair, collective, 1024 * MIB)
        beside = times.of(pair, collective, 1024 * MIB, [other])
        crowd = times.of(pair, collective, 1024 * MIB, [pair, pair])
        assert alone is not None
        assert beside is not None
        assert crowd is not None
        assert beside.us == pytest.approx(alone.us)
        assert crowd.us > alone.us
        assert crowd.communicators == 3


def test_a_send_the_other_way_takes_nothing() -> None:
    times, gpus = _times("hgx-h100-8")
    pair = gpus[:2]
    alone = times.of(pair, CollectiveKind.SEND, 1024 * MIB)
    against = times.of(pair, CollectiveKind.SEND, 1024 * MIB, [pair[::-1]])
    assert alone is not None
    assert against is not None
    assert against.us == pytest.approx(alone.us)


def test_a_twin_on_nvlink_leaves_half_of_the_links() -> None:
    times, gpus = _times("hgx-h100-8")
    pair = gpus[:2]
    found = times.of(pair, CollectiveKind.ALL_TO_ALL, 1024 * MIB, [pair])
    assert found is not None
    assert found.slower == pytest.approx(2)
    assert found.shared == "the links of GPU0"
    assert 2 * found.busbw_gbs == pytest.approx(0.8 * 450, rel=0.02)


def test_a_send_on_a_mesh_has_one_link() -> None:
    times, gpus = _times("mi300x-8")
    send = times.of(gpus, CollectiveKind.SEND, 1024 * MIB)
    everywhere = times.of(gpus, CollectiveKind.ALL_TO_ALL, 1024 * MIB)
    assert send is not None
    assert everywhere is not None
    assert 42 <= send.busbw_gbs <= 48
    assert everywhere.busbw_gbs == pytest.approx(7 * send.busbw_gbs, rel=0.05)


def test_what_was_measured_here_counts_first() -> None:
    figures = tuple(
        Measurement(
            probe="collectives",
            quantity=quantities.ALL_TO_ALL,
            value=gbs,
            unit="GB/s",
            bytes_per_copy=size,
        )
        for size, gbs in ((MIB, 10.0), (64 * MIB, 100.0), (1024 * MIB, 200.0))
    )
    times, gpus = _times("hgx-h100-8", figures)
    found = times.of(gpus, CollectiveKind.ALL_TO_ALL, 64 * MIB)
    between = times.of(gpus, CollectiveKind.ALL_TO_ALL, 128 * MIB)
    other = times.of(gpus, CollectiveKind.ALL_GATHER, 64 * MIB)
    assert found is not None
    assert between is not None
    assert other is not None
    assert found.basis is FigureBasis.MEASURED
    assert found.busbw_gbs == pytest.approx(100)
    assert 100 < between.busbw_gbs < 200
    assert other.basis is not FigureBasis.MEASURED


def test_an_uneven_all_to_all_takes_as_long_as_its_busiest_rank() -> None:
    times, gpus = _times("hgx-h100-8")
    ranks = len(gpus)
    part = 64 * MIB // ranks
    even = [[part] * ranks for _ in gpus]
    one = times.uneven(gpus, even)
    whole = times.of(gpus, CollectiveKind.ALL_TO_ALL, part * ranks)
    assert one is not None
    assert whole is not None
    assert one.us == pytest.approx(whole.us)
    even[3][5] += 64 * MIB
    uneven = times.uneven(gpus, even)
    assert uneven is not None
    assert uneven.us > 1.5 * one.us
    assert times.uneven(gpus[:1], [[5]]) is None


def test_one_gpu_has_nobody_to_talk_to() -> None:
    times, gpus = _times("hgx-h100-8")
    assert times.of(gpus[:1], CollectiveKind.ALL_REDUCE, MIB) is None
    assert times.of(gpus, CollectiveKind.ALL_REDUCE, 0) is None


def _with_variable(name: str, value: str) -> tuple[Node, list[str]]:
    snapshot = demo_node("hgx-h100-8").snapshot
    variable = EnvironmentVariable(name=name, value=value, origin="--set")
    node = Node(msgspec.structs.replace(snapshot, environment=(variable,))).decide()
    return node, [gpu.address for gpu in node.machine.gpus]


def test_where_the_library_decides_nothing_the_links_say_the_way() -> None:
    node, gpus = _with_variable("CUDA_VISIBLE_DEVICES", "none")
    found = TimesOfCalls(node).of(gpus, CollectiveKind.ALL_REDUCE, 1024 * MIB)
    assert node.prediction is None
    assert found is not None
    assert found.way is TakenWay.LINKS


@pytest.mark.parametrize(
    ("failure", "way"), [(None, TakenWay.NETWORK), ("NCCL would stop", TakenWay.LINKS)]
)
def test_a_library_that_would_stop_takes_no_way(failure: str | None, way: TakenWay) -> None:
    node, gpus = _with_variable("NCCL_P2P_DISABLE", "1")
    assert node.prediction is not None
    made = msgspec.structs.replace(node.prediction, failure=failure)
    times = TimesOfCalls(node, Judge(node.snapshot, made))
    found = times.of(gpus, CollectiveKind.ALL_REDUCE, 1024 * MIB)
    assert found is not None
    assert found.way is way
