"""What is left of an all-reduce where a variable leaves fewer channels than the search found."""

from __future__ import annotations

import json
from functools import cache

import pytest

import gputop
from gputop.topology.expectation.modelled import modelled
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.settings import Settings
from tests.support.places import RECORDINGS

MIB = 1 << 20


@cache
def bus_gbs(channels: int) -> dict[int, float]:
    """Measured on two H200: bytes -> GB/s on the bus, which for two ranks is bytes / time."""
    text = (RECORDINGS / f"collectives-h200x2/ch{channels}.json").read_text()
    told = json.loads(text)["alone_us"]["all_reduce"]
    return {int(size): int(size) / us / 1e3 for size, us in told.items()}


@pytest.mark.parametrize("channels", [1, 2, 4, 8])
@pytest.mark.parametrize("size", [16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB])
def test_few_channels_carry_what_was_measured(channels: int, size: int) -> None:
    node = gputop.load(RECORDINGS / "saved-h200x2/tp/node.json.gz").snapshot
    settings = Settings({"NCCL_MAX_NCHANNELS": str(channels), "NCCL_NVLS_ENABLE": "0"})
    told = modelled(predict(node, settings), size)
    assert told == pytest.approx(bus_gbs(channels)[size], rel=0.15)


def test_more_channels_than_the_search_found_cost_nothing() -> None:
    node = gputop.load(RECORDINGS / "saved-h200x2/tp/node.json.gz").snapshot
    for channels in ("16", "32"):
        made = predict(node, Settings({"NCCL_MAX_NCHANNELS": channels}))
        assert {choice.limited_us for choice in made.choices} == {None}


def test_fewer_channels_of_nvls_and_between_hosts_cost_their_share() -> None:
    node = gputop.demo("hgx-h100-8").snapshot
    whole = modelled(predict(node), 1024 * MIB)
    few = predict(node, Settings({"NCCL_MAX_CTAS": "4"}))
    assert {choice.algorithm for choice in few.choices if choice.bytes >= 16 * MIB} == {"NVLS"}
    told = modelled(few, 1024 * MIB)
    assert whole is not None
    assert told == pytest.approx(whole * 4 / 16, rel=0.05)
    off = {"NCCL_NVLS_ENABLE": "0"}
    free = modelled(predict(node, Settings(off), nodes=2), 1024 * MIB)
    held = modelled(predict(node, Settings(off | {"NCCL_MAX_CTAS": "1"}), nodes=2), 1024 * MIB)
    assert held == pytest.approx(21, rel=0.1)
    assert free is not None
    assert free > 10 * 21
