"""Parts of the probe nccl: the steps of its ranks and the memory that they need."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.probes.catalog.nccl.probe import NEEDED_BYTES, SPEC, NcclMember, steps
from gputop.probes.protocol.messages import DeviceRecord


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_every_ordered_pair_is_a_step(ranks: int) -> None:
    plan = steps(ranks, {}, False)
    pairs = [(step.src, step.dst) for step in plan if step.name == "transfer"]
    assert len(set(pairs)) == len(pairs) == ranks * (ranks - 1)
    assert [step.first for step in plan if step.name == "all-reduce"] == [True, False]
    assert [step.name for step in plan[:2]] == ["open", "init"]


def device(address: str | None, index: int, **more: Any) -> DeviceRecord:
    return DeviceRecord(address or f"cpu:{index}", index, "x", address, **more)


class OneRankStore:
    """A store in which the other ranks have spoken already."""

    def __init__(self, **said: str) -> None:
        self.said = {name.replace("_", "/"): text for name, text in said.items()}

    def set(self, name: str, value: str) -> None:
        self.said[name] = value

    def get(self, name: str) -> str:
        return self.said[name]


@pytest.mark.parametrize(
    ("mine", "other", "force", "word"),
    [
        (60 << 30, 70 << 30, False, ""),
        (60 << 30, 10 << 30, False, "0000:02:00.0"),
        (60 << 30, 10 << 30, True, ""),
        (NEEDED_BYTES, 70 << 30, True, "0000:01:00.0"),
    ],
)
def test_too_little_memory_on_any_gpu_stops_all_ranks(
    mine: int, other: int, force: bool, word: str
) -> None:
    gpus = [device(f"0000:0{i + 1}:00.0", i, memory_bytes=80 << 30) for i in range(2)]
    store: Any = OneRankStore(free_1=str(other))
    here: Any = None
    params = {"force": force}
    member = NcclMember(here, here, store, gpus, 0, lambda message: None, SPEC, params)
    refusal = member.memory_refusal(mine)
    assert (word in refusal) if word else (refusal == "")
    assert member.devices[1].free_bytes == other
