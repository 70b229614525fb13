"""Copies on held streams: what is counted, on streams that run on a scripted clock."""

from __future__ import annotations

import ctypes
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gputop.probes.devices import gpu_copies
from gputop.probes.devices.devices import Flow
from gputop.probes.devices.driver import Driver
from gputop.probes.devices.gpu_copies import Copies
from gputop.probes.devices.gpus import Gpus
from gputop.probes.devices.kernels import Kernels as OurKernels
from gputop.probes.protocol.messages import DeviceRecord
from tests.probes.devices.scripted_cuda import (
    Clock,
    ScriptedCuda,
    ScriptedStream,
    ScriptedTorch,
    copy_call,
)

MIB = 1 << 20
SPEED = 400e9


class Node:
    """Told GPUs behind the backend."""

    def __init__(self, devices: int = 2, call_seconds: float = 2e-6) -> None:
        self.clock = Clock(call_seconds)
        self.cuda = ScriptedCuda(self.clock, devices)
        self.copies = Copies(ScriptedTorch(self.cuda), copy_call(SPEED))

    def backend(self, monkeypatch: pytest.MonkeyPatch) -> Gpus:
        monkeypatch.setattr(Driver, "copy_call", lambda driver: copy_call(SPEED))
        return Gpus(ScriptedTorch(self.cuda))


def buffers(count: int = 2, size: int = MIB) -> list[torch.Tensor]:
    return [torch.randint(0, 255, (size,), dtype=torch.uint8) for _ in range(count)]


def test_queueing_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Node(call_seconds=20e-6).backend(monkeypatch)  # a copy takes an eighth of a call
    backend.allocate([0, 1], MIB)
    times = backend.flow_seconds([Flow(0, 1)], MIB, 50)
    assert list(times.each) == pytest.approx([50 * MIB / SPEED])
    assert times.together == pytest.approx(50 * MIB / SPEED)
    assert backend.copied_right(0, 1, MIB)


def test_a_hold_that_was_too_short_is_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(call_seconds=70e-6)
    backend = node.backend(monkeypatch)
    backend.allocate([0, 1], MIB)
    for _ in range(2):
        seconds = backend.flow_seconds([Flow(0, 1)], MIB, 50).together
        assert seconds == pytest.approx(50 * MIB / SPEED)
    held = [seconds for seconds in node.cuda.slept if seconds > 0.001]
    assert held[1] == pytest.approx(2 * held[0], rel=0.01)
    assert held[-1] == held[-2], "what was learnt is kept"


def test_a_call_that_blocks_is_not_held_ever_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    plain = copy_call(SPEED)

    def blocks(to: int, source: int, count: int, stream: int) -> None:
        plain(to, source, count, stream)
        node.cuda.synchronize()

    monkeypatch.setattr(Driver, "copy_call", lambda driver: blocks)
    backend = Gpus(ScriptedTorch(node.cuda))
    backend.allocate([0, 1], MIB)
    for _ in range(20):
        seconds = backend.flow_seconds([Flow(0, 1)], MIB, 50).together
        assert 50 * MIB / SPEED < seconds < 100 * MIB / SPEED, "calls included, the hold not"
    held = [seconds for seconds in node.cuda.slept if seconds > 0.001]
    assert max(held) < 0.06
    assert sum(held) < 0.2, "found out once, not each time"
    monkeypatch.setattr(backend._copies, "_copy_call", plain)
    assert backend.flow_seconds([Flow(0, 1)], MIB, 50).together < 50.1 * MIB / SPEED


def test_flows_start_together_and_have_a_clock_each(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Node(3, call_seconds=10e-6).backend(monkeypatch)
    backend.allocate([0, 1, 2], 4 * MIB)
    flows = [Flow(0, 1), Flow(1, 0, reads=True), Flow(0, 2, src_slot=1), Flow(2, 1, dst_slot=1)]
    times = backend.flow_seconds(flows, 2 * MIB, 8)
    assert list(times.each) == pytest.approx([16 * MIB / SPEED] * 4)
    assert times.together == pytest.approx(16 * MIB / SPEED)


@pytest.mark.parametrize("device", [0, 1])
def test_a_stream_that_starts_late_is_not_faster(
    monkeypatch: pytest.MonkeyPatch, device: int
) -> None:
    """Also where the hold is another device's; that device waits for nothing of its own."""
    backend = Node(4).backend(monkeypatch)
    backend.allocate([0, 1, 2, 3], 4 * MIB)
    flows = [Flow(0, 3), Flow(device, 2, src_slot=1), Flow(device, 3, src_slot=2, dst_slot=1)]
    backend.flow_seconds(flows, MIB, 1)  # creates the streams
    late = 4 * MIB / SPEED
    backend._copies.stream(device, 2 if device == 0 else 1).late_seconds = late
    times = backend.flow_seconds(flows, MIB, 8)
    assert list(times.each) == pytest.approx(
        [8 * MIB / SPEED, 8 * MIB / SPEED, 8 * MIB / SPEED + late]
    )
    assert times.together == pytest.approx(12 * MIB / SPEED)


def test_slots_are_parts_of_the_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Node(3).backend(monkeypatch)
    backend.allocate([0, 1, 2], 2 * MIB)
    backend.flow_seconds([Flow(0, 1, dst_slot=1), Flow(2, 1, src_slot=1)], MIB, 1)
    assert torch.equal(backend._into[1][MIB:], backend._out[0][:MIB])
    assert torch.equal(backend._into[1][:MIB], backend._out[2][MIB:])


def test_devices_hold_unlike_data(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Node().backend(monkeypatch)
    backend.allocate([0, 1], MIB)
    assert not torch.equal(backend._out[0], backend._out[1])
    backend.flow_seconds([Flow(0, 1)], MIB, 1)
    assert backend.copied_right(0, 1, MIB)
    backend.clear(1)
    assert not backend.copied_right(0, 1, MIB)


def test_staging_empties_one_buffer_while_the_other_fills() -> None:
    node = Node()
    source, to = buffers(2, 6 * gpu_copies.CHUNK_BYTES + 12345)
    seconds = node.copies.staged_seconds(0, 1, to, source, source.numel())
    assert torch.equal(source, to)
    chunk = gpu_copies.CHUNK_BYTES / SPEED
    assert seconds == pytest.approx(7 * chunk, rel=0.1), "not twelve: two directions at once"


def test_without_the_drivers_call_torch_copies() -> None:
    cuda = ScriptedCuda(Clock())
    copies = Copies(ScriptedTorch(cuda), None)
    source, to = buffers()
    copies.queue_copy(to, source, copies.stream(0), copies.stream(1))
    assert torch.equal(source, to)


class Kernels:
    """Kernels of our own, on the scripted clock."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.closed = False
        self.wrong = 0

    def copy(self, index: int, to: int, source: int, size: int, stream: Any, passes: int) -> None:
        self.asked.append(("copy", index))
        ctypes.memmove(to, source, size)
        stream.run(passes * size / 200e9)

    def chase(self, index: int, ring: int, hops: int, end: int, stream: Any) -> None:
        self.asked.append(("chase", index))
        words = ctypes.cast(ring, ctypes.POINTER(ctypes.c_ulonglong))
        at = 0
        for _ in range(hops):
            at = words[at]
        ctypes.cast(end, ctypes.POINTER(ctypes.c_ulonglong))[0] = at + self.wrong
        stream.run(hops * 0.7e-6)

    def close(self) -> None:
        self.closed = True


def test_kernels_run_where_the_doer_is(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, kernels = Node().backend(monkeypatch), Kernels()
    backend.allocate([0, 1], MIB)
    backend._kernels, backend.no_kernels = kernels, None  # type: ignore[assignment]
    for reads, doer in ((False, 0), (True, 1)):
        seconds = backend.kernel_seconds(Flow(0, 1, reads=reads), MIB, 16)
        assert seconds == pytest.approx(16 * MIB / 200e9)
        assert kernels.asked[-1] == ("copy", doer)
        assert backend.copied_right(0, 1, MIB)
    assert backend.chase_seconds(1, 0, 20_000) == pytest.approx(0.014)
    assert kernels.asked[-1] == ("chase", 1)
    assert backend.kernel_engine == "kernel"
    kernels.wrong = 1
    with pytest.raises(RuntimeError, match="ended at word"):
        backend.chase_seconds(1, 0, 100)
    backend.release()
    assert kernels.closed


def test_without_kernels_torchs_own_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Node().backend(monkeypatch)
    monkeypatch.setattr(OurKernels, "open_or_why", lambda torch, indices: "no NVRTC")
    backend.allocate([0, 1], MIB)
    backend.open_kernels([0, 1])
    assert backend.no_kernels == "no NVRTC"
    assert backend.kernel_engine == "kernel, by torch copy_"
    assert backend.kernel_seconds(Flow(0, 1), MIB, 2) is not None
    words = backend._out[0].view(torch.int32).view(-1, 2, 64)
    came = backend._into[1].view(torch.int32).view(2, -1, 64).transpose(0, 1)
    assert torch.equal(came, words)
    assert backend.copied_right(0, 1, MIB), "a sum does not mind the order"
    assert backend.kernel_seconds(Flow(0, 1, reads=True), MIB, 2) is None
    assert backend.chase_seconds(0, 1, 100) is None


def test_release_gives_everything_back(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    backend = node.backend(monkeypatch)
    backend.release()
    assert node.cuda.emptied == 0, "nothing was allocated"
    backend.allocate([0, 1], MIB)
    backend.staged_seconds(0, 1, MIB)

    def fail(index: int | None = None) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(node.cuda, "synchronize", fail)
    backend.release()
    assert not backend._out
    assert not backend._into
    assert not backend._copies._host
    assert node.cuda.emptied == 1


def test_contexts_are_created_at_the_same_time() -> None:
    driver = Driver(False)
    meeting = threading.Barrier(3, timeout=60)
    opened: list[int] = []

    def retain(place: Any, handle: int) -> int:
        meeting.wait()  # broken unless three are under way at once
        opened.append(handle)
        return 0

    def get(place: Any, index: int) -> int:
        place._obj.value = index
        return 0

    driver._library = {"cuDevicePrimaryCtxRetain": retain, "cuDeviceGet": get}
    driver.open_contexts([0, 2, 3])
    assert sorted(opened) == [0, 2, 3]


def test_a_stream_is_kept_for_its_device() -> None:
    copies = Node().copies
    assert copies.stream(0) is copies.stream(0)
    assert copies.stream(0) is not copies.stream(0, 1)
    assert isinstance(copies.stream(1), ScriptedStream)
    assert copies.stream(1).device == 1


def test_partitions_of_one_address_have_keys_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    places = ["0000:05:00.0", "0000:05:00.0", "0000:26:00.0"]
    monkeypatch.setattr(
        Gpus, "_record", lambda self, index: DeviceRecord(places[index], index, "MI300X")
    )
    backend = object.__new__(Gpus)
    backend._torch = SimpleNamespace(cuda=SimpleNamespace(device_count=lambda: 3))
    keys = [record.key for record in backend.devices()]
    assert keys == ["0000:05:00.0/0", "0000:05:00.0/1", "0000:26:00.0"]
