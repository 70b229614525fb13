"""Devices, sizes and messages of the probe `host`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

from ...devices.numa import page_node
from ...devices.opened import Emit
from ...engine.host_memory import HostBuffer
from ...protocol.messages import DeviceRecord, MeasuredValue
from ...protocol.quantity import Quantity
from ...protocol.status import DeviceKind
from ...protocol.timing import Sampled

_ONCE = "bytes copied, once"
TO_DEVICE = Quantity(
    "h2d_bandwidth",
    "to the GPU",
    counted=_ONCE,
    heading="to GPU",
    main_variant="pinned",
    on_map="pinned",
)
FROM_DEVICE = Quantity(
    "d2h_bandwidth", "from the GPU", counted=_ONCE, heading="from GPU", on_map="pinned"
)
QUANTITIES = {True: TO_DEVICE, False: FROM_DEVICE}
"""Whether the bytes go to the device -> the quantity."""
_MEMORY = {
    "pinned": "pinned by the driver",
    "registered": "pinned after its pages were touched",
    "pageable": "pageable",
}
FEW_COPIES = 4


@dataclass(frozen=True)
class Place:
    """A device, its NUMA node, and the usable CPUs of that node."""

    device: DeviceRecord
    node: Optional[int]
    cpus: Optional["frozenset[int]"]

    @property
    def key(self) -> str:
        """The name of the device in measurements."""
        return self.device.key

    @property
    def index(self) -> int:
        """The index of the device in this process."""
        return self.device.index


@dataclass(frozen=True)
class Level:
    """Sizes and repeats of one level."""

    samples: int
    copies: int
    sample_seconds: float
    """Target duration of a sample on a slow link."""
    warm_seconds: float
    smallest_bytes: int

    def plan(self, size_bytes: int, bytes_per_second: float) -> "tuple[int, int]":
        """Bytes and number of copies of a sample; first the size is halved, then the number."""
        size, copies = size_bytes, self.copies
        while copies * size > self.sample_seconds * bytes_per_second:
            if size // 2 >= self.smallest_bytes:
                size //= 2
            elif copies > FEW_COPIES:
                copies = FEW_COPIES
            else:
                break
        return size, copies


@dataclass(frozen=True)
class HostResult:
    """One figure of one device, kept so that it can be judged and taken again."""

    quantity: Quantity
    place: Place
    sampled: Sampled
    again: Callable[[], "HostResult"]


@dataclass(frozen=True)
class HostReporter:
    """Turns samples into messages."""

    method: str
    kind: DeviceKind
    emit: Emit

    def figure(
        self, quantity: Quantity, key: str, variant: str, direction: str, sampled: Sampled,
        size: int, copies: int, details: "dict[str, Any]", engine: str, attempt: int = 1,
        verdict: Optional[str] = None,
    ) -> None:  # fmt: skip
        """Emit GB/s of one way; an empty `key` stands for all devices together."""
        self.emit(
            MeasuredValue(
                name=quantity.key,
                src=key,
                dst="",
                method=self.method,
                device_kind=self.kind,
                engine=engine,
                direction=direction,
                verdict=verdict,
                unit=quantity.unit,
                bytes_per_copy=size,
                copies_per_sample=copies,
                attempt=attempt,
                variant=variant,
                counted=quantity.counted,
                details=details,
                **sampled.fields(),
            )
        )


def way(key: str, to_device: bool) -> str:
    """The direction of a copy in words."""
    return f"host memory to {key}" if to_device else f"{key} to host memory"


def link(seen: "dict[str, Any]") -> "dict[str, Any]":
    """The PCIe link as it was while the copies ran."""
    return {name: seen[name] for name in ("pcie_generation", "pcie_width") if name in seen}


def about(buffer: HostBuffer, node: Optional[int]) -> "dict[str, Any]":
    """Kind and node of the host memory; the node from the kernel has precedence."""
    details: dict[str, Any] = {"memory": _MEMORY[buffer.kind]}
    seen = page_node(buffer.memory.address + buffer.memory.size_bytes // 2)
    if seen is not None or node is not None:
        details["numa_node"] = seen if seen is not None else node
    return details
