"""What host copies are made of: memory, nodes, held streams, rates."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gputop.probes.catalog.host.report import Level
from gputop.probes.devices import numa
from gputop.probes.devices.held import HeldStreams, StreamWork, rates
from gputop.probes.devices.host_copies import Copy, CpuCopier, comes_back
from gputop.probes.devices.host_memory import HostBuffer
from gputop.probes.devices.opened import host_free_bytes, largest_fitting
from gputop.probes.protocol.messages import DeviceRecord
from gputop.probes.protocol.sizing import GIB, MIB, spare_bytes

torch = pytest.importorskip("torch")


def test_what_a_gpu_and_a_host_can_spare(tmp_path: Path) -> None:
    gpu = DeviceRecord("a", 0, "GPU", memory_bytes=100 * GIB, free_bytes=21 * GIB)
    assert spare_bytes(gpu, forced=False) == GIB
    small = dataclasses.replace(gpu, memory_bytes=2 * GIB, free_bytes=2 * GIB)
    assert spare_bytes(small, forced=False) == GIB
    assert spare_bytes(small, forced=True) == 2 * GIB - 256 * MIB
    assert largest_fitting((2 * GIB, GIB, MIB), [gpu, small], forced=False) == GIB
    assert largest_fitting((2 * GIB,), [gpu], forced=False) is None
    info = tmp_path / "meminfo"
    info.write_text("MemTotal: 9999999 kB\nMemAvailable: 4194304 kB\n")
    (tmp_path / "memory.max").write_text("3221225472\n")
    (tmp_path / "memory.current").write_text("2147483648\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 536870912\n")
    group = (tmp_path, "memory.max", "memory.current")
    assert host_free_bytes(info, [group]) == GIB + 512 * MIB
    (tmp_path / "memory.max").write_text("max\n")
    assert host_free_bytes(info, [group]) == 4 * GIB


def test_a_slow_link_gets_shorter_and_then_fewer_copies() -> None:
    level = Level(5, 16, 0.4, 0.0, 64 * MIB)
    assert level.plan(512 * MIB, 55e9) == (512 * MIB, 16)
    assert level.plan(512 * MIB, 12e9) == (256 * MIB, 16)
    assert level.plan(512 * MIB, 3e9) == (64 * MIB, 16)
    assert level.plan(512 * MIB, 0.2e9) == (64 * MIB, 4)


def test_rates_leave_out_what_one_lane_did_alone() -> None:
    fast = [0.01, 0.02, 0.03, 0.04]
    slow = [0.02, 0.04, 0.05, 0.06]  # twice as fast once the other was done
    assert rates([fast, slow], [10**9, 10**9]) == pytest.approx((100.0, 50.0))
    assert rates([[0.01], [0.04]], [10**9, 10**9]) == pytest.approx((100.0, 25.0))


def test_wrong_bytes_do_not_come_back_right() -> None:
    class Losing(CpuCopier):
        """Leaves out the last word of every copy to the device."""

        def ends(self, copies: Sequence[Copy], times: int) -> tuple[tuple[float, ...], ...]:
            (copy,) = copies
            if copy.to_device:
                copy = Copy(0, True, copy.host[:-8], copy.device[:-8])
            return super().ends([copy], times)

    made = torch.zeros(MIB, dtype=torch.uint8), torch.zeros(MIB, dtype=torch.uint8)
    assert comes_back(torch, CpuCopier(torch), 0, *made)
    assert not comes_back(torch, Losing(torch), 0, *made)


class ScriptedDriver:
    """Pins nothing, remembers everything."""

    def __init__(self, refuses: str = "") -> None:
        self.calls: list[tuple[str, int]] = []
        self.refuses = refuses
        self.memory = (ctypes.c_uint8 * MIB)()

    def __getitem__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            if name == self.refuses:
                return 304
            if name == "cuMemHostAlloc":
                arguments[0]._obj.value = ctypes.addressof(self.memory)
            address = ctypes.addressof(self.memory) if name == "cuMemHostAlloc" else arguments[0]
            self.calls.append((name, getattr(address, "value", address)))
            return 0

        return call


class ScriptedTorch:
    """A CUDA torch, as far as host memory wants to know."""

    uint8 = torch.uint8
    frombuffer = staticmethod(torch.frombuffer)

    class version:  # noqa: N801
        hip = None


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("pinned", ["cuMemHostAlloc", "cuMemFreeHost"]),
        ("registered", ["cuMemHostRegister_v2", "cuMemHostUnregister"]),
        ("pageable", []),
    ],
)
def test_what_is_pinned_is_let_go(kind: str, names: list[str]) -> None:
    driver = ScriptedDriver()
    buffer = HostBuffer(ScriptedTorch, driver, kind, MIB)
    address = buffer.address
    assert buffer.tensor.numel() == MIB
    buffer.close()
    buffer.close()
    assert driver.calls == [(name, address) for name in names]


def test_memory_that_cannot_be_pinned_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="cuMemHostRegister_v2 answered error 304"):
        HostBuffer(ScriptedTorch, ScriptedDriver("cuMemHostRegister_v2"), "registered", MIB)


def test_nodes_and_their_cpus(tmp_path: Path) -> None:
    here = sorted(os.sched_getaffinity(0))
    for node, cpus in ((0, f"{here[0]}"), (1, "4000-4003"), (10, f"{here[-1]},4000-4001"), (2, "")):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(cpus + "\n")
    assert numa.nodes(tmp_path) == {0: frozenset(here[:1]), 10: frozenset(here[-1:])}
    assert numa.cpu_list("0-3,8,10-11\n") == {0, 1, 2, 3, 8, 10, 11}
    for text, known in (("1", 1), ("-1", None)):
        (tmp_path / "0000:06:00.0").mkdir(exist_ok=True)
        (tmp_path / "0000:06:00.0" / "numa_node").write_text(text + "\n")
        assert numa.node_of("0000:06:00.0", tmp_path) == known
    assert numa.node_of(None, tmp_path) is None


def test_work_on_cpus_leaves_this_thread_alone() -> None:
    before = os.sched_getaffinity(0)
    one = {min(before)}
    threads = threading.active_count()
    assert numa.on_cpus(one, lambda: os.sched_getaffinity(0)) == one
    with pytest.raises(ZeroDivisionError):
        numa.on_cpus(one, lambda: 1 // 0)
    with pytest.raises(OSError, match="Invalid argument"):
        numa.on_cpus({4000}, lambda: 1)
    assert (os.sched_getaffinity(0), threading.active_count()) == (before, threads)


class ScriptedStreams:
    """torch.cuda with a clock that the test winds: queueing takes longer than the first holds."""

    def __init__(self, holds_after: int) -> None:
        self.cuda = self
        self.slept: list[int] = []
        self.holds_after = holds_after
        self.now = 0.0

    def device(self, index: int) -> Any:
        return threading.Lock()

    def stream(self, stream: object) -> Any:
        return threading.Lock()

    def _sleep(self, cycles: int) -> None:
        self.slept.append(cycles)
        self.now += cycles / 1e6

    def Event(self, enable_timing: bool) -> Any:  # noqa: N802
        return ScriptedEvent(self)


class ScriptedEvent:
    def __init__(self, streams: ScriptedStreams) -> None:
        self.streams = streams

    def record(self, stream: object) -> None:
        self.at = self.streams.now

    def query(self) -> bool:
        return len(self.streams.slept) - 2 < self.streams.holds_after

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: ScriptedEvent) -> float:
        return other.at - self.at


def test_a_hold_that_was_too_short_is_doubled() -> None:
    streams = ScriptedStreams(holds_after=3)

    def work() -> None:
        streams.now += 2.5

    lane = StreamWork(0, object(), work, 4)
    assert HeldStreams(streams).seconds([lane]) == ((0.01,),)
    first, second, third = streams.slept[2:]
    assert (second, third) == (2 * first, 4 * first)
