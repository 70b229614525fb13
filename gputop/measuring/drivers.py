"""Asks the drivers of all vendors which processes use which GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gputop.measuring.busy import Read
from gputop.topology.model.part import PartialNode
from gputop.topology.model.readings import GpuReading
from gputop.topology.model.source import Source, SourceAbsent
from gputop.topology.sources import load
from gputop.topology.sources.collect import merge_readings

SOURCES = ("nvml_readings", "amdsmi_readings", "amdgpu_readings")
"""In order of precedence; for AMD GPUs sysfs fills in what ROCm's library does not report."""


def open_drivers(sources: Sequence[Source] | None = None) -> Read:
    """Return a function that asks every driver on the machine once and merges the answers.

    The function raises SourceAbsent when no driver has a GPU. Any other error of a driver is
    raised only when no other driver answers.
    """
    if sources is None:
        sources = [load(name) for name in SOURCES]
    readers: dict[str, Callable[[], Any]] = {}

    def read() -> Sequence[GpuReading]:
        parts: list[PartialNode] = []
        absent: list[str] = []
        failed: list[Exception] = []
        for source in sources:
            try:
                if source.id not in readers:
                    readers[source.id] = source.reader()
                parts.append(source.parse(readers[source.id]()))
            except SourceAbsent as why:
                absent.append(str(why))
            except Exception as error:  # noqa: BLE001 - the source border: the others may answer
                readers.pop(source.id, None)
                failed.append(error)
        found = merge_readings(parts).gpus
        if found:
            return found
        if failed:
            raise failed[0]
        raise SourceAbsent("; ".join(dict.fromkeys(absent)) or "no driver shows a GPU")

    return read
