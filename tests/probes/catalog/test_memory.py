"""Device memory: what is done to it, how its bytes are counted, that it was done at all."""

from __future__ import annotations

import pytest

from gputop.probes.catalog import memory
from gputop.probes.engine.memory_work import OPERATIONS, TRIAD, CpuArrays
from gputop.probes.protocol.messages import (
    DeviceRecord,
    MeasuredValue,
    Message,
    Progress,
    WorkerRequest,
    decode,
    encode,
)
from gputop.probes.protocol.sizing import GIB, MIB
from gputop.probes.protocol.spec import ProbeStopped


def run(**params: object) -> list[Message]:
    said: list[Message] = []
    request = WorkerRequest("memory", params={"device": "cpu", "count": 2, "samples": 3, **params})
    memory.run(request, said.append)
    assert [decode(encode(message)) for message in said] == said
    return said


def test_the_self_test_gives_every_figure_of_every_device() -> None:
    said = run(level="quick")
    found = {(m.name, m.src, m.variant): m for m in said if isinstance(m, MeasuredValue)}
    assert found.keys() == {
        (operation.quantity.key, f"cpu:{i}", operation.variant)
        for operation in OPERATIONS
        for i in (0, 1)
    }
    for figure in found.values():
        assert figure.value is not None
        assert 0.01 < figure.value < 10_000
        assert (figure.unit, figure.dst, figure.device_kind) == ("GB/s", "", "cpu")
        assert figure.verdict == "verified"
    assert {name: m.counted for (name, _, _), m in found.items()} == {
        "memory_copy": "bytes read + bytes written",
        "memory_read": "bytes read",
        "memory_write": "bytes written",
        "memory_triad": "bytes read + bytes written",
    }
    copy = found["memory_copy", "cpu:0", "driver copy"]
    assert copy.details["copied_gbs"] == pytest.approx((copy.value or 0) / 2, abs=1e-3)
    last = [m for m in said if isinstance(m, Progress)][-1]
    assert last.done == last.total == 2 * len(OPERATIONS)


def test_a_device_whose_memory_is_wrong_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CpuArrays, "is_right", lambda self, operation, size: operation != TRIAD)
    said = [m for m in run(level="quick", count=1) if isinstance(m, MeasuredValue)]
    assert {m.verdict for m in said if m.name == "memory_triad"} == {"wrong-data"}
    assert {m.verdict for m in said if m.name != "memory_triad"} == {"verified"}


def test_arrays_go_when_a_kernel_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[CpuArrays] = []
    monkeypatch.setattr(CpuArrays, "close", lambda self: closed.append(self))
    monkeypatch.setattr(CpuArrays, "seconds", lambda self, *rest: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        run(level="quick", count=1)
    assert len(closed) == 1


def test_sizes_leave_a_fifth_free() -> None:
    gpu = DeviceRecord("0000:06:00.0", 0, "GPU", memory_bytes=141 * GIB, free_bytes=140 * GIB)

    def sizes(level: str, free: int, forced: bool = False) -> tuple[int, ...]:
        device = DeviceRecord(gpu.key, 0, "GPU", memory_bytes=141 * GIB, free_bytes=free)
        return memory.fitting_sizes(level, device, forced=forced)

    fifth = 141 * GIB // 5
    assert sizes("full", 140 * GIB) == (512 * MIB, 2 * GIB, 8 * GIB)
    assert sizes("full", fifth + 7 * GIB) == (512 * MIB, 2 * GIB)
    assert sizes("normal", fifth + 2 * GIB) == (512 * MIB,)
    assert sizes("quick", fifth + GIB) == (256 * MIB,)
    assert sizes("quick", 3 * GIB, forced=True) == (512 * MIB,)
    with pytest.raises(ProbeStopped, match=f"leaves {fifth // MIB} MiB free"):
        sizes("quick", fifth)
    with pytest.raises(ProbeStopped, match="leaves 256 MiB free"):
        sizes("quick", GIB // 4, forced=True)
