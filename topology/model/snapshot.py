"""NodeSnapshot: the one record of a node, and its JSON."""

from typing import Any

import msgspec

from .characters import json_text
from .errors import GputopError
from .finding import Finding
from .kernel_event import KernelEvent
from .machine import Machine
from .page import MEASURED, SIMULATED, Basis
from .readings import Readings
from .record import Record
from .severity import OpenWord

SCHEMA = "gputop.snapshot/1"


DEMO = "demo "
"""What the source of a demo begins with; its name follows."""


class SnapshotError(GputopError, ValueError):
    """A document that is not a snapshot this version can read; the text says why."""


class ProblemKind(OpenWord):
    """Why something could not be read."""

    ABSENT = "absent"
    """There is nothing to ask."""
    DENIED = "denied"
    NOT_ANSWERING = "not answering"
    LOST = "lost"
    MISMATCH = "mismatch"
    FAILED = "failed"
    RESET = "reset"
    """A single question about a GPU that is not answered before a reset."""
    ERROR = "error"
    """A single question about a GPU that failed otherwise."""
    CUT = "cut off"
    """More than gputop reads: a limit of ours, and no failure of anything asked."""


class Problem(Record, frozen=True, kw_only=True):
    """Something that could not be read, in one sentence for a person."""

    identity = ("source", "kind", "text")

    source: str
    """Id of the source: "nvml", "pci", ..."""
    text: str
    kind: ProblemKind = ProblemKind.FAILED
    devices: tuple[str, ...] = ()
    """PCI addresses of the GPUs that it is about; "nvml:3" where the library counts a GPU and gives
    no address."""


class SourceState(Record, frozen=True, kw_only=True):
    """When a source answered last."""

    source: str
    age_seconds: float | None = None
    """Age of its last answer when the snapshot was made; None when it never answered."""
    elapsed_seconds: float | None = None
    """How long that answer took."""
    waiting_seconds: float | None = None
    """How long the open question has been unanswered, once it is past its deadline."""


class EnvironmentVariable(Record, frozen=True, kw_only=True):
    """One listed variable that changes what NCCL, RCCL or CUDA does."""

    identity = ("name", "origin")

    name: str
    value: str
    origin: str
    """"environment" or the path of the file that sets it."""

    @property
    def exported(self) -> bool:
        """Whether the environment sets it, not a file."""
        return self.origin == "environment"


class DataVerdict(OpenWord):
    """What a probe says besides a figure."""

    GRANTED = "granted"
    """Of can_access, as is NOT_GRANTED."""
    NOT_GRANTED = "not-granted"
    """Of bytes_arrive too."""
    ARRIVED = "arrived"
    """Of bytes_arrive, as are WRONG_BYTES and FAILED."""
    WRONG_BYTES = "wrong-bytes"
    FAILED = "failed"
    """Of collective_finishes and send_receive too, as are WRONG_DATA and TIMED_OUT."""
    VERIFIED = "verified"
    """Of bandwidths whose data was compared, as is WRONG_DATA."""
    WRONG_DATA = "wrong-data"
    FINISHED = "finished"
    TIMED_OUT = "timed-out"


class Measurement(Record, frozen=True, kw_only=True, rename={"way": "direction"}):
    """One figure that a probe measured, with all that is needed to judge it later."""

    probe: str
    """Name of the probe: "p2p", "host", "gemm", ..."""
    quantity: str
    """A key that the probe declares in its SPEC; `quantities` lists those that gputop reasons
    about."""
    src: str | None = None
    """PCI address of the device that does the work; None where all devices do."""
    dst: str | None = None
    value: float | None = None
    """Median of the samples."""
    unit: str | None = None
    low: float | None = None
    high: float | None = None
    samples: int | None = None
    bytes_per_copy: int | None = None
    copies_per_sample: int | None = None
    engine: str | None = None
    """"copy engine", "kernel", "NCCL", "RCCL", ..."""
    way: str | None = None
    """Who sends to whom, in words; "direction" in JSON."""
    verdict: DataVerdict | None = None
    why_none: str | None = None
    """Why there is no figure, or what is unusual about it."""
    device_kind: str | None = None
    """"gpu"; "cpu" for the self-test, whose figures say nothing about any GPU; "simulated" for a
    demo, whose figures are what this hardware should give."""
    method: str | None = None
    """Name and version of the method."""
    taken_at: float | None = None
    """Seconds since the epoch."""
    versions: tuple[tuple[str, str], ...] = ()
    """Versions of driver, CUDA, torch and NCCL that the measuring Python used."""
    variant: str | None = None
    """Which of several figures of one quantity and device this is: a shape, a kind of memory, a
    pattern."""
    counted: str | None = None
    """What the value counts: "bytes copied, once", "bytes read + bytes written", ..."""
    details: dict[str, Any] = msgspec.field(default_factory=dict)
    """Other observations: clocks, PCIe generation, shapes; the unit is in the key. "pasted": the
    program whose output somebody pasted, where no probe measured it."""

    @property
    def source(self) -> str:
        """Where it is from, for evidence."""
        pasted = self.details.get("pasted")
        if isinstance(pasted, str):
            return f"pasted output of {pasted}"
        return f"{SIMULATED} probe {self.probe}" if self.simulated else f"probe {self.probe}"

    @property
    def basis(self) -> Basis:
        """How it is known: measured or simulated."""
        return SIMULATED if self.simulated else MEASURED

    @property
    def simulated(self) -> bool:
        """Whether nobody measured it: it belongs to a demo."""
        return self.device_kind == SIMULATED

    @property
    def on_cpu(self) -> bool:
        """Whether it is of the self-test, which says nothing about any GPU."""
        return self.device_kind == "cpu"

    @property
    def wrong(self) -> bool:
        """Whether wrong data arrived, so that the speed means nothing."""
        return self.verdict in (DataVerdict.WRONG_DATA, DataVerdict.WRONG_BYTES)

    @property
    def credible(self) -> bool:
        """Whether it has a value that says something about GPUs."""
        return self.value is not None and not self.wrong and not self.on_cpu

    @property
    def key(self) -> tuple[str | int | None, ...]:
        """What is measured: a later figure with the same key replaces this one."""
        return (
            self.probe,
            self.quantity,
            self.src,
            self.dst,
            self.way,
            self.variant,
            self.bytes_per_copy,
        )


class NodeSnapshot(Record, frozen=True, kw_only=True):
    """A node at one moment, whatever it was read from."""

    schema: str = SCHEMA
    gputop: str = ""
    """Version of gputop that made it."""
    taken_at: float
    """Seconds since the epoch."""
    source: tuple[str, ...] = ("live",)
    """Where it was read: "live", "demo hgx-h100-8", or names of files."""
    machine: Machine = Machine()
    readings: Readings = Readings()
    environment: tuple[EnvironmentVariable, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    kernel_events: tuple[KernelEvent, ...] | msgspec.UnsetType = msgspec.UNSET
    """Faults that the kernel's log tells of; not in the document where there are none."""
    states: tuple[SourceState, ...] = ()
    problems: tuple[Problem, ...] = ()
    assumptions: tuple[str, ...] = ()
    symptoms: tuple[Finding, ...] = ()
    """What logs in the same texts say went wrong, as `gputop log` finds it."""

    def has_answered(self, source: str) -> bool:
        """Whether a source of the node told something, however long ago."""
        gone = [one for one in self.problems if one.kind == ProblemKind.ABSENT]
        told = [one for one in self.states if one.age_seconds is not None]
        return source in {one.source for one in told} - {one.source for one in gone}

    @property
    def is_live(self) -> bool:
        """Whether this machine was read, and no file."""
        return self.source == ("live",)

    @property
    def is_demo(self) -> bool:
        """Whether this is a demo alone: its probes are simulated, those of a file never."""
        return len(self.source) == 1 and self.source[0].startswith(DEMO)

    @property
    def simulated(self) -> bool:
        """Whether it holds simulated figures, even if it was read from a file since."""
        return any(figure.simulated for figure in self.measurements)


def encode(snapshot: NodeSnapshot) -> bytes:
    """Write a snapshot as JSON, UTF-8, one document, indented by two blanks."""
    return json_text(snapshot).encode()


def decode(data: bytes) -> NodeSnapshot:
    """Read what `encode` wrote.

    Raises SnapshotError when the document is not JSON, not a snapshot, of another schema
    version, or does not fit the schema.
    """
    try:
        if not data.isascii():
            data.decode()  # msgspec does not look into strings that it passes over
        schema = _schema_of(data)
        if not isinstance(schema, str) or not schema.startswith("gputop.snapshot/"):
            raise SnapshotError("not a gputop snapshot: no schema gputop.snapshot/N in it")
        if schema != SCHEMA:
            raise SnapshotError(f"schema {schema[:60]!r}: this gputop reads {SCHEMA}")
        return msgspec.json.decode(data, type=NodeSnapshot)
    except msgspec.ValidationError as error:
        raise SnapshotError(f"does not fit {SCHEMA}: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(f"not JSON: {error}") from error


class _Head(msgspec.Struct):
    """What says whether a document is a snapshot; the rest is passed over, not read."""

    schema: Any = None


def _schema_of(data: bytes) -> object:
    try:
        return msgspec.json.decode(data, type=_Head).schema
    except msgspec.ValidationError:
        return None
