"""What the kernel's log says went wrong: a fault of one device, however often it was printed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from .record import Record
from .severity import OpenWord

MOST_EVENTS, MOST_WORDS = 2000, 8
HEARD = "NVML: "
"""How the text of an event begins that NVML told to a listener; no log has it."""

LISTENED = "nvml_events"
"""Origin of the part that holds such events."""


class KernelSource(OpenWord):
    """Who numbers the faults of a line."""

    XID = "xid"
    """NVIDIA's driver, for a GPU."""
    SXID = "sxid"
    """NVIDIA's driver, for an NVSwitch."""
    LINE = "line"
    """gputop's own table of lines, hardware/faults/kernel.toml."""
    NVML = "nvml"
    """NVML, by the type of an event of a GPU."""
    OPERATIONAL = "operational"
    """NVML's GPU operational events, by their severity."""


class KernelEvent(Record, frozen=True, kw_only=True):
    """Lines of the kernel's log that say the same of one device and link."""

    identity = ("kind", "code", "device", "link", "said", "over")

    kind: KernelSource
    code: str
    """"79", "20034"; the id of the row in kernel.toml."""
    device: str | None = None
    """PCI address."""
    name: str = ""
    """What the line calls the device, beside its address: "nvswitch3", "GPU instance 5"."""
    link: int | None = None
    """Number of the NVLink, or of the switch's port."""
    said: str = ""
    """Words and numbers that change what the code means: "RLW_RXPIPE Nonfatal 0x0409a0c2 0x8"."""
    details: tuple[str, ...] = ()
    """Further words of it, as printed: "SDES", "GPC 2, TPC 5, SM 0"."""
    programs: tuple[str, ...] = ()
    """Programs that the lines name: "python3 (4242)"."""
    text: str = ""
    """The first line, without its time and host."""
    count: int = 1
    """Number of lines."""
    first: str = ""
    """When it was printed first, as the log writes times; "" where it has none."""
    last: str = ""
    over: str = ""
    """What ended it, by a later line; "" where none says so."""

    @property
    def heard(self) -> bool:
        """Whether NVML told it while somebody listened: it happened since then."""
        return self.text.startswith(HEARD)


EventKey = tuple[Any, ...]


def put(events: dict[EventKey, KernelEvent], event: KernelEvent) -> EventKey | None:
    """Count an event among the others; its key where it is a new one."""
    key = tuple(getattr(event, name) for name in KernelEvent.identity)
    before = events.get(key)
    if before is not None:
        events[key] = msgspec.structs.replace(
            before,
            count=before.count + event.count,
            last=event.last or before.last,
            details=joined(before.details, event.details),
            programs=joined(before.programs, event.programs),
        )
        return None
    if len(events) >= MOST_EVENTS:
        return None
    events[key] = event
    return key


def joined(before: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """Words of two events as those of one, MOST_WORDS at most."""
    return tuple(dict.fromkeys((*before, *more)))[:MOST_WORDS]


def counted(events: Iterable[KernelEvent]) -> tuple[KernelEvent, ...]:
    """Equal events as one, with how often and until when; MOST_EVENTS at most."""
    found: dict[EventKey, KernelEvent] = {}
    for event in events:
        put(found, event)
    return tuple(found.values())
