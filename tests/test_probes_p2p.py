"""The walk over all pairs, on devices that answer as told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gputop.probes.catalog import p2p
from gputop.probes.devices import StoreCheck, Versions, normal_pci, select
from gputop.probes.protocol import DeviceRecord, Hello, Measurement, Message, Request
from gputop.probes.sizing import GIB, MIB, choose_sizes
from gputop.probes.spec import ProbeStopped
from gputop.probes.timing import low_ones

H200_GBS = 396.1


class ToldGpus:
    """GPUs whose answers are given by the test; figures follow from a speed for each pair."""

    kind = "gpu"
    grantor = "driver"
    copy_engine = "copy engine"
    store_engine = "kernel store"

    def __init__(self, count: int = 3, free_bytes: int = 140 * GIB) -> None:
        self.count = count
        self.free = free_bytes
        self.denied: set[tuple[int, int]] = set()
        self.broken: set[tuple[int, int]] = set()
        self.speeds: dict[tuple[int, int], list[float]] = {}
        self.stored: list[tuple[int, int]] = []

    def versions(self) -> Versions:
        return Versions(torch="2.1.0", cuda="12.1", driver="580.1")

    def devices(self) -> tuple[DeviceRecord, ...]:
        return tuple(
            DeviceRecord(
                f"0000:0{i}:00.0", i, "NVIDIA H200", f"0000:0{i}:00.0", f"GPU-{i}", 141 * GIB
            )
            for i in range(self.count)
        )

    def free_bytes(self, index: int) -> int:
        return self.free

    def allocate(self, indices: Sequence[int], buffer_bytes: int) -> None:
        self.allocated = list(indices), buffer_bytes

    def can_access(self, src: int, dst: int) -> bool:
        return (src, dst) not in self.denied

    def store(self, src: int, dst: int, size_bytes: int) -> StoreCheck:
        self.stored.append((src, dst))
        wrong = 77 if (src, dst) in self.broken else 0
        return StoreCheck(size_bytes, wrong, 5 if wrong else None)

    def one_way_seconds(self, src: int, dst: int, size_bytes: int, copies: int) -> float:
        speeds = self.speeds.get((src, dst), [H200_GBS])
        speed = speeds.pop(0) if len(speeds) > 1 and size_bytes == 512 * MIB else speeds[0]
        return size_bytes * copies / speed / 1e9

    def both_ways_seconds(
        self, src: int, dst: int, size_bytes: int, copies: int
    ) -> tuple[float, float, float]:
        there = self.one_way_seconds(src, dst, size_bytes, copies)
        return there, 2 * there, 2 * there

    def copied_right(self, src: int, dst: int, size_bytes: int) -> bool:
        return (src, dst) not in self.broken

    def trace_store(self, src: int, dst: int, size_bytes: int) -> list[dict[str, Any]]:
        return []


@pytest.fixture(autouse=True)
def _no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(p2p, "warm", lambda work, seconds: work())


def run(monkeypatch: pytest.MonkeyPatch, gpus: ToldGpus, **params: object) -> list[Message]:
    monkeypatch.setattr(p2p, "open_backend", lambda params: gpus)
    said: list[Message] = []
    p2p.run(Request("p2p", params=params), said.append)
    return said


def found(said: list[Message], name: str) -> dict[tuple[str, str], Measurement]:
    return {
        (m.src[6:7], m.dst[6:7]): m for m in said if isinstance(m, Measurement) and m.name == name
    }


def test_every_ordered_pair_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    said = run(monkeypatch, ToldGpus(3))
    pairs = {("0", "1"), ("1", "0"), ("0", "2"), ("2", "0"), ("1", "2"), ("2", "1")}
    for name in ("access", "arrival", "one-way", "both-ways", "latency"):
        assert found(said, name).keys() == pairs
    assert found(said, "together").keys() == {("0", "1"), ("0", "2"), ("1", "2")}
    one_way = found(said, "one-way")["2", "0"]
    assert one_way.value == pytest.approx(H200_GBS)
    assert (one_way.bytes_per_copy, one_way.copies_per_sample) == (512 * MIB, 16)
    assert len(one_way.samples) == 5
    assert one_way.verdict == "verified"
    both = found(said, "both-ways")
    assert both["0", "1"].value == pytest.approx(H200_GBS)
    assert both["1", "0"].value == pytest.approx(H200_GBS / 2)
    assert found(said, "together")["0", "1"].value == pytest.approx(H200_GBS)


def test_a_pair_without_access_never_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ToldGpus(2)
    gpus.denied = {(0, 1)}
    said = run(monkeypatch, gpus)
    assert found(said, "access")["0", "1"].verdict == "not-granted"
    assert found(said, "arrival")["0", "1"].verdict == "not-granted"
    assert gpus.stored == [(1, 0)]
    assert "staged" in found(said, "one-way")["0", "1"].engine
    assert "staged" in found(said, "both-ways")["1", "0"].engine


def test_lost_bytes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ToldGpus(2)
    gpus.broken = {(1, 0)}
    said = run(monkeypatch, gpus)
    arrival = found(said, "arrival")["1", "0"]
    assert (arrival.verdict, arrival.wrong_bytes, arrival.first_wrong_offset) == (
        "wrong-bytes",
        77,
        5,
    )
    assert found(said, "one-way")["1", "0"].verdict == "wrong-data"
    assert found(said, "arrival")["0", "1"].verdict == "arrived"


def test_a_low_pair_is_measured_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ToldGpus(3)
    gpus.speeds[0, 1] = [300.0] * 5 + [395.0]
    said = run(monkeypatch, gpus)
    tries = [m for m in said if isinstance(m, Measurement) and (m.name, m.src, m.dst) ==
             ("one-way", "0000:00:00.0", "0000:01:00.0")]  # fmt: skip
    assert [(m.attempt, m.value) for m in tries] == [(1, 300.0), (2, 395.0)]
    others = found(said, "one-way")
    assert others["1", "2"].attempt == 1


def test_a_restless_pair_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ToldGpus(2)
    gpus.speeds[1, 0] = [396.0, 396.0, 396.0, 396.0, 380.0, 396.0]
    assert found(run(monkeypatch, gpus), "one-way")["1", "0"].attempt == 2


def test_kinds_are_compared_with_their_like() -> None:
    assert low_ones([("NV", 396.0), ("NV", 395.0), ("SYS", 24.0), ("SYS", 25.0)]) == []
    assert low_ones([("NV", 396.0), ("NV", 395.0), ("NV", 363.0)]) == [2]


def test_a_slow_pair_uses_shorter_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ToldGpus(2)
    gpus.speeds = {(0, 1): [24.0], (1, 0): [24.0]}
    one_way = found(run(monkeypatch, gpus), "one-way")["0", "1"]
    assert one_way.bytes_per_copy == 64 * MIB
    assert one_way.value == pytest.approx(24.0)


def test_memory_is_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProbeStopped) as caught:
        run(monkeypatch, ToldGpus(2, free_bytes=28 * GIB))  # a fifth of 141 GiB is 28.2
    assert caught.value.error == "refused"
    tight = ToldGpus(2, free_bytes=29 * GIB)
    said = run(monkeypatch, tight)
    assert tight.allocated == ([0, 1], 64 * MIB)
    assert next(m for m in said if isinstance(m, Hello)).devices[0].free_bytes == 29 * GIB
    forced = ToldGpus(2, free_bytes=28 * GIB)
    run(monkeypatch, forced, force=True)
    assert forced.allocated == ([0, 1], 512 * MIB)


def test_fewer_samples_than_three_are_refused() -> None:
    for samples in (2, 26, "5", True):
        with pytest.raises(ProbeStopped):
            choose_sizes("gpu", (), {"samples": samples})


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("00000000:06:00.0", "0000:06:00.0"),
        ("0000:AF:00.0", "0000:af:00.0"),
        ("06:00", "0000:06:00.0"),
        ("10001:06:00.0", "10001:06:00.0"),
        ("GPU-6", None),
        ("0", None),
    ],
)
def test_addresses_have_one_spelling(text: str, normal: str | None) -> None:
    assert normal_pci(text) == normal


def test_devices_are_chosen_by_address_or_uuid() -> None:
    all_of_them = ToldGpus(3).devices()
    assert [d.torch_index for d in select(all_of_them, ["00000000:02:00.0", "gpu-0"], 2)] == [2, 0]
    assert len(select(all_of_them, [], 2)) == 3
    for wanted in (["0000:09:00.0", "gpu-0"], ["gpu-0"], ["gpu-0", "0000:00:00.0"], ["1", "2"]):
        with pytest.raises(ProbeStopped):
            select(all_of_them, wanted, 2)
    with pytest.raises(ProbeStopped, match="No GPU"):
        select((), [], 2)
