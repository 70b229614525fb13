"""Channels and threads of a collective."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.topology.nccl.prediction import Graphs
from gputop.topology.nccl.tuning.channels import coll_channels, nvls_channels
from gputop.topology.nccl.tuning.threads import most_threads, threshold
from tests.topology.nccl.tuning.made import H100, H200, KIB, MIB, changed, graph, picked


def test_nvls_uses_its_own_channels() -> None:
    assert coll_channels(H100) == 24
    assert nvls_channels(H100) == 16
    assert picked(H100, "AllReduce", 4 * MIB) == "NVLS SIMPLE 0..15"
    fewer = changed(H100, NCCL_NVLS_NCHANNELS="8")
    assert picked(fewer, "AllReduce", 4 * MIB) == "NVLS SIMPLE 0..7"
    off = changed(H100, NCCL_NVLS_ENABLE="0")
    assert nvls_channels(off) == 0
    assert picked(off, "AllReduce", 4 * MIB) == "RING LL128 0..23"


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, 24),
        ({"NCCL_MAX_NCHANNELS": "8"}, 8),
        ({"NCCL_MIN_NCHANNELS": "32"}, 32),
        ({"NCCL_MIN_NCHANNELS": "100"}, 64),
        ({"NCCL_MAX_NCHANNELS": "0"}, 1),
        ({"NCCL_MAX_NRINGS": "4"}, 4),
        ({"NCCL_MAX_NRINGS": "4", "NCCL_MAX_NCHANNELS": "6"}, 6),
        ({"NCCL_MAX_CTAS": "16"}, 16),
        ({"NCCL_MIN_CTAS": "48"}, 48),
        ({"NCCL_MIN_CTAS": "48", "NCCL_MAX_CTAS": "16"}, 16),
        ({"NCCL_MAX_CTAS": "-3"}, 24),
        ({"NCCL_MAX_NCHANNELS": "4", "NCCL_MIN_NCHANNELS": "12"}, 12),
    ],
)
def test_channel_limits(environment: dict[str, str], wanted: int) -> None:
    assert coll_channels(changed(H200, **environment)) == wanted


def test_fast_rings_across_nodes_get_four_channels_each() -> None:
    fast = Graphs(ring=graph(4, 48), tree=graph(4, 48, pattern=2))
    assert coll_channels(replace(H200, graphs=fast, ranks=8, nodes=2)) == 16
    assert coll_channels(replace(H200, graphs=fast)) == 8


def test_until_2_27_nvls_raises_the_channels() -> None:
    few = Graphs(ring=graph(4, 30), tree=graph(4, 30, pattern=1), nvls=graph(8, 40, 60, pattern=5))
    assert coll_channels(replace(H100, graphs=few, number="2.27.7")) == 16
    assert coll_channels(replace(H100, graphs=few)) == 8


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, 512),
        ({"NCCL_NTHREADS": "256"}, 256),
        ({"NCCL_NTHREADS": "100"}, 512),
        ({"NCCL_NTHREADS": "32"}, 64),
        ({"NCCL_NTHREADS": "9999999"}, 512),
        ({"NCCL_NTHREADS": "-1"}, 512),
    ],
)
def test_thread_counts(environment: dict[str, str], wanted: int) -> None:
    assert most_threads(changed(H200, **environment), "RING", "SIMPLE") == wanted


def test_a_slow_ring_gets_fewer_threads() -> None:
    slow = replace(H200, graphs=Graphs(ring=graph(1, 12, kind="PHB"), tree=graph(1, 12)))
    assert most_threads(slow, "RING", "SIMPLE") == 256
    assert most_threads(slow, "TREE", "SIMPLE") == 512


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("1 2 3 4 5 6", 4), ("1 2 3", 32), ("1 2 3 -1", 32), ("1 2 x 4", 32), ("1 2 3 0x9", 0)],
)
def test_thread_thresholds_are_read_like_sscanf(text: str, wanted: int) -> None:
    assert threshold(changed(H200, NCCL_THREAD_THRESHOLDS=text), "RING", "LL") == wanted


def test_small_calls_use_fewer_channels() -> None:
    assert picked(H200, "AllReduce", 64 * KIB) == "RING LL 0..3"
    wider = changed(H200, NCCL_THREAD_THRESHOLDS="8 8 64 8")
    assert picked(wider, "AllReduce", 64 * KIB) == "RING LL 0..15"
