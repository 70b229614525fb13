"""What a debug log of NCCL or RCCL says. Line numbers count from 1."""

import msgspec

from ...model.severity import Word
from ...model.versions import LibraryName
from ...recorded.pasted import PastedText
from ...recorded.said_versions import SaidVersion
from .communicator import Communicator, LoggedSystem, Proof
from .milestones import Reached
from .own_diagnostics import OwnDiagnostics


class NoteLevel(Word):
    """How a line is marked; other: not by the library, but a framework's last words."""

    WARN = "WARN"
    INFO = "INFO"
    OTHER = "OTHER"


WARN, INFO, OTHER = NoteLevel


class LogNote(msgspec.Struct, frozen=True, kw_only=True):
    """A warning, an error or a remark; lines that differ only in numbers are one note."""

    level: NoteLevel
    text: str
    """The first line of its kind."""
    where: str | None = None
    """Source file and line that the library names: "misc/socket.cc:484"."""
    line: int
    count: int = 1
    hosts: tuple[str, ...] = ()
    """Hosts that print it, at most 8."""
    ranks: tuple[int, ...] = ()
    """Ranks that print it, where known, at most 64."""

    @property
    def words(self) -> str:
        """The text with the source file in front: "transport/nvls.cc:254 ..."."""
        return f"{self.where} {self.text}" if self.where else self.text


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """A variable that the library says it read."""

    name: str
    value: str
    line: int
    count: int = 1
    hosts: tuple[str, ...] = ()
    remark: str | None = None
    """The library's remark: "invalid, the default 0 is used"."""
    pasted: bool = False
    """It stands in the text as `NAME=VALUE`; the library does not say that it read it."""
    ranks: tuple[int, ...] = ()
    """Ranks of the largest communicator that read this value, where known, at most 64."""
    unread_by: tuple[int, ...] = ()
    """Ranks that are ready, whose lines are all there, and that never say that they read it."""

    @property
    def said(self) -> str:
        """The line that shows it, as it reads."""
        if self.pasted:
            return f"{self.name}={self.value}"
        return f"{self.name} set by environment to {self.value}"


class RankProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a rank came, as PyTorch's watchdog says when a collective does not end."""

    group: str = ""
    """Identity of the process group ("PG GUID", before "PG"); "" where none is named."""
    rank: int
    enqueued: int | None = None
    """Number of the last collective that the rank called."""
    completed: int | None = None
    """Number of the last one that ended there."""
    work: int | None = None
    """Number of the collective that did not end."""
    operation: str | None = None
    """Its kind: "ALLREDUCE"."""
    elements: tuple[int, int] | None = None
    """Elements that go in and that come out."""
    line: int
    text: str


class LoggedVersions(msgspec.Struct, frozen=True, kw_only=True):
    """The library that wrote the log."""

    library: LibraryName | None = None
    version: str | None = None
    """"2.28.9"."""
    built_for: str | None = None
    """"cuda13.0"; RCCL: "ROCm 6.3.0"."""
    driver: int | None = None
    """cudaDriverVersion as printed: 13000."""
    others: tuple[Proof, ...] = ()
    """Further versions in the same log, of ranks that run another one."""
    line: int | None = None
    beside: tuple[SaidVersion, ...] | None = None
    """What lines of the text say of other products: drivers, frameworks, plugins."""


class LogReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is kept from one log."""

    name: str = ""
    versions: LoggedVersions = LoggedVersions()
    environment: tuple[Variable, ...] = ()
    communicators: tuple[Communicator, ...] = ()
    notes: tuple[LogNote, ...] = ()
    """Warnings, errors and the remarks about networks, plugins, NVLS, GDR."""
    hosts: tuple[str, ...] = ()
    bootstrap: tuple[str, ...] = ()
    """Interfaces used for bootstrap."""
    lines: int = 0
    bytes: int = 0
    library_lines: int = 0
    """Number of lines of NCCL or RCCL."""
    kinds: dict[str, int] = {}
    """Kind -> number of lines; "elsewhere" counts those of other programs."""
    unread: tuple[LogNote, ...] = ()
    """Lines that carry a decision in an unknown form."""
    cut: int = 0
    """Lines that end in the middle, or into which another line was written."""
    unknown: tuple[LogNote, ...] = ()
    """Examples of lines in unknown forms, a few of each form."""
    openings: tuple[LogNote, ...] = ()
    """The first lines that speak of nothing known."""
    context: tuple[LogNote, ...] = ()
    """The first lines of other programs, shells and settings, as they read."""
    suspects: tuple[LogNote, ...] = ()
    """The first lines without the library's head that speak of a failure in unknown words."""
    progress: tuple[RankProgress, ...] = ()
    """How far ranks came, by line; only where PyTorch's watchdog says it."""
    diagnostics: tuple[OwnDiagnostics, ...] = ()
    """Reports of NCCL's own diagnostics."""
    busy: tuple[LogNote, ...] = ()
    """Work that had not ended when the first collective's time was over: loading, saving."""
    milestones: tuple[Reached, ...] = ()
    """How far programs say that their runs came."""
    systems: tuple[LoggedSystem, ...] = ()
    """System blocks of processes that name no communicator in this text."""
    pasted: PastedText | None = None
    """What outputs of other tools in the same text say of the node."""
    outputs_until: int | None = None
    """The line from which on outputs of tools were not looked for; None: in all of it."""
    more: dict[str, int] = {}
    """What -> how much of it was left out to keep memory bounded."""

    @property
    def empty(self) -> bool:
        """Whether nothing in it comes from NCCL or RCCL or is known to concern them."""
        outputs = self.pasted is not None and self.pasted.sections
        return not (self.library_lines or self.notes or self.environment or outputs)

    @property
    def main(self) -> Communicator | None:
        """The communicator with the most ranks; of equal ones the one that the log shows best."""
        return max(
            self.communicators,
            key=lambda comm: (comm.nranks, bool(comm.systems), len(comm.transports), -comm.line),
            default=None,
        )

    def set(self, name: str) -> tuple[Variable, ...]:
        """The values that the log shows for a variable."""
        return tuple(variable for variable in self.environment if variable.name == name)

    def variable(self, name: str) -> Variable | None:
        """Find a variable by name; None when the log does not show it."""
        return next((variable for variable in self.environment if variable.name == name), None)
