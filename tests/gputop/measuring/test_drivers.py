"""Readings of all makers together, for whoever must know whether a GPU is in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.measuring.guard import SOURCES, open_drivers
from gputop.topology.model.part import PartialNode
from gputop.topology.model.readings import GpuProcess, GpuReading, GpuUse
from gputop.topology.model.source import Source, SourceAbsent
from gputop.topology.sources import MAKERS, NAMES


def source(name: str, answer: Callable[[], tuple[GpuReading, ...]]) -> Source:
    """Make a source whose every reading is what `answer` gives."""
    return Source(
        id=name,
        interval_seconds=1.0,
        deadline_seconds=1.0,
        reader=lambda: answer,
        parse=lambda found: PartialNode(gpu_readings=found),
    )


def refuse(error: Exception) -> Callable[[], Any]:
    """Make an answer that raises."""

    def answer() -> Any:
        raise error

    return answer


NVIDIA = GpuReading(address="0000:01:00.0", utilization_percent=1.0)
LIBRARY = GpuReading(address="0000:0c:00.0", utilization_percent=5.0)
SYSFS = GpuReading(
    address="0000:0c:00.0",
    utilization_percent=6.0,
    memory_used_bytes=7,
    processes=(GpuProcess(pid=3, kind=GpuUse.COMPUTE),),
)


def test_two_makers_and_what_the_library_leaves_out() -> None:
    read = open_drivers(
        [
            source("nvml_readings", lambda: (NVIDIA,)),
            source("amdsmi_readings", lambda: (LIBRARY,)),
            source("amdgpu_readings", lambda: (SYSFS,)),
        ]
    )
    first, second = read()
    assert first == NVIDIA
    assert (second.utilization_percent, second.memory_used_bytes) == (5.0, 7)
    assert second.processes == SYSFS.processes


def test_a_library_that_is_absent_or_fails_leaves_sysfs_to_answer() -> None:
    read = open_drivers(
        [
            source("nvml_readings", refuse(SourceAbsent("no NVML"))),
            source("amdsmi_readings", refuse(OSError("bad"))),
            source("amdgpu_readings", lambda: (SYSFS,)),
        ]
    )
    assert read() == (SYSFS,)


def test_nobody_who_answers_is_absence_with_the_reasons() -> None:
    read = open_drivers(
        [
            source("nvml_readings", refuse(SourceAbsent("no NVML"))),
            source("amdgpu_readings", lambda: ()),
        ]
    )
    with pytest.raises(SourceAbsent, match="no NVML"):
        read()


def test_a_failure_is_no_absence() -> None:
    read = open_drivers(
        [
            source("nvml_readings", refuse(OSError("driver gone"))),
            source("amdgpu_readings", lambda: ()),
        ]
    )
    with pytest.raises(OSError, match="driver gone"):
        read()


def test_every_source_of_readings_is_asked_and_has_a_maker() -> None:
    moving = tuple(name for name in NAMES if name.endswith("_readings"))
    assert moving == SOURCES
    assert set(moving) <= set(MAKERS) <= set(NAMES)
