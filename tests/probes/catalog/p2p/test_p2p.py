"""The walk over all pairs, on devices with scripted answers."""

from __future__ import annotations

from functools import partial

import pytest

from gputop.probes.catalog.p2p import probe as p2p
from gputop.probes.catalog.p2p import probe as p2p_walk
from gputop.probes.devices import opened
from gputop.probes.devices.devices import Flow
from gputop.probes.protocol.messages import (
    MeasuredValue,
    Message,
    Note,
    Progress,
    WorkerRequest,
    decode,
    encode,
)
from gputop.probes.protocol.sizing import GIB, KIB, MIB
from gputop.probes.protocol.timing import low_ones
from tests.grid import share
from tests.probes.scripted_gpus import H200_GBS, ScriptedGpus, found

PAIRS = {("0", "1"), ("1", "0"), ("0", "2"), ("2", "0"), ("1", "2"), ("2", "1")}
COUPLES = {("0", "1"), ("0", "2"), ("1", "2")}
EVERY_LEVEL = ("can_access", "bytes_arrive", "write_bandwidth", "latency")
OTHER_PATHS = ("read_bandwidth", "kernel_write_bandwidth", "kernel_read_bandwidth",
               "kernel_latency")  # fmt: skip
EXTRAS = ("staged_bandwidth", "write_sweep")


@pytest.fixture(autouse=True)
def _no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(p2p_walk, "warm", lambda work, seconds: work())


def run(monkeypatch: pytest.MonkeyPatch, gpus: ScriptedGpus, **params: object) -> list[Message]:
    monkeypatch.setattr(opened, "open_backend", lambda params: gpus)
    said: list[Message] = []
    p2p.run(WorkerRequest("p2p", params=params), said.append)
    return said


def notes(said: list[Message], topic: str) -> list[Note]:
    return [m for m in said if isinstance(m, Note) and m.topic == topic]


def test_every_ordered_pair_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    said = run(monkeypatch, ScriptedGpus(3))
    for name in (*EVERY_LEVEL, "both_ways_bandwidth", *OTHER_PATHS):
        assert found(said, name).keys() == PAIRS, name
    assert found(said, "together_bandwidth").keys() == COUPLES
    one_way = found(said, "write_bandwidth")["2", "0"]
    assert one_way.value == pytest.approx(H200_GBS)
    assert (one_way.bytes_per_copy, one_way.copies_per_sample) == (512 * MIB, 16)
    assert len(one_way.samples) == 5
    assert (one_way.verdict, one_way.counted) == ("verified", "bytes copied, once")
    for m in said:
        assert decode(encode(m)) == m


def test_quick_takes_less_and_the_same_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(3)
    said = run(monkeypatch, gpus, level="quick")
    for name in EVERY_LEVEL:
        assert found(said, name).keys() == PAIRS, name
    assert found(said, "together_bandwidth").keys() == {("0", "1")}
    assert not any(found(said, name) for name in (*OTHER_PATHS, *EXTRAS))
    assert gpus.allocated == ([0, 1, 2], 256 * MIB)
    one_way = found(said, "write_bandwidth")["0", "1"]
    assert (one_way.bytes_per_copy, one_way.copies_per_sample) == (256 * MIB, 8)
    assert len(one_way.samples) == 3


def test_full_takes_the_extras_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    normal, full = (run(monkeypatch, ScriptedGpus(3), level=level) for level in ("normal", "full"))
    for name in EXTRAS:
        assert found(normal, name).keys() == {("0", "1")}
        assert found(full, name).keys() == PAIRS

    def sizes(said: list[Message]) -> list[int | None]:
        return [
            m.bytes_per_copy
            for m in said
            if isinstance(m, MeasuredValue)
            and m.name == "write_sweep"
            and m.src[6] + m.dst[6] == "01"
        ]

    assert sizes(normal) == [4 * KIB * 4**k for k in range(10)]
    assert sizes(full) == [4 * KIB * 2**k for k in range(19)]
    assert max(size or 0 for size in sizes(full)) == GIB


def test_one_pair_for_each_kind_is_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {
        f"0000:0{a}:00.0 0000:0{b}:00.0": "NV18" if {a, b} == {0, 1} else "SYS"
        for a in range(3)
        for b in range(3)
        if a != b
    }
    gpus = ScriptedGpus(3)
    gpus.denied = {(2, 1)}
    said = run(monkeypatch, gpus, kinds=kinds)
    assert found(said, "staged_bandwidth").keys() == {("0", "1"), ("0", "2"), ("2", "1")}
    quick = run(monkeypatch, ScriptedGpus(3), kinds=kinds, level="quick")
    assert found(quick, "together_bandwidth").keys() == {("0", "1"), ("0", "2")}


def test_both_directions_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(2)
    gpus.speeds = {(1, 0): [H200_GBS / 2]}
    said = run(monkeypatch, gpus)
    both = found(said, "both_ways_bandwidth")
    assert both["0", "1"].value == pytest.approx(H200_GBS)
    assert both["1", "0"].value == pytest.approx(H200_GBS / 2)
    together = found(said, "together_bandwidth")["0", "1"]
    assert together.value == pytest.approx(H200_GBS), "until the slower one is done"
    assert together.details == {"rates_added_gbs": pytest.approx(1.5 * H200_GBS, abs=0.01)}


def test_reading_runs_where_the_reader_is(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(2)
    gpus.speeds = {(1, 0): [200.0], (0, 1): [400.0]}
    read = found(run(monkeypatch, gpus), "read_bandwidth")
    assert read["0", "1"].value == pytest.approx(200.0), "bytes go from the owner to the reader"
    assert read["0", "1"].direction.startswith("0000:00:00.0 reads the memory of 0000:01:00.0")
    assert (Flow(1, 0, reads=True),) in gpus.flows
    assert Flow(1, 0, reads=True).doer == 0
    assert Flow(1, 0).doer == 1


def test_kernels_have_their_own_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(2)
    said = run(monkeypatch, gpus)
    assert gpus.opened == [0, 1]
    for name in ("kernel_write_bandwidth", "kernel_read_bandwidth"):
        figure = found(said, name)["0", "1"]
        assert figure.value == pytest.approx(370.0)
        assert figure.engine == "kernel"
    latency = found(said, "kernel_latency")["1", "0"]
    assert latency.value == pytest.approx(0.7)
    assert latency.unit == "us"
    assert (latency.copies_per_sample or 0) * len(latency.samples) >= 100_000
    assert not notes(said, "kernels")


def test_without_kernels_of_our_own_the_rest_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(2)
    gpus.no_kernels = "cuModuleLoadData answered 222 (CUDA_ERROR_UNSUPPORTED_PTX_VERSION)"
    said = run(monkeypatch, gpus)
    (note,) = notes(said, "kernels")
    assert gpus.no_kernels in note.text
    assert found(said, "write_bandwidth").keys() == {("0", "1"), ("1", "0")}
    assert {m.verdict for m in found(said, "write_bandwidth").values()} == {None}
    for name in ("bytes_arrive", "kernel_write_bandwidth", "kernel_read_bandwidth"):
        assert not found(said, name), "nobody looked"
    assert not found(said, "kernel_latency")
    assert not gpus.stored


@pytest.mark.parametrize(("direct", "noted"), [(11.0, True), (50.0, False)])
def test_staging_that_wins_is_reported(
    monkeypatch: pytest.MonkeyPatch, direct: float, noted: bool
) -> None:
    gpus = ScriptedGpus(2)
    gpus.speeds = {(0, 1): [direct], (1, 0): [direct]}
    said = run(monkeypatch, gpus)
    assert found(said, "staged_bandwidth")["0", "1"].value == pytest.approx(25.0)
    texts = [note.text for note in notes(said, "staging")]
    assert texts == (
        ["0000:00:00.0 to 0000:01:00.0: 25.0 GB/s through pinned host memory, 11.0 GB/s directly: "
         "P2P gains nothing on this pair."] if noted else []
    )  # fmt: skip


def test_a_pair_without_access_never_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(2)
    gpus.denied = {(0, 1)}
    said = run(monkeypatch, gpus)
    assert found(said, "can_access")["0", "1"].verdict == "not-granted"
    assert found(said, "bytes_arrive")["0", "1"].verdict == "not-granted"
    assert gpus.stored == [(1, 0)]
    assert "staged" in found(said, "write_bandwidth")["0", "1"].engine
    assert found(said, "write_bandwidth")["1", "0"].engine == "copy engine"
    assert "staged" in found(said, "both_ways_bandwidth")["1", "0"].engine
    assert "staged" in found(said, "read_bandwidth")["0", "1"].engine
    assert found(said, "kernel_latency").keys() == {("1", "0")}


def test_lost_bytes_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(2)
    gpus.broken = {(1, 0)}
    said = run(monkeypatch, gpus)
    arrival = found(said, "bytes_arrive")["1", "0"]
    assert (arrival.verdict, arrival.wrong_bytes, arrival.first_wrong_offset) == (
        "wrong-bytes",
        77,
        5,
    )
    assert found(said, "write_bandwidth")["1", "0"].verdict == "wrong-data"
    assert found(said, "bytes_arrive")["0", "1"].verdict == "arrived"
    assert found(said, "kernel_latency").keys() == {("0", "1")}, "a pointer could lead anywhere"


def test_what_was_copied_before_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(2)
    said = run(monkeypatch, gpus)
    verified = [m for m in said if isinstance(m, MeasuredValue) and m.verdict == "verified"]
    assert len(verified) >= 9
    assert len(gpus.cleared) == len(verified)


def test_memory_is_given_back_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(2)
    run(monkeypatch, gpus)
    assert gpus.released == 1

    def fail(*of: object) -> bool:
        raise RuntimeError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(gpus, "copied_right", fail)
    with pytest.raises(RuntimeError):
        run(monkeypatch, gpus)
    assert gpus.released == 2


def test_a_low_pair_is_measured_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(3)
    gpus.large_bytes = 512 * MIB
    gpus.speeds[0, 1] = [300.0] * 5 + [395.0]
    said = run(monkeypatch, gpus)
    tries = [m for m in said if isinstance(m, MeasuredValue) and (m.name, m.src, m.dst) ==
             ("write_bandwidth", "0000:00:00.0", "0000:01:00.0")]  # fmt: skip
    assert [(m.attempt, m.value) for m in tries] == [(1, 300.0), (2, 395.0)]
    others = found(said, "write_bandwidth")
    assert others["1", "2"].attempt == 1


def test_a_restless_pair_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(2)
    gpus.large_bytes = 512 * MIB
    gpus.speeds[1, 0] = [396.0, 396.0, 396.0, 396.0, 380.0, 396.0]
    assert found(run(monkeypatch, gpus), "write_bandwidth")["1", "0"].attempt == 2


def test_quick_warms_up_until_the_link_is_awake() -> None:
    trials = iter([100.0, 200.0, 390.0, 393.0, 396.0])
    p2p_walk._until_steady(partial(next, trials), 60.0)
    assert list(trials) == [396.0], "two that agree are enough"


def test_kinds_are_compared_with_their_like() -> None:
    assert low_ones([("NV", 396.0), ("NV", 395.0), ("SYS", 24.0), ("SYS", 25.0)]) == []
    assert low_ones([("NV", 396.0), ("NV", 395.0), ("NV", 363.0)]) == [2]


def test_progress_grows_to_its_total(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [
        m for m in run(monkeypatch, ScriptedGpus(3)) if isinstance(m, Progress) and m.total > 1
    ]
    assert [m.done for m in steps] == sorted(m.done for m in steps)
    assert steps[-1].done == steps[-1].total == 6 + 3 + 6 + 1
    assert {m.total for m in steps} == {steps[-1].total}


@pytest.mark.parametrize("level", share(["quick", "normal", "full"], 2))
def test_the_self_test_takes_every_path(level: str) -> None:
    said: list[Message] = []
    p2p.run(WorkerRequest("p2p", params={"device": "cpu", "count": 2, "level": level}), said.append)
    figures = [m for m in said if isinstance(m, MeasuredValue) and m.value is not None]
    names = {m.name for m in figures}
    more = {*OTHER_PATHS, *EXTRAS} if level != "quick" else set()
    assert names == {
        "write_bandwidth",
        "both_ways_bandwidth",
        "together_bandwidth",
        "latency",
        *more,
    }
    for m in figures:
        assert m.device_kind == "cpu"
        assert m.unit == ("us" if m.name in ("latency", "kernel_latency") else "GB/s")
        assert m.minimum is not None
        assert m.maximum is not None
        assert m.value is not None
        assert 0 < m.minimum <= m.value <= m.maximum < 1e5
        assert m.verdict in (None, "verified"), m
        assert m.counted
        assert decode(encode(m)) == m
