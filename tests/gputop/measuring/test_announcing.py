"""What is said before GPUs are loaded."""

from __future__ import annotations

import msgspec

from gputop.measuring.announcing import announce
from gputop.probes.protocol.status import ProbeLevel
from gputop.topology.model.readings import GpuProcess, GpuUse
from gputop.topology.model.snapshot import EnvironmentVariable
from tests.support.app import gpu, reading, snapshot_of

GPUS = tuple(gpu(number) for number in range(4))
JOB = (GpuProcess(pid=4711, kind=GpuUse.COMPUTE, memory_bytes=1 << 30),)


def test_idle_gpus_are_counted_with_the_time_and_the_memory() -> None:
    idle = snapshot_of(GPUS, tuple(reading(one, utilization_percent=0.0) for one in GPUS))
    said = announce(idle, ("p2p",), (), ProbeLevel.NORMAL)
    assert said.title == "Load 4 idle GPUs?"
    assert said.lines == ("p2p: about 9.3 s on 4 GPUs, up to 2.0 GiB of memory on each.",)
    assert said.addresses == ()


def test_busy_ones_are_left_out_of_all_but_not_of_those_that_were_picked() -> None:
    readings = tuple(
        reading(one, utilization_percent=0.0, processes=JOB if number < 2 else ())
        for number, one in enumerate(GPUS)
    )
    half = snapshot_of(GPUS, readings)
    said = announce(half, ("p2p",), (), ProbeLevel.NORMAL)
    assert said.title == "Load 2 idle GPUs?"
    assert said.addresses == (GPUS[2].address, GPUS[3].address)
    assert said.lines[1] == "Left out: GPU0-1 busy."
    picked = (GPUS[0].address, GPUS[2].address)
    said = announce(half, ("p2p",), picked, ProbeLevel.NORMAL)
    assert said.title == "Load 2 GPUs?"
    assert said.addresses == picked
    assert "GPU0 is in use by process 4711" in said.lines[1]
    assert "P measures beside others" in said.lines[1]


def test_a_hidden_gpu_is_left_out_and_named() -> None:
    listed = EnvironmentVariable(name="CUDA_VISIBLE_DEVICES", value="0,1,3", origin="environment")
    idle = snapshot_of(GPUS, tuple(reading(one, utilization_percent=0.0) for one in GPUS))
    said = announce(
        msgspec.structs.replace(idle, environment=(listed,)), ("p2p",), (), ProbeLevel.NORMAL
    )
    assert said.title == "Load 3 idle GPUs?"
    assert said.lines[1] == "GPU2 left out (CUDA_VISIBLE_DEVICES=0,1,3)."
    assert said.addresses == tuple(GPUS[number].address for number in (0, 1, 3))
