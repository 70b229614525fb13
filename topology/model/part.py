"""A part of a snapshot: what one source or one recorded file says about a node."""

from collections.abc import Sequence
from typing import Any

import msgspec

from .element import Element
from .finding import Finding
from .kernel_event import KernelEvent
from .machine import Gpu, GpuPair, Machine, PciDevice, ReportedRelation, UnnamedAcs
from .merge import merge_values
from .readings import DeviceCounters, GpuReading, HostReading, PciReading, ProcessReading
from .snapshot import EnvironmentVariable, Measurement, NodeSnapshot, Problem
from .surroundings import DirectStorage, Drive, Host, Interface, RdmaDevice, Software

Raw = Any
"""A plain JSON-able answer: dicts, lists, strings, numbers, None."""


class PartialNode(msgspec.Struct, frozen=True, kw_only=True):
    """What one answer says about a node; the parts of all sources are merged into a snapshot.

    None (or an empty tuple) means that this source says nothing about it. Records of one thing are
    found by `Record.identity`; where two sources fill the same field, the earlier one wins.
    """

    host: Host | None = None
    gpus: tuple[Gpu, ...] = ()
    pairs: tuple[GpuPair, ...] = ()
    pci: tuple[PciDevice, ...] = ()
    unnamed_acs: tuple[UnnamedAcs, ...] = ()
    relations: tuple[ReportedRelation, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    rdma: tuple[RdmaDevice, ...] = ()
    drives: tuple[Drive, ...] = ()
    direct_storage: DirectStorage | None = None
    software: Software | None = None
    nccl_topology: Element | None = None
    gpu_readings: tuple[GpuReading, ...] = ()
    pci_readings: tuple[PciReading, ...] = ()
    processes: tuple[ProcessReading, ...] = ()
    host_reading: HostReading | None = None
    counters: tuple[DeviceCounters, ...] | msgspec.UnsetType = msgspec.UNSET
    environment: tuple[EnvironmentVariable, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    kernel_events: tuple[KernelEvent, ...] | msgspec.UnsetType = ()
    problems: tuple[Problem, ...] = ()
    assumptions: tuple[str, ...] = ()
    symptoms: tuple[Finding, ...] = ()
    numbers: tuple[tuple[int, str], ...] = ()
    """CUDA's or HIP's number of GPUs, and their addresses, as a program listed them: measurements
    of other programs may name GPUs by that number alone."""
    origin: str = ""
    """The source, where several sources are asked about the same thing and compared: "kfd",
    "amdsmi"."""


OF_MACHINE = tuple(name for name in Machine.__struct_fields__ if name != "gaps")
"""Fields of a part that belong to the Machine, where they have the same names."""
OF_READINGS = {
    "gpu_readings": "gpus",
    "pci_readings": "pci",
    "processes": "processes",
    "host_reading": "host",
    "counters": "counters",
}
"""Fields of a part that belong to Readings, and their names there."""
OF_SNAPSHOT = (
    "environment",
    "measurements",
    "kernel_events",
    "problems",
    "assumptions",
    "symptoms",
)
"""Fields that a NodeSnapshot has itself, under the same names."""


def has_machine(part: PartialNode) -> bool:
    """Whether the part says anything about the machine itself."""
    return any(getattr(part, name) for name in OF_MACHINE)


def merge_fields(parts: Sequence[PartialNode], names: Sequence[str]) -> dict[str, Any]:
    """The merged values of these fields; the parts come in order of precedence."""
    found: dict[str, Any] = {}
    for name in names:
        values = [value for part in parts if (value := getattr(part, name))]
        if values:
            found[name] = merge_values(values)
    return found


def part_of(snapshot: NodeSnapshot) -> PartialNode:
    """A snapshot as a part, so that it can be merged with other recordings."""
    machine, readings = snapshot.machine, snapshot.readings
    values = {name: getattr(machine, name) for name in OF_MACHINE}
    values |= {name: getattr(readings, other) for name, other in OF_READINGS.items()}
    values |= {name: getattr(snapshot, name) for name in OF_SNAPSHOT}
    return PartialNode(**values)
