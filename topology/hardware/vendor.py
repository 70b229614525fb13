"""Vendor: all that depends on who made a GPU, in one record."""

from __future__ import annotations

import msgspec

from ..model.units import printable

GPU = "GPU"
"""Label of a GPU whose vendor needs no other one: the first that this program knew."""


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """Who made a GPU. The defaults are those of a vendor that nobody described."""

    id: str
    """As `Gpu.vendor` says it: "nvidia"."""
    name: str
    """As people write it: "NVIDIA"."""
    known: bool = True
    """False for a vendor of a snapshot that has no record here."""
    pci_ids: tuple[int, ...] = ()
    """PCI vendor ids of its GPUs; a server's own display chip is not one of them."""
    label: str = GPU
    """What stands before the number of its GPUs where several vendors count from 0: "AMD"."""
    library: str = "NCCL"
    """Its collective library."""
    link: str = "link"
    """What joins its GPUs beside PCIe."""
    links: str = "links"
    """The plural of it: "NVLinks", "xGMI links"."""
    tool: str = "the vendor's tool"
    """The command that asks its driver."""
    management: str = "driver"
    """The library that this command calls."""
    runtime: str = "the runtime"
    """What programs compute with."""
    module: str = ""
    """Its kernel module."""
    memory_clients: tuple[str, ...] = ()
    """Names of its driver in /sys/kernel/mm/memory_peers (NCCL transport/net_ib, gdr support)."""
    sources: tuple[str, ...] = ()
    """Ids of the sources that ask about its GPUs alone."""
    distances: str = "letters of PCIe distance"
    """Whose letters a matrix of links shows."""
    letters: str = "letters of PCIe distance"
    """The same in short."""
    teller: str = "driver"
    """Who tells of its links."""
    window: str = "BAR"
    """The window on its memory that PCIe sees."""
    clock: str = ""
    """What computes, as clocks name it: "SM"; "" where that is not known."""
    clock_field: str = "graphics"
    """The clock of it among the fields of a GPU and of a reading: "sm", "graphics"."""
    capability: str = ""
    """What stands between its name and `Gpu.compute_capability`."""
    parts_are_devices: bool = False
    """Whether its tools list a part of a package like a GPU of its own."""
    stream_share: float | None = None
    """Share of the memory bus that large streaming copies reach: the middle of what is known."""


def unknown(name: str) -> Vendor:
    """The record of a vendor that nobody described; its name comes from a file."""
    plain = printable(name)[:40] or "no name"
    return Vendor(id=name, name=plain, known=False, label=plain.upper())
