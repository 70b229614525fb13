"""What a GPU of a demo does: figures that obey physics.

A GPU that waits in a collective is "100 % busy", draws a third of its power and leaves its memory
alone; a collective that hangs moves nothing. Seen on two H100: 240 W while waiting, 693 W while
computing.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from .shape import DemoShape

LOADER = "do_sys_poll"
"""Where a process sleeps that waits for what another one loads (/proc/PID/wchan)."""


class GpuWork(msgspec.Struct, frozen=True, kw_only=True):
    """Levels of one kind of work."""

    utilization: float
    power: float
    """Share of the limit."""
    memory: float
    """Percent of the time in which the memory is read or written."""
    links: float
    """Share of the usual traffic between GPUs."""
    host: float = 1.0
    """Share of the usual traffic with the host."""
    multiprocessors: float
    """Percent that are taken."""
    sleeps: float = 0.0
    """Share of the time in which its process waits for others on the host, asleep."""
    swing: float = 1.0
    """How much of the usual waves."""


class DemoWork(Enum):
    """The kinds of work."""

    RESTS = GpuWork(utilization=0, power=0, memory=0, links=0, multiprocessors=0)
    TRAINS = GpuWork(utilization=95, power=0.91, memory=52, links=1, multiprocessors=68)
    HANGS = GpuWork(
        utilization=100, power=0.34, memory=0.4, links=0, host=0.01, multiprocessors=3, swing=0.1
    )
    """Waits for minutes in a collective that another rank has not launched."""
    COMPUTES = GpuWork(
        utilization=99, power=0.94, memory=55, links=0, host=0.01, multiprocessors=88, swing=0.1
    )
    """Computes alone, while others wait."""
    HELD_UP = GpuWork(
        utilization=100, power=0.58, memory=24, links=0.45, multiprocessors=43, swing=0.2
    )
    """Waits in each step for the rank that is late."""
    LATE = GpuWork(
        utilization=45,
        power=0.48,
        memory=24,
        links=0.45,
        multiprocessors=37,
        swing=0.2,
        sleeps=0.5,
    )
    """Idles in each step while its rank waits for the loader."""


def work_of(shape: DemoShape, gpu: int) -> DemoWork:
    """What a GPU does."""
    if gpu in shape.idle:
        return DemoWork.RESTS
    if shape.job is None:
        return DemoWork.TRAINS
    if shape.job.hangs:
        return DemoWork.COMPUTES if gpu == shape.job.late else DemoWork.HANGS
    return DemoWork.LATE if gpu == shape.job.late else DemoWork.HELD_UP
