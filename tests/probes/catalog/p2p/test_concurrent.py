"""Many pairs at once: the patterns, and what their figures say of the wires."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from gputop.probes.catalog.p2p import concurrent as p2p_concurrent
from gputop.probes.devices import opened
from gputop.probes.devices.devices import Flow, FlowTimes
from gputop.probes.protocol.messages import (
    MeasuredValue,
    Message,
    Note,
    WorkerRequest,
    decode,
    encode,
)
from gputop.probes.protocol.sizing import MIB
from tests.probes.scripted_gpus import H200_GBS, ScriptedGpus


@pytest.fixture(autouse=True)
def _no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(p2p_concurrent, "warm", lambda work, seconds: work())


def run(monkeypatch: pytest.MonkeyPatch, gpus: ScriptedGpus, **params: object) -> list[Message]:
    monkeypatch.setattr(opened, "open_backend", lambda params: gpus)
    said: list[Message] = []
    p2p_concurrent.run(WorkerRequest("p2p-concurrent", params=params), said.append)
    return said


def figures(said: list[Message], name: str, variant: str) -> dict[tuple[str, str], MeasuredValue]:
    return {
        (m.src[6:7], m.dst[6:7]): m
        for m in said
        if isinstance(m, MeasuredValue) and (m.name, m.variant) == (name, variant)
    }


def wiring(said: list[Message]) -> Note:
    (note,) = (m for m in said if isinstance(m, Note) and m.topic == "wiring")
    return note


def ports(gpus: ScriptedGpus, speed: float) -> None:
    """One port for each GPU, whoever the peer is: out and in."""
    for one in range(gpus.count):
        others = [other for other in range(gpus.count) if other != one]
        gpus.shared.append(({(one, other) for other in others}, speed))
        gpus.shared.append(({(other, one) for other in others}, speed))


def test_a_switch_has_one_port_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(4)
    ports(gpus, H200_GBS)
    said = run(monkeypatch, gpus)
    assert "one port into a switch, or a host bridge, that does not block" in wiring(said).text
    hub = "one to all (0000:00:00.0)"
    to_all = figures(said, "concurrent_bandwidth", hub)
    assert to_all.keys() == {("0", "1"), ("0", "2"), ("0", "3")}
    assert to_all["0", "2"].value == pytest.approx(H200_GBS / 3, abs=0.01)
    assert figures(said, "concurrent_total", hub)["0", ""].value == pytest.approx(H200_GBS)
    to_one = figures(said, "concurrent_total", "all to one (0000:02:00.0)")
    assert to_one["", "2"].value == pytest.approx(H200_GBS)
    ring = figures(said, "concurrent_total", "ring shift")["", ""]
    assert ring.value == pytest.approx(4 * H200_GBS)
    assert ring.details == {"pairs": 4}
    everyone = figures(said, "concurrent_bandwidth", "all to all")
    assert len(everyone) == 12
    for m in said:
        assert decode(encode(m)) == m


def test_a_mesh_has_a_link_for_each_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(4)
    for pair in itertools.permutations(range(4), 2):
        gpus.speeds[pair] = [48.0]
    said = run(monkeypatch, gpus)
    note = wiring(said)
    every = figures(said, "concurrent_bandwidth", "all to all")
    assert {m.details["schedule"] for m in every.values()} == {"at once"}
    assert all(m.direction.endswith("all to all at once") for m in every.values())
    assert "moves 3.0 times what one pair does: a mesh" in note.text
    assert note.details["one_to_all_times_one_pair"] == pytest.approx(3.0)
    assert note.details["schedule"] == "at once"
    assert max(map(len, gpus.flows)) == 12, "links of its own for each peer want a stream each"


def test_a_shared_uplink_slows_the_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(4)
    every = set(itertools.permutations(range(4), 2))
    for pair in every:
        gpus.speeds[pair] = [25.0]
    gpus.shared = [(every, 25.0)]
    note = wiring(run(monkeypatch, gpus))
    assert "a pair keeps 25 % of what it gets alone: the pairs share a path" in note.text


GROUPS = [
    (4, [[0, 1], [2, 3]]),
    (4, [[0, 2], [1, 3]]),
    (6, [[0, 1, 2], [3, 4, 5]]),
    (8, [[0, 1, 2, 3], [4, 5, 6, 7]]),
    (8, [[0, 1], [2, 3], [4, 5], [6, 7]]),
]


@pytest.mark.parametrize("alone", [50.0, 20.0])
@pytest.mark.parametrize(("count", "groups"), GROUPS)
def test_groups_with_a_narrow_path_between(
    monkeypatch: pytest.MonkeyPatch, count: int, groups: list[list[int]], alone: float
) -> None:
    """An uplink out of each group and into it, as wide as one GPU's slot, or narrower."""
    gpus = ScriptedGpus(count)
    for pair in itertools.permutations(range(count), 2):
        gpus.speeds[pair] = [50.0]
    ports(gpus, 50.0)
    for group in groups:
        others = [gpu for gpu in range(count) if gpu not in group]
        gpus.shared.append((set(itertools.product(group, others)), alone))
        gpus.shared.append((set(itertools.product(others, group)), alone))
    note = wiring(run(monkeypatch, gpus))
    keys = [[f"0000:0{gpu}:00.0" for gpu in group] for group in groups]
    assert note.details["groups"] == keys
    assert " | ".join(" ".join(group_keys) for group_keys in keys) in note.text
    assert "and only those: the groups share a narrower path to each other." in note.text


class Unfair(ScriptedGpus):
    """Each GPU has one port, and serves its streams one after the other, in no fair order."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        ports(self, H200_GBS)
        self.random = random.Random(4)

    def flow_seconds(self, flows: Sequence[Flow], size_bytes: int, copies: int) -> FlowTimes:
        self.flows.append(tuple(flows))
        ends: dict[Flow, tuple[float, ...]] = {}
        for doer in {flow.doer for flow in flows}:
            mine = [flow for flow in flows if flow.doer == doer]
            self.random.shuffle(mine)
            pieces = [size_bytes * (1 + done) / H200_GBS / 1e9 for done in range(copies)]
            for place, flow in enumerate(mine):
                before = place * pieces[-1]
                ends[flow] = tuple(before + piece for piece in pieces)
        return FlowTimes(tuple(ends[flow] for flow in flows))


@pytest.mark.parametrize("level", ["quick", "normal"])
@pytest.mark.parametrize("count", [3, 4, 8])
def test_unfair_copy_engines_are_no_groups(
    monkeypatch: pytest.MonkeyPatch, count: int, level: str
) -> None:
    said = run(monkeypatch, Unfair(count), level=level)
    assert "one port into a switch, or a host bridge, that does not block" in wiring(said).text
    assert wiring(said).details["groups"] == []
    shares = figures(said, "concurrent_bandwidth", "one to all (0000:00:00.0)")
    for share in shares.values():
        assert share.value == pytest.approx(H200_GBS / (count - 1), abs=0.01)
        assert "its share until all are done" in share.direction
    every = figures(said, "concurrent_bandwidth", "all to all")
    assert len(every) == count * (count - 1)
    for ends in every.values():
        assert ends.value == pytest.approx(H200_GBS, abs=0.01)
        assert "all to all in phases: each GPU to one other" in ends.direction
        assert ends.details == {"schedule": "in phases"}
    total = figures(said, "concurrent_total", "all to all")["", ""]
    assert total.value == pytest.approx(count * H200_GBS, abs=0.1)
    assert total.details == {"pairs": count * (count - 1), "schedule": "in phases"}


@pytest.mark.parametrize("count", [3, 4, 8])
def test_a_phase_has_one_writer_for_each_receiver(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    gpus = ScriptedGpus(count)
    ports(gpus, H200_GBS)
    said = run(monkeypatch, gpus, level="quick")
    assert not [flows for flows in gpus.flows if len(flows) > count], "no stream for each pair"
    calls = 4  # a first copy of each, and three samples
    tail = gpus.flows[-(count - 1) * calls :]
    seen = []
    for start in range(0, len(tail), calls):
        (phase,) = set(tail[start : start + calls])
        assert len({flow.src for flow in phase}) == len({flow.dst for flow in phase}) == count
        assert not any(flow.src_slot or flow.dst_slot for flow in phase)
        seen += [(flow.src, flow.dst) for flow in phase]
    assert sorted(seen) == list(itertools.permutations(range(count), 2))
    sizes = {
        variant: {
            (m.bytes_per_copy, m.copies_per_sample)
            for m in figures(said, "concurrent_bandwidth", variant).values()
        }
        for variant in ("ring shift", "all to all")
    }
    assert sizes["all to all"] == sizes["ring shift"]


def test_a_slow_pair_holds_up_its_phase_only(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(4)
    ports(gpus, H200_GBS)
    gpus.speeds[0, 1] = [50.0]
    said = run(monkeypatch, gpus)
    for ends, one in figures(said, "concurrent_bandwidth", "all to all").items():
        assert one.value == pytest.approx(50.0 if ends == ("0", "1") else H200_GBS, abs=0.01)
    total = figures(said, "concurrent_total", "all to all")["", ""]
    assert total.value == pytest.approx(12 / (1 / 50.0 + 2 / H200_GBS), abs=0.1)
    assert total.direction.endswith("in phases one after the other, each until its last is done")


@pytest.mark.parametrize(
    ("shared", "text"), [(False, "full duplex"), (True, "one path serves both directions")]
)
def test_two_gpus_have_only_each_other(
    monkeypatch: pytest.MonkeyPatch, shared: bool, text: str
) -> None:
    gpus = ScriptedGpus(2)
    if shared:
        gpus.shared = [({(0, 1), (1, 0)}, H200_GBS)]
    said = run(monkeypatch, gpus)
    variants = {m.variant for m in said if isinstance(m, MeasuredValue)}
    assert variants == {"alone", "ring shift"}
    assert text in wiring(said).text


def test_buffers_hold_a_part_for_every_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(8)  # a mesh
    said = run(monkeypatch, gpus, level="quick")
    _, buffer_bytes = gpus.allocated
    sizes = {m.bytes_per_copy for m in said if isinstance(m, MeasuredValue)}
    assert max(size or 0 for size in sizes) * 7 <= buffer_bytes
    assert min(size or 0 for size in sizes) >= 32 * MIB
    everyone = max(gpus.flows, key=len)
    assert len(everyone) == 56
    assert len({(flow.src, flow.src_slot) for flow in everyone}) == 56
    assert len({(flow.dst, flow.dst_slot) for flow in everyone}) == 56
    assert set(gpus.stored) == set(itertools.permutations(range(8), 2))
    assert gpus.released == 1


def test_what_is_not_granted_is_staged_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(3)
    gpus.denied = {(0, 1)}
    said = run(monkeypatch, gpus, level="quick")
    ring = figures(said, "concurrent_bandwidth", "ring shift")
    assert "staged" in ring["0", "1"].engine
    assert ring["1", "2"].engine == "copy engine"
    assert "staged" in figures(said, "concurrent_total", "ring shift")["", ""].engine
    assert (0, 1) not in gpus.stored


@pytest.mark.parametrize("count", [2, 4])
def test_the_self_test_runs_threads_at_once(count: int) -> None:
    said: list[Message] = []
    request = WorkerRequest("p2p-concurrent", params={"device": "cpu", "count": count})
    p2p_concurrent.run(request, said.append)
    found = [m for m in said if isinstance(m, MeasuredValue)]
    assert {m.name for m in found} == {"concurrent_bandwidth", "concurrent_total"}
    for m in found:
        assert (m.device_kind, m.unit) == ("cpu", "GB/s")
        assert m.value is not None
        assert m.minimum is not None
        assert m.maximum is not None
        assert 0 < m.minimum <= m.value <= m.maximum < 1e5
    assert wiring(said).details["ring_kept"]
