"""One JSON object a line: what the app and a worker say to each other.

The app writes one `Request`; the worker answers with a `Hello`, then any number of `Progress`,
`MeasuredValue` and `Note`, and ends with one `Done` or `Failure`. Every line carries the protocol's
version. Decoding trusts nothing: a line is a message of the stated shape or a `ProtocolError`.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, Union, get_args, get_origin, get_type_hints

VERSION = 1
LINE_LIMIT_BYTES = 1 << 20
"""A longer line is refused before it is read to its end."""
IMPORTING = "importing torch"
"""What a Progress says before any GPU is touched."""
ASKING = "asking the driver for its GPUs"
"""What it says next: from here on a driver that hangs is noticed."""
MOST_TO_IMPORT = 0.5
"""Where the import took a larger share of the time allowed, that it is late blames no GPU."""


class ProtocolError(Exception):
    """A line that is no message. `kind` is one of too-long, not-json, version, shape."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True)
class Request:
    """What to run, and on which devices."""

    probe: str
    devices: tuple[str, ...] = ()
    """PCI addresses or UUIDs; none at all means every device that torch sees."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Options of the probe: JSON scalars, lists and objects."""


@dataclass(frozen=True)
class DeviceRecord:
    """One device as torch sees it."""

    key: str
    """What measurements call it: PCI address, else UUID, else "cpu:0"."""
    torch_index: int
    """Position in this worker's torch. For display: it differs from process to process."""
    name: str
    pci_address: Optional[str] = None
    uuid: Optional[str] = None
    memory_bytes: Optional[int] = None
    free_bytes: Optional[int] = None
    """Asked of the selected devices alone: asking creates a context."""
    selected: bool = True


@dataclass(frozen=True)
class Hello:
    """Who answers: versions and devices."""

    probe: str
    method: str
    python: str
    torch: str
    device_kind: str
    """"gpu", or "cpu" for the self-test, whose figures say nothing about any GPU."""
    devices: tuple[DeviceRecord, ...]
    cuda: Optional[str] = None
    hip: Optional[str] = None
    driver: Optional[str] = None
    nccl: Optional[str] = None


@dataclass(frozen=True)
class Progress:
    """How far it is: `done` of `total` steps, and what is being done."""

    done: int
    total: int
    what: str


@dataclass(frozen=True)
class MeasuredValue:
    """One answer. A later one of the same name, src, dst, variant and size replaces it."""

    name: str
    """p2p: access, arrival, one-way, both-ways (this direction while the other runs too), together
    (both directions added), latency. nccl: collective, init, all-reduce-busbw, all-reduce-algbw,
    send-receive. Every other name is the quantity of a snapshot (topology/model/snapshot.py)."""
    src: str
    """Empty, like `dst`, for what all devices do together; alone it is the one device."""
    dst: str
    method: str
    device_kind: str
    engine: str
    """What moved the bytes: "copy engine", "copy, staged through the host", "kernel store", ..."""
    direction: str
    """In words: who writes into whose memory, one way or both."""
    verdict: Optional[str] = None
    """access: granted, not-granted. arrival: arrived, wrong-bytes, not-granted, failed.
    collective: finished, wrong-data, failed, timed-out. Figures: verified or wrong-data, where the
    copied data was compared; send-receive also failed, timed-out."""
    value: Optional[float] = None
    """Median of the samples, in `unit`; None where there is no figure."""
    unit: Optional[str] = None
    """GB/s (10^9 bytes per second), TFLOP/s, us or s."""
    why: Optional[str] = None
    """Why there is no figure, or what is odd about it."""
    minimum: Optional[float] = None
    maximum: Optional[float] = None
    samples: tuple[float, ...] = ()
    bytes_per_copy: Optional[int] = None
    copies_per_sample: Optional[int] = None
    attempt: int = 1
    """2 when a low or restless figure was measured again."""
    checked_bytes: Optional[int] = None
    wrong_bytes: Optional[int] = None
    first_wrong_offset: Optional[int] = None
    variant: str = ""
    """Which of several figures of one name and device: a shape, a kind of memory, a pattern."""
    counted: str = ""
    """What `value` counts: "bytes copied, once", "bytes read + bytes written", ..."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else was seen: clocks, PCIe generation, shapes; JSON values with the unit in the key."""


@dataclass(frozen=True)
class Note:
    """Something worth knowing that is not a figure."""

    topic: str
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Log:
    """A piece of what a library wrote into one rank's debug log; the pieces come in order."""

    rank: int
    text: str
    """As it was written, control characters included: hostile until it is parsed."""
    cut_bytes: int = 0
    """So many bytes were left out between this piece and the one before."""


@dataclass(frozen=True)
class Done:
    """The probe reached its end."""

    elapsed_seconds: float


@dataclass(frozen=True)
class Failure:
    """The probe stopped. `error`: no-torch, refused, bad-request, timed-out or failed."""

    error: str
    text: str


Message = Union[Request, Hello, Progress, MeasuredValue, Note, Log, Done, Failure]

_KINDS: dict[str, Any] = {
    "request": Request,
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
    """One line, newline included. ValueError for NaN and infinities, which JSON does not have."""
    body = {"v": VERSION, "kind": _KIND_OF[type(message)], **dataclasses.asdict(message)}
    return json.dumps(body, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> Message:
    """The message in one line, or ProtocolError."""
    if len(line) > LINE_LIMIT_BYTES:
        raise ProtocolError("too-long", f"a line of {len(line)} bytes")
    try:
        body = json.loads(line.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite)
        if b"\\ud" in line.lower():
            # Half a surrogate pair, as of a variable that is no UTF-8: no document can hold it.
            body = json.loads(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError("not-json", "a line that is no JSON") from error
    if not isinstance(body, dict):
        raise ProtocolError("shape", "a line that is no JSON object")
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
    """A dataclass from a JSON object with exactly its fields."""
    if not isinstance(body, dict) or not body.keys() <= _HINTS[cls].keys():
        raise ProtocolError("shape", f"no {cls.__name__}")
    values = {name: _fit(value, _HINTS[cls][name]) for name, value in body.items()}
    try:
        return cls(**values)
    except TypeError as error:
        raise ProtocolError("shape", f"{cls.__name__} with fields missing") from error


def _fit(value: Any, hint: Any) -> Any:
    """The value as the hint wants it, or ProtocolError."""
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
    if hint in _HINTS:
        return _build(hint, value)
    raise ProtocolError("shape", "a field of the wrong type")
