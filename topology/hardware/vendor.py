"""Vendor: everything that depends on who made a GPU, in one record."""

from __future__ import annotations

import msgspec

from ..model.characters import printable

GPU = "GPU"
"""Label of a GPU whose vendor needs no label of its own."""


DRIVER, MEMORY, ERRORS, LINKS, BUS = "driver", "memory", "errors", "links", "bus"
UNNAMED, SENSE = "unnamed", "sense"
"""What has to be known of a GPU before a node with it may be called healthy."""


class Needed(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of evidence of a vendor's GPUs."""

    id: str
    """DRIVER, MEMORY, ERRORS, LINKS, BUS, UNNAMED or SENSE."""
    what: str
    """In words: "the state of its NVLinks"."""
    fields: tuple[str, ...]
    """Where it is: a record ("gpu", "reading", "ecc" or "pci") and its field. The first is the
    evidence; another one does in its place only where nobody asked for the first."""
    printed_by: str = ""
    """The command whose output --from reads, and that has it."""


ON_BUS = Needed(
    id=BUS,
    what="what the PCI bus shows",
    fields=("pci.address",),
    printed_by="tar czf sysfs.tar.gz --ignore-failed-read /sys/bus/pci /sys/devices/pci*",
)
"""A driver lists the GPUs that it has: one that fell off the bus is in no output of its tool."""
LEAST = (
    Needed(id=DRIVER, what="an answer of the driver", fields=("gpu.uuid",)),
    Needed(id=MEMORY, what="its memory", fields=("gpu.memory_bytes",)),
    ON_BUS,
)
"""What every vendor's driver says of a GPU."""
NOT_NAMED = Needed(id=UNNAMED, what="what shows that GPUs of this vendor are well", fields=())
"""Stands in for the evidence that a vendor's record does not name; nothing is ever found for it."""


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """The maker of a GPU. The defaults are those of a vendor without a record."""

    id: str
    """As `Gpu.vendor` says it: "nvidia"."""
    name: str
    """Its name as people write it: "NVIDIA"."""
    known: bool = True
    """False for a vendor that a snapshot names and that has no record here."""
    pci_ids: tuple[int, ...] = ()
    """PCI vendor ids of its GPUs; a server's own display chip is not one of them."""
    label: str = GPU
    """What precedes the number of its GPUs where several vendors count from 0: "AMD"."""
    library: str = "NCCL"
    """Its collective library."""
    link: str = "link"
    """What connects its GPUs besides PCIe."""
    links: str = "links"
    """The plural of it: "NVLinks", "xGMI links"."""
    tool: str = "the vendor's tool"
    """The command that queries its driver."""
    management: str = "driver"
    """The library that this command calls."""
    runtime: str = "the runtime"
    """What programs use to compute."""
    module: str = ""
    """Its kernel module."""
    memory_clients: tuple[str, ...] = ()
    """Names of its driver in /sys/kernel/mm/memory_peers (NCCL transport/net_ib, gdr support)."""
    sources: tuple[str, ...] = ()
    """Ids of the sources that ask about its GPUs alone; the first asks its management library."""
    distances: str = "codes of PCIe distance"
    """Whose letters a matrix of links uses."""
    letters: str = "codes of PCIe distance"
    """The same in short."""
    link_source: str = "driver"
    """What reports the state of its links."""
    window: str = "BAR"
    """The window to its memory that PCIe sees."""
    clock: str = ""
    """The compute units by the name of their clock: "SM"; "" where it is not known."""
    clock_field: str = "graphics"
    """The name of that clock in the fields of a GPU and of a reading: "sm", "graphics"."""
    capability: str = ""
    """What stands between the vendor's name and `Gpu.compute_capability`."""
    parts_are_devices: bool = False
    """Whether its tools list a part of a package like a GPU of its own."""
    evidence: tuple[Needed, ...] = (*LEAST, NOT_NAMED)
    """The least that has to be known of each of its GPUs before one is called healthy. A record
    that names none is one of a vendor whose faults nobody knows how to see: "cannot tell"."""
    stream_share: float | None = None
    """Share of the memory bandwidth that large streaming copies reach: the middle of the known
    figures."""


def unknown(name: str) -> Vendor:
    """The record of a vendor that has none; its name comes from a file."""
    plain = printable(name)[:40] or "no name"
    return Vendor(id=name, name=plain, known=False, label=plain.upper(), evidence=())
