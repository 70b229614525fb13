"""The interface of a backend, and the selection of devices."""

import dataclasses
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional, Protocol

from ..engine.memory import Memory
from ..protocol.messages import DeviceRecord
from ..protocol.plaintext import one_line
from ..protocol.spec import ProbeStopped
from ..protocol.status import DeviceKind, Status

_MOST_NAMED = 8


@dataclass(frozen=True)
class StoreCheck:
    """What the owner of the memory found after a store: rung 3 of the ladder."""

    checked_bytes: int
    wrong_bytes: int
    first_wrong_offset: Optional[int]


@dataclass(frozen=True)
class Versions:
    """Software versions of a backend; None is "unknown"."""

    torch: Optional[str] = None
    cuda: Optional[str] = None
    hip: Optional[str] = None
    driver: Optional[str] = None
    nccl: Optional[str] = None
    """Of NCCL or RCCL."""
    library: Optional[str] = None
    """Which of the two it is: "NCCL" or "RCCL"."""
    nccl_path: Optional[str] = None
    """Only of a library that was loaded without torch."""


@dataclass(frozen=True)
class Flow:
    """Copies from one device's outgoing buffer into another's incoming one."""

    src: int
    dst: int
    reads: bool = False
    """Runs on a stream of `dst`, which reads; else on one of `src`, which writes."""
    src_slot: int = 0
    dst_slot: int = 0
    """Offset in copies; simultaneous flows never share bytes."""

    @property
    def doer(self) -> int:
        """The device whose stream and kernel do the copy."""
        return self.dst if self.reads else self.src

    def ends(
        self, into: "dict[int, Memory]", out: "dict[int, Memory]", size_bytes: int
    ) -> "tuple[Memory, Memory]":
        """What is written and what is read by one copy, given the buffers of every device."""
        to, source = self.dst_slot * size_bytes, self.src_slot * size_bytes
        return into[self.dst].part(to, size_bytes), out[self.src].part(source, size_bytes)


@dataclass(frozen=True)
class FlowTimes:
    """The durations of flows that started together."""

    ends: tuple[tuple[float, ...], ...]
    """For each flow, seconds from the first start on its device until the end of each copy; only
    of the last copy where nothing else ran."""

    @property
    def each(self) -> tuple[float, ...]:
        """Seconds until the end of each flow."""
        return tuple(ends[-1] for ends in self.ends)

    @property
    def together(self) -> float:
        """Seconds until the end of the last flow."""
        return max(self.each)


class Devices(Protocol):
    """Devices that a probe can open. Indices are those of this process."""

    kind: DeviceKind

    def versions(self) -> Versions:
        """Software versions."""

    def devices(self) -> tuple[DeviceRecord, ...]:
        """Every device that this process may see, without touching one."""

    def open(self, indices: Sequence[int]) -> None:
        """Create the contexts of these devices, all at once."""

    def free_bytes(self, index: int) -> int:
        """Free memory of one opened device."""


class Backend(Devices, Protocol):
    """Devices that a probe can copy between."""

    grantor: str
    """The library that answers can_access."""
    copy_engine: str
    store_engine: str
    kernel_engine: str
    """What kernel_seconds runs."""
    no_kernels: Optional[str]
    """Why our own kernels are missing, once the devices are open; None if they exist."""

    def allocate(self, indices: Sequence[int], buffer_bytes: int) -> None:
        """Allocate an outgoing buffer of random data and an incoming one on each device."""

    def release(self) -> None:
        """Free all memory, also after an error."""

    def can_access(self, src: int, dst: int) -> bool:
        """Whether the driver grants `src` access to the memory of `dst`."""

    def why_not_mapped(self, src: int, dst: int) -> Optional[str]:
        """Map granted memory of `dst` for `src`; why the driver refuses, None if it does not."""

    def store(self, src: int, dst: int, size_bytes: int) -> StoreCheck:
        """Store random bytes from `src` into memory of `dst`; `dst` compares them itself."""

    def flow_seconds(self, flows: Sequence[Flow], size_bytes: int, copies: int) -> FlowTimes:
        """Time flows at once; the copy engine makes the copies of a flow in turn."""

    def kernel_seconds(self, flow: Flow, size_bytes: int, copies: int) -> Optional[float]:
        """Time copies by a kernel of the acting device; None where no kernel can do it."""

    def staged_seconds(self, src: int, dst: int, size_bytes: int) -> float:
        """Time one copy through two pinned host buffers, chunks in both directions at once."""

    def chase_seconds(self, src: int, dst: int, hops: int) -> Optional[float]:
        """Time a pointer chase of `src` in memory of `dst`; None without our own kernels."""

    def clear(self, index: int) -> None:
        """Overwrite the incoming buffer, so that data found there later is new."""

    def copied_right(self, src: int, dst: int, size_bytes: int) -> Optional[bool]:
        """Whether `dst` received what `src` sent (slots 0); None where nothing can compare."""


def distinct(records: Sequence[DeviceRecord]) -> tuple[DeviceRecord, ...]:
    """The same with unlike keys: partitions of one AMD GPU may share an address, and its UUID."""
    keys = [record.key for record in records]
    return tuple(
        record
        if keys.count(record.key) == 1
        else dataclasses.replace(record, key=f"{record.key}/{record.index}")
        for record in records
    )


def hidden_by() -> str:
    """The variables that hide devices, in brackets; "" if none is set."""
    names = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    said = [f"{name}={os.environ[name]}" for name in names if name in os.environ]
    return f" ({one_line(', '.join(said))})" if said else ""


def normal_pci(text: str) -> Optional[str]:
    """A PCI address as Linux writes it (0000:06:00.0), from any usual spelling; else None."""
    match = re.fullmatch(
        r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", text.strip().lower()
    )
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function or '0'}"


def select(
    devices: Sequence[DeviceRecord], wanted: Sequence[str], minimum: int
) -> tuple[DeviceRecord, ...]:
    """The requested devices in their order, all if none is named; else ProbeStopped."""
    if not devices:
        raise ProbeStopped(Status.REFUSED, "No GPU: this process sees none.")
    chosen = list(devices) if not wanted else []
    for name in wanted:
        key = normal_pci(name) or name.strip().lower()
        found = [
            d for d in devices if key in (d.pci_address, (d.uuid or "").lower(), d.key.lower())
        ]
        if len(found) != 1:
            what = "is not visible to" if not found else "means more than one device of"
            seen = ", ".join(device.key for device in devices[:_MOST_NAMED])
            more = ", ..." if len(devices) > _MOST_NAMED else ""
            text = f"{name} {what} this process{hidden_by()}, which sees {seen}{more}."
            raise ProbeStopped(Status.REFUSED, text)
        if found[0] not in chosen:
            chosen.append(found[0])
    if len(chosen) < minimum:
        hidden = "" if wanted else hidden_by()
        text = f"{minimum} GPUs are needed, and {len(chosen)} can be used here{hidden}."
        raise ProbeStopped(Status.REFUSED, text)
    return tuple(chosen)
