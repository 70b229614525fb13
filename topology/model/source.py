"""What a source is: a reader that asks the machine, and a pure function that understands it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from .element import Element
from .machine import (
    Gpu,
    GpuPair,
    Host,
    Interface,
    NumaNode,
    PciDevice,
    RdmaDevice,
    ReportedRelation,
    Software,
)
from .readings import GpuReading, HostReading, PciReading, ProcessReading
from .snapshot import EnvironmentVariable, Measurement, Problem

Raw = Any
"""A plain JSON-able answer: dicts, lists, strings, numbers, None."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one answer says about a node; the collector merges the parts of all sources.

    None (or an empty tuple) means: this source says nothing of that. Devices are matched by PCI
    address; where two sources fill the same field, the earlier one in `sources.NAMES` wins.
    """

    host: Host | None = None
    numa: tuple[NumaNode, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    pairs: tuple[GpuPair, ...] = ()
    pci: tuple[PciDevice, ...] = ()
    relations: tuple[ReportedRelation, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    rdma: tuple[RdmaDevice, ...] = ()
    software: Software | None = None
    nccl_topology: Element | None = None
    gpu_readings: tuple[GpuReading, ...] = ()
    pci_readings: tuple[PciReading, ...] = ()
    processes: tuple[ProcessReading, ...] = ()
    host_reading: HostReading | None = None
    environment: tuple[EnvironmentVariable, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    problems: tuple[Problem, ...] = ()
    assumptions: tuple[str, ...] = ()
    origin: str = ""
    """Who says it, where several sources are asked the same and are compared: "kfd", "amdsmi"."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One origin of facts. `SOURCE` in each module of this folder is one of these."""

    id: str
    """Short name, as problems and ages show it: "nvml"."""
    interval_seconds: float
    """How often a live session asks again."""
    deadline_seconds: float
    """After this long without an answer the source counts as not answering."""
    reader: Callable[[], Callable[[], Raw]]
    """Makes a fresh reader; the reader asks the machine once per call. It may keep handles and
    rate state between calls, and may have `thorough` (set for a single reading that is to hold
    everything) and `again_seconds` (when to ask next, instead of the interval). Called in the
    source's own thread, never in two threads at once. Raises SourceAbsent when there is nothing
    to ask; any other exception is a failed reading."""
    opening: bool = False
    """Whether the first picture needs this source; the others begin a moment later."""
    parse: Callable[[Raw], Part]
    """Pure: an answer to a part. Never raises on an answer that a real machine could give;
    a field it does not understand becomes a gap."""


class SourceAbsent(Exception):  # noqa: N818 - a normal outcome, not an error
    """Nothing to ask here; the text says what is missing, `kind` as in Problem.kind."""

    def __init__(self, text: str, kind: str = "absent") -> None:
        super().__init__(text)
        self.kind = kind
