"""Many pairs at once: the patterns, and what their figures say of the wires."""

from __future__ import annotations

import itertools

import pytest

from gputop.probes.catalog import p2p_concurrent
from gputop.probes.p2p_patterns import patterns, slots
from gputop.probes.protocol import Measurement, Message, Note, Request, decode, encode
from gputop.probes.sizing import MIB
from tests.told_gpus import H200_GBS, ToldGpus


@pytest.fixture(autouse=True)
def _no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(p2p_concurrent, "warm", lambda work, seconds: work())


def run(monkeypatch: pytest.MonkeyPatch, gpus: ToldGpus, **params: object) -> list[Message]:
    monkeypatch.setattr(p2p_concurrent, "open_backend", lambda params: gpus)
    said: list[Message] = []
    p2p_concurrent.run(Request("p2p-concurrent", params=params), said.append)
    return said


def figures(said: list[Message], name: str, variant: str) -> dict[tuple[str, str], Measurement]:
    return {
        (m.src[6:7], m.dst[6:7]): m
        for m in said
        if isinstance(m, Measurement) and (m.name, m.variant) == (name, variant)
    }


def wiring(said: list[Message]) -> Note:
    (note,) = (m for m in said if isinstance(m, Note) and m.topic == "wiring")
    return note


def ports(gpus: ToldGpus, speed: float) -> None:
    """One port for each GPU, whoever the peer is: out and in."""
    for one in range(gpus.count):
        others = [other for other in range(gpus.count) if other != one]
        gpus.shared.append(({(one, other) for other in others}, speed))
        gpus.shared.append(({(other, one) for other in others}, speed))


def test_a_switch_has_one_port_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ToldGpus(4)
    ports(gpus, H200_GBS)
    said = run(monkeypatch, gpus)
    assert "one port into a switch that does not block" in wiring(said).text
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
    gpus = ToldGpus(4)
    for pair in itertools.permutations(range(4), 2):
        gpus.speeds[pair] = [48.0]
    note = wiring(run(monkeypatch, gpus))
    assert "moves 3.0 times what one pair does: a mesh" in note.text
    assert note.details["one_to_all_times_one_pair"] == pytest.approx(3.0)


def test_a_shared_uplink_slows_the_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ToldGpus(4)
    every = set(itertools.permutations(range(4), 2))
    for pair in every:
        gpus.speeds[pair] = [25.0]
    gpus.shared = [(every, 25.0)]
    note = wiring(run(monkeypatch, gpus))
    assert "a pair keeps 25% of what it gets alone: the pairs share a path" in note.text


def test_two_groups_with_a_narrow_path_between(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ToldGpus(4)
    across = {(a, b) for a, b in itertools.permutations(range(4), 2) if (a < 2) != (b < 2)}
    for pair in itertools.permutations(range(4), 2):
        gpus.speeds[pair] = [50.0]
    gpus.shared = [(across, 50.0)]
    note = wiring(run(monkeypatch, gpus))
    assert "0000:00:00.0 0000:01:00.0 | 0000:02:00.0 0000:03:00.0" in note.text
    assert note.details["groups"] == [
        ["0000:00:00.0", "0000:01:00.0"],
        ["0000:02:00.0", "0000:03:00.0"],
    ]


@pytest.mark.parametrize(
    ("shared", "text"), [(False, "full duplex"), (True, "one path serves both directions")]
)
def test_two_gpus_have_only_each_other(
    monkeypatch: pytest.MonkeyPatch, shared: bool, text: str
) -> None:
    gpus = ToldGpus(2)
    if shared:
        gpus.shared = [({(0, 1), (1, 0)}, H200_GBS)]
    said = run(monkeypatch, gpus)
    variants = {m.variant for m in said if isinstance(m, Measurement)}
    assert variants == {"alone", "ring shift"}
    assert text in wiring(said).text


def test_flows_at_once_share_no_bytes() -> None:
    for pattern in patterns(8, "full"):
        places = slots(pattern.flows)
        sources = [(src, place[0]) for (src, _), place in zip(pattern.flows, places, strict=True)]
        targets = [(dst, place[1]) for (_, dst), place in zip(pattern.flows, places, strict=True)]
        assert len(set(sources)) == len(sources)
        assert len(set(targets)) == len(targets)
        assert max(max(place) for place in places) < 7


def test_levels_add_hubs_and_shifts(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {level: [one.name for one in patterns(4, level)] for level in
             ("quick", "normal", "full")}  # fmt: skip
    assert names["quick"] == ["ring shift", "all to one", "one to all", "all to all"]
    assert names["normal"].count("all to one") == names["normal"].count("one to all") == 4
    assert {"ring shift", "ring shift by 2", "ring shift by 3"} < set(names["full"])
    for level in ("quick", "full"):
        for pattern in patterns(5, level):
            assert all(src != dst for src, dst in pattern.flows)


def test_buffers_hold_a_part_for_every_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ToldGpus(8)
    said = run(monkeypatch, gpus, level="quick")
    _, buffer_bytes = gpus.allocated
    sizes = {m.bytes_per_copy for m in said if isinstance(m, Measurement)}
    assert max(size or 0 for size in sizes) * 7 <= buffer_bytes
    assert min(size or 0 for size in sizes) >= 32 * MIB
    everyone = max(gpus.flows, key=len)
    assert len(everyone) == 56
    assert len({(flow.src, flow.src_slot) for flow in everyone}) == 56
    assert len({(flow.dst, flow.dst_slot) for flow in everyone}) == 56
    assert set(gpus.stored) == set(itertools.permutations(range(8), 2))
    assert gpus.released == 1


def test_what_is_not_granted_is_staged_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ToldGpus(3)
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
    request = Request("p2p-concurrent", params={"device": "cpu", "count": count})
    p2p_concurrent.run(request, said.append)
    found = [m for m in said if isinstance(m, Measurement)]
    assert {m.name for m in found} == {"concurrent_bandwidth", "concurrent_total"}
    for m in found:
        assert (m.device_kind, m.unit) == ("cpu", "GB/s")
        assert m.value is not None
        assert m.minimum is not None
        assert m.maximum is not None
        assert 0 < m.minimum <= m.value <= m.maximum < 1e5
    assert wiring(said).details["ring_kept"]
