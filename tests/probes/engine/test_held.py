"""Work on held streams: what is counted, on made-up GPUs whose streams have their own clock."""

from __future__ import annotations

from functools import partial

import pytest

from gputop.probes.engine.cuda import Cuda
from gputop.probes.engine.held import HeldStreams, StreamWork, rates
from gputop.probes.engine.kernels import Kernels
from gputop.probes.engine.library import EngineError
from tests.device_kernels.made_up import NOTHING, MadeUpDriver

KIB = 1 << 10
SECONDS = 64 * KIB / 400e9
"""One copy to a peer."""


class Lanes:
    """Made-up GPUs, each of them mapped for every other, that copy 64 KiB to their neighbour."""

    def __init__(self, driver: MadeUpDriver, devices: int, *words: str) -> None:
        driver.becomes(f"devices={devices}", "op_ns=0", *words)
        self.driver, self.devices = driver, devices
        self.runtime = Cuda(driver.handle)
        self.runtime.open(range(devices))
        self.kernels = Kernels(self.runtime)
        self.held = HeldStreams(self.runtime, self.kernels)
        self.memory = [self.runtime.allocate(index, 64 * KIB) for index in range(devices)]
        for one in range(devices):
            for other in range(devices):
                if one != other:
                    self.runtime.reach(one, other)
        self.streams = [(index, self.runtime.stream(index)) for index in range(devices)]

    def lane(self, index: int, times: int, stream: int | None = None) -> StreamWork:
        to, source = self.memory[(index + 1) % self.devices], self.memory[index]
        on = self.streams[index if stream is None else stream][1]
        copy = partial(self.runtime.copy, to.address, source.address, 64 * KIB, on)
        return StreamWork(index, on, copy, times)

    def more(self, index: int) -> int:
        """Another stream of a GPU."""
        self.streams.append((index, self.runtime.stream(index)))
        return len(self.streams) - 1

    def close(self) -> None:
        for index, stream in self.streams:
            self.runtime.drop_stream(index, stream)
        for index, memory in enumerate(self.memory):
            self.runtime.free(index, memory)
        self.held.close()
        self.kernels.close()
        assert self.driver.holds() == NOTHING


def test_queueing_is_not_counted(driver: MadeUpDriver) -> None:
    lanes = Lanes(driver, 2, "call_ns=20000")  # a copy takes a hundredth of a call
    ((seconds,),) = lanes.held.seconds([lanes.lane(0, 50)])
    assert seconds == pytest.approx(50 * SECONDS)
    assert (driver.counted("held"), driver.counted("held_late")) == (1, 0)
    lanes.close()


def test_without_kernels_launching_is_counted(driver: MadeUpDriver) -> None:
    lanes = Lanes(driver, 2, "call_ns=20000")
    lanes.held = HeldStreams(lanes.runtime, None)
    ((seconds,),) = lanes.held.seconds([lanes.lane(0, 50)])
    assert seconds > 49 * 20e-6
    assert driver.counted("held") == 0
    lanes.close()


def test_a_call_that_blocks_is_not_held_again(driver: MadeUpDriver) -> None:
    """The figure includes launching, and not the hold; it is found out once."""
    lanes = Lanes(driver, 2, "blocking=1")
    for _ in range(20):
        ((seconds,),) = lanes.held.seconds([lanes.lane(0, 50)])
        assert 50 * SECONDS < seconds < 50 * (SECONDS + 4e-6)
    assert (driver.counted("held"), driver.counted("held_late")) == (0, 2)
    lanes.close()


def test_a_host_that_was_late_once_tries_again(driver: MadeUpDriver) -> None:
    lanes = Lanes(driver, 2, "late_holds=1", "call_ns=20000")
    for _ in range(3):
        ((seconds,),) = lanes.held.seconds([lanes.lane(0, 50)])
        assert seconds == pytest.approx(50 * SECONDS)
    assert (driver.counted("held"), driver.counted("held_late")) == (3, 1)
    lanes.close()


def test_other_work_is_held_still(driver: MadeUpDriver) -> None:
    lanes = Lanes(driver, 3, "late_holds=2")
    lanes.held.seconds([lanes.lane(0, 5)])
    lanes.held.seconds([lanes.lane(0, 5)])
    assert driver.counted("held") == 0
    lanes.held.seconds([lanes.lane(1, 5)])
    lanes.held.seconds([lanes.lane(0, 5), lanes.lane(1, 5)])
    assert driver.counted("held") == 2
    lanes.close()


def test_lanes_start_together_and_each_piece_has_its_end(driver: MadeUpDriver) -> None:
    lanes = Lanes(driver, 3, "call_ns=10000")
    second = lanes.more(0)
    work = [lanes.lane(0, 8), lanes.lane(1, 8), lanes.lane(0, 4, second), lanes.lane(2, 8)]
    found = lanes.held.seconds(work)
    for ends, lane in zip(found, work, strict=True):
        assert list(ends) == pytest.approx([SECONDS * (1 + n) for n in range(lane.times)])
    assert driver.counted("held") == 1
    lanes.close()


@pytest.mark.parametrize("device", [0, 1])
def test_a_stream_that_starts_late_is_not_faster(driver: MadeUpDriver, device: int) -> None:
    """Also where the hold is another device's; that device waits for nothing of its own."""
    lanes = Lanes(driver, 3, f"late.{device}.1={4e9 * SECONDS}")
    work = [lanes.lane(0, 8), lanes.lane(1, 8), lanes.lane(device, 8, lanes.more(device))]
    *others, late = lanes.held.seconds(work)
    assert [ends[-1] for ends in others] == pytest.approx([8 * SECONDS] * 2)
    assert late[-1] == pytest.approx(12 * SECONDS)
    lanes.close()


def test_a_stream_is_released_when_queueing_fails(driver: MadeUpDriver) -> None:
    lanes = Lanes(driver, 2, "cuMemcpyAsync=1@3")
    with pytest.raises(EngineError, match="cuMemcpyAsync answered 1 "):
        lanes.held.seconds([lanes.lane(0, 50)])
    lanes.runtime.synchronize(0)
    assert (driver.counted("held"), driver.counted("held_late")) == (1, 0)


def test_rates_leave_out_what_one_lane_did_alone() -> None:
    fast = [0.01, 0.02, 0.03, 0.04]
    slow = [0.02, 0.04, 0.05, 0.06]  # twice as fast once the other was done
    assert rates([fast, slow], [10**9, 10**9]) == pytest.approx((100.0, 50.0))
    assert rates([[0.01], [0.04]], [10**9, 10**9]) == pytest.approx((100.0, 25.0))
