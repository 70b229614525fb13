"""Copies between host and devices: which are made, what is said of them, what is left behind."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

from gputop.probes.catalog.host import probe as host
from gputop.probes.devices import numa
from gputop.probes.devices.devices import Versions
from gputop.probes.engine.host_copies import Copy, CpuCopier
from gputop.probes.engine.host_memory import HostBuffer
from gputop.probes.protocol.messages import (
    DeviceRecord,
    Hello,
    MeasuredValue,
    Message,
    Note,
    Progress,
    WorkerRequest,
    decode,
    encode,
)
from gputop.probes.protocol.sizing import GIB, MIB
from gputop.probes.protocol.spec import ProbeStopped


def run(**params: object) -> list[Message]:
    said: list[Message] = []
    host.run(WorkerRequest("host", params={"device": "cpu", "count": 2, **params}), said.append)
    assert [decode(encode(message)) for message in said] == said
    return said


def figures(said: list[Message]) -> dict[tuple[str, str, str], MeasuredValue]:
    return {(m.name, m.src, m.variant): m for m in said if isinstance(m, MeasuredValue)}


def test_quick_is_pinned_memory_alone_and_all_at_once() -> None:
    said = run(level="quick")
    assert any(isinstance(message, Hello) for message in said[:4])
    found = figures(said)
    pinned = {(name, f"cpu:{i}", "pinned") for name in NAMES for i in (0, 1)}
    at_once = {
        (name, key, "pinned, all GPUs at once") for name in NAMES for key in ("cpu:0", "cpu:1", "")
    }
    assert found.keys() == pinned | at_once
    for figure in found.values():
        assert figure.value is not None
        assert 0.01 < figure.value < 10_000
        assert (figure.unit, figure.counted) == ("GB/s", "bytes copied, once")
        assert (figure.dst, figure.device_kind, figure.engine) == ("", "cpu", "host memcpy")
        assert figure.minimum is not None
        assert figure.maximum is not None
        assert figure.minimum <= figure.value <= figure.maximum
    assert all(found[key].verdict == "verified" for key in pinned)
    steps = [m for m in said if isinstance(m, Progress) and m.total > 1]
    assert steps[-1].done == steps[-1].total
    assert all(step.done <= step.total for step in steps)


NAMES = ("h2d_bandwidth", "d2h_bandwidth")


def test_normal_adds_both_ways_and_pageable() -> None:
    found = figures(run(level="normal", count=1))
    variants = {"pinned", "pinned, both ways", "pageable"}
    if len(numa.nodes()) > 1:
        variants |= {f"pinned, NUMA node {node}" for node in numa.nodes()}
    assert {variant for _, _, variant in found} == variants
    both = [found[name, "cpu:0", "pinned, both ways"] for name in NAMES]
    assert both[0].details["together_gbs"] == both[1].details["together_gbs"] > 0
    assert both[0].bytes_per_copy == 4 * MIB


def test_each_node_is_measured_from_its_own_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    cpus = frozenset(os.sched_getaffinity(0))
    monkeypatch.setattr(numa, "nodes", lambda: {0: cpus, 1: frozenset([min(cpus)])})
    used: list[set[int]] = []
    ends = CpuCopier.ends

    def watched(self: CpuCopier, copies: Sequence[Copy], times: int) -> Any:
        used.append(os.sched_getaffinity(0))
        return ends(self, copies, times)

    monkeypatch.setattr(CpuCopier, "ends", watched)
    found = figures(run(level="normal", count=1))
    assert ("h2d_bandwidth", "cpu:0", "pinned, NUMA node 0") in found
    assert ("d2h_bandwidth", "cpu:0", "pinned, NUMA node 1") in found
    assert {min(cpus)} in used
    assert os.sched_getaffinity(0) == cpus


@pytest.mark.parametrize("params", [{"samples": 2}, {"samples": "5"}, {"level": "most"}])
def test_what_makes_no_sense_is_refused(params: dict[str, object]) -> None:
    with pytest.raises(ProbeStopped) as caught:
        run(**params)
    assert caught.value.error == "refused"


def test_everything_is_freed_when_a_copy_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []
    close = HostBuffer.close

    def watched(self: HostBuffer) -> None:
        closed.append(self.memory.size_bytes)
        close(self)

    monkeypatch.setattr(HostBuffer, "close", watched)
    monkeypatch.setattr(CpuCopier, "ends", lambda *a: (_ for _ in ()).throw(RuntimeError("lost")))
    with pytest.raises(RuntimeError, match="lost"):
        run(level="quick")
    assert closed == [8 * MIB] * 3, "one on the host, and one for each made-up device"


class FullGpus:
    """GPUs that have no room."""

    kind = "gpu"
    no_kernels = None

    def __init__(self, free_bytes: int) -> None:
        self.free = free_bytes

    def versions(self) -> Versions:
        return Versions(cuda="12.8")

    def devices(self) -> tuple[DeviceRecord, ...]:
        return (DeviceRecord("0000:06:00.0", 0, "GPU", "0000:06:00.0", None, 141 * GIB),)

    def open(self, indices: Sequence[int]) -> None:
        pass

    def free_bytes(self, index: int) -> int:
        return self.free


def test_memory_is_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "gputop.probes.devices.opened.open_backend", lambda *asked: FullGpus(28 * GIB)
    )
    with pytest.raises(ProbeStopped, match="28672 MiB free"):
        host.run(WorkerRequest("host"), lambda message: None)
    monkeypatch.setattr(
        "gputop.probes.devices.opened.open_backend", lambda *asked: FullGpus(140 * GIB)
    )
    monkeypatch.setattr(host, "host_free_bytes", lambda: 200 * MIB)
    with pytest.raises(ProbeStopped, match="200 MiB of host memory are free"):
        host.run(WorkerRequest("host"), lambda message: None)


def test_a_note_where_another_node_is_nearer() -> None:
    said: list[Message] = []
    nodes = {0: frozenset([0]), 1: frozenset([1])}
    found = {
        ("0000:06:00.0", "h2d_bandwidth"): {0: 40.0, 1: 55.0},
        ("0000:07:00.0", "h2d_bandwidth"): {0: 55.0, 1: 54.0},
        ("0000:08:00.0", "h2d_bandwidth"): {0: 20.0, 1: 55.0},
    }
    own = {"0000:06:00.0": 0, "0000:07:00.0": 0, "0000:08:00.0": None}
    host._compare_nodes(found, own, nodes, said.append)
    (note,) = said
    assert isinstance(note, Note)
    assert "0000:06:00.0: 55.0 GB/s to it from node 1, 40.0 from node 0" in note.text
    assert [figure["device"] for figure in note.details["figures"]] == ["0000:06:00.0"]


def test_figures_are_told_while_they_grow() -> None:
    said = run(level="quick", count=1, samples=4)
    ends = [place for place, m in enumerate(said) if isinstance(m, MeasuredValue)][:2]
    assert len(ends) == 2
    for before, end in zip([0, ends[0]], ends, strict=True):
        early = [m.what for m in said[before:end] if isinstance(m, Progress)]
        shown = [what for what in early if what.startswith("cpu:0, pinned memory: ")]
        assert len(shown) == 3, early
        assert all(what.endswith(" GB/s so far") for what in shown)
