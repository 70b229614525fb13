"""The messages between app and worker, one JSON object on each line.

The app writes one `WorkerRequest`; the worker answers with a `Hello`, then any number of
`Progress`, `MeasuredValue` and `Note`, and ends with one `Done` or `Failure`. Every line has the
version of the protocol. Decoding trusts nothing: a line is a message of the declared shape or
raises `ProtocolError`.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, Union, get_args, get_origin, get_type_hints

from .errors import WorkerError
from .status import DeviceKind

VERSION = 1
LINE_LIMIT_BYTES = 1 << 20
"""A longer line is rejected before all of it is read."""
IMPORTING = "importing torch"
"""The text of a Progress before any GPU is touched."""
ASKING = "asking the driver for its GPUs"
"""The next text of a Progress; from here on a hanging driver is detected."""
MOST_TO_IMPORT = 0.5
"""If the import took a larger share of the time, a timeout does not blame the GPU."""


class ProtocolError(WorkerError):
    """A line that is not a message. `kind`: too-long, not-json, version or shape."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True)
class WorkerRequest:
    """What to run, and on which devices."""

    probe: str
    devices: tuple[str, ...] = ()
    """PCI addresses or UUIDs; empty means every device that the worker sees."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the probe: JSON scalars, lists and objects."""


@dataclass(frozen=True)
class DeviceRecord:
    """One device as a worker sees it."""

    key: str
    """Its name in measurements: PCI address, else UUID, else "cpu:0"."""
    index: int
    """Index in this worker; for display only, since it differs between processes."""
    name: str
    pci_address: Optional[str] = None
    uuid: Optional[str] = None
    memory_bytes: Optional[int] = None
    free_bytes: Optional[int] = None
    """Only for selected devices, because the question creates a context."""
    selected: bool = True


@dataclass(frozen=True)
class Hello:
    """The first message of a worker: its versions and devices."""

    probe: str
    method: str
    python: str
    device_kind: DeviceKind
    devices: tuple[DeviceRecord, ...]
    torch: Optional[str] = None
    """None for probes that need no torch."""
    cuda: Optional[str] = None
    hip: Optional[str] = None
    driver: Optional[str] = None
    nccl: Optional[str] = None
    """Version of NCCL or RCCL."""
    library: Optional[str] = None
    """Which of the two it is: "NCCL" or "RCCL"; None of a probe that needs neither."""
    nccl_path: Optional[str] = None
    """Of NCCL or RCCL by itself; None where torch brings it."""

    @property
    def library_name(self) -> str:
        """NCCL or RCCL, by the word of the probe, else by what torch is built for."""
        return self.library or ("RCCL" if self.hip else "NCCL")


@dataclass(frozen=True)
class Progress:
    """The progress of a probe: `done` of `total` steps, and the current one."""

    done: int
    total: int
    what: str


@dataclass(frozen=True)
class MeasuredValue:
    """A figure or verdict; a later one of equal name, src, dst, variant and size replaces it."""

    name: str
    """p2p: access, arrival, one-way, both-ways (this direction while the other runs too), together
    (both directions added), latency. nccl: collective, init, all-reduce-busbw, all-reduce-algbw,
    send-receive. Every other name is the quantity of a snapshot (topology/model/snapshot.py)."""
    src: str
    """Empty, like `dst`, for all devices together; without `dst` it is a single device."""
    dst: str
    method: str
    device_kind: str
    engine: str
    """What moved the bytes: "copy engine", "copy, staged through the host", "kernel store", ..."""
    direction: str
    """Which device writes into which memory, one way or both, in words."""
    verdict: Optional[str] = None
    """access: granted, not-granted. arrival: arrived, wrong-bytes, not-granted, failed.
    collective: finished, wrong-data, failed, timed-out. Figures: verified or wrong-data, where the
    copied data was compared; send-receive also failed, timed-out."""
    value: Optional[float] = None
    """Median of the samples, in `unit`; None where there is no figure."""
    unit: Optional[str] = None
    """GB/s (10^9 bytes per second), TFLOP/s, us or s."""
    why: Optional[str] = None
    """Why there is no figure, or what is unusual about it."""
    minimum: Optional[float] = None
    maximum: Optional[float] = None
    samples: tuple[float, ...] = ()
    bytes_per_copy: Optional[int] = None
    copies_per_sample: Optional[int] = None
    attempt: int = 1
    """2 when a low or unsteady figure was measured again."""
    checked_bytes: Optional[int] = None
    wrong_bytes: Optional[int] = None
    first_wrong_offset: Optional[int] = None
    variant: str = ""
    """Distinguishes figures of one name and device: a shape, a kind of memory, a pattern."""
    counted: str = ""
    """What `value` counts: "bytes copied, once", "bytes read + bytes written", ..."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further observations, such as clocks, PCIe generation, shapes; JSON, units in the keys."""


@dataclass(frozen=True)
class Note:
    """A remark that is not a figure."""

    topic: str
    """A key of the probe's own choice: a probe of another distribution has others."""
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Log:
    """A piece of the debug log of one rank; the pieces come in order."""

    rank: int
    text: str
    """The unchanged text with control characters; hostile until it is parsed."""
    cut_bytes: int = 0
    """Number of bytes omitted between the piece before and this one."""


@dataclass(frozen=True)
class Done:
    """The probe reached its end."""


@dataclass(frozen=True)
class Failure:
    """The probe stopped. `error`: no-torch, refused, bad-request, timed-out or failed."""

    error: str
    text: str


Message = Union[WorkerRequest, Hello, Progress, MeasuredValue, Note, Log, Done, Failure]

_KINDS: dict[str, Any] = {
    "request": WorkerRequest,
    "hello": Hello,
    "progress": Progress,
    "measurement": MeasuredValue,
    "note": Note,
    "log": Log,
    "done": Done,
    "failure": Failure,
}
_KIND_OF = {cls: kind for kind, cls in _KINDS.items()}
_HINTS = {cls: get_type_hints(cls) for cls in (*_KINDS.values(), DeviceRecord)}


def encode(message: Message) -> bytes:
    """Encode a message as a line with its newline; ValueError for NaN and infinities."""
    body = {"v": VERSION, "kind": _KIND_OF[type(message)], **dataclasses.asdict(message)}
    return json.dumps(body, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> Message:
    """Decode a line; raises ProtocolError."""
    if len(line) > LINE_LIMIT_BYTES:
        raise ProtocolError("too-long", f"a line of {len(line)} bytes")
    try:
        body = json.loads(line.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite)
        if b"\\ud" in line.lower():
            # Half a surrogate pair, as from a variable that is not UTF-8, fits into no document.
            body = json.loads(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError("not-json", "a line that is not JSON") from error
    if not isinstance(body, dict):
        raise ProtocolError("shape", "a line that is not a JSON object")
    version = body.pop("v", None)
    if type(version) is not int or version != VERSION:
        raise ProtocolError("version", f"not protocol version {VERSION}")
    kind = body.pop("kind", None)
    cls = _KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise ProtocolError("shape", "a message of no known kind")
    message: Message = _build(cls, body)
    return message


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(digits)
    return number


def _build(cls: Any, body: Any) -> Any:
    """Build a dataclass from a JSON object with exactly its fields."""
    if not isinstance(body, dict) or not body.keys() <= _HINTS[cls].keys():
        raise ProtocolError("shape", f"no {cls.__name__}")
    values = {name: _fit(value, _HINTS[cls][name]) for name, value in body.items()}
    try:
        return cls(**values)
    except TypeError as error:
        raise ProtocolError("shape", f"{cls.__name__} with fields missing") from error


def _fit(value: Any, hint: Any) -> Any:
    """Convert a value to the type of the hint; raises ProtocolError."""
    origin = get_origin(hint)
    if origin is Union:  # Optional[...] is the only union here
        return None if value is None else _fit(value, get_args(hint)[0])
    if origin is tuple and isinstance(value, list):
        return tuple(_fit(item, get_args(hint)[0]) for item in value)
    if origin is Mapping and isinstance(value, dict):
        return value
    if hint is float and type(value) in (int, float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    if hint in (str, int, bool) and type(value) is hint:
        return value
    if hint is DeviceKind and value in (*DeviceKind,):
        return DeviceKind(value)
    if hint in _HINTS:
        return _build(hint, value)
    raise ProtocolError("shape", "a field of the wrong type")
