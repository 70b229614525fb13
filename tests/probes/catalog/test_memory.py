"""Device memory: what is done to it, how its bytes are counted, that it was done at all."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from gputop.probes.catalog import memory
from gputop.probes.devices import memory_work
from gputop.probes.devices.memory_work import (
    DRIVER_COPY,
    KERNEL_COPY,
    OPERATIONS,
    READ,
    TRIAD,
    WRITE,
    Arrays,
)
from gputop.probes.protocol.messages import (
    DeviceRecord,
    MeasuredValue,
    Message,
    Progress,
    Request,
    decode,
    encode,
)
from gputop.probes.protocol.sizing import GIB, MIB
from gputop.probes.protocol.spec import ProbeStopped

torch = pytest.importorskip("torch")


def run(**params: object) -> list[Message]:
    said: list[Message] = []
    request = Request("memory", params={"device": "cpu", "count": 2, "samples": 3, **params})
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


def test_bytes_are_counted_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = Arrays(torch, 0, MIB, None, cpu=True)
    monkeypatch.setattr(Arrays, "_seconds", lambda self, work, times: times * 1e-3)
    figures = {op: arrays.measure(op, MIB, 4, 3, 0.0).median for op in OPERATIONS}
    once = MIB / 1e-3 / 1e9
    assert figures == {
        DRIVER_COPY: pytest.approx(2 * once),
        KERNEL_COPY: pytest.approx(2 * once),
        READ: pytest.approx(once),
        WRITE: pytest.approx(once),
        TRIAD: pytest.approx(3 * once),
    }


@pytest.mark.parametrize("operation", [DRIVER_COPY, KERNEL_COPY, WRITE, TRIAD])
def test_what_leaves_something_out_is_found(
    operation: memory_work.MemoryOperation, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = Arrays(torch, 0, MIB, None, cpu=True)
    assert arrays.is_right(operation, MIB)
    work = Arrays._work

    def shorter(self: Arrays, operation: memory_work.MemoryOperation, size_bytes: int) -> Any:
        return work(self, operation, size_bytes - 16)

    monkeypatch.setattr(Arrays, "_work", shorter)
    assert not arrays.is_right(operation, MIB)


def test_a_sum_by_torch_is_looked_at_too(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(5)
    arrays = Arrays(torch, 0, MIB, None, cpu=True)
    assert arrays.is_right(READ, MIB)
    work = Arrays._work
    monkeypatch.setattr(Arrays, "_work", lambda self, op, size: work(self, op, size // 2))
    assert not arrays.is_right(READ, MIB)


class ScriptedKernels:
    """Reads on the host what the kernel would read on the GPU; leaves out `lost` words."""

    def __init__(self, lost: int = 0) -> None:
        self.lost = lost

    def read(self, index: int, source: int, size_bytes: int, total: int, stream: object) -> None:
        words = (ctypes.c_uint32 * (size_bytes // 4 - self.lost)).from_address(source)
        ctypes.c_uint32.from_address(total).value += sum(words) & 0xFFFFFFFF


@pytest.mark.parametrize(("lost", "right"), [(0, True), (1, False)])
def test_the_sum_of_all_words_is_held_against_the_kernel_s(lost: int, right: bool) -> None:
    arrays = Arrays(torch, 0, 64 * 1024, ScriptedKernels(lost), cpu=True)  # type: ignore[arg-type]
    assert arrays.is_right(READ, 64 * 1024) is right


def test_a_device_whose_memory_is_wrong_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arrays, "is_right", lambda self, operation, size: operation is not TRIAD)
    said = [m for m in run(level="quick", count=1) if isinstance(m, MeasuredValue)]
    assert {m.verdict for m in said if m.name == "memory_triad"} == {"wrong-data"}
    assert {m.verdict for m in said if m.name != "memory_triad"} == {"verified"}


def test_arrays_go_when_a_kernel_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Arrays] = []
    monkeypatch.setattr(Arrays, "close", lambda self: closed.append(self))
    monkeypatch.setattr(Arrays, "measure", lambda self, *rest: 1 // 0)
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
