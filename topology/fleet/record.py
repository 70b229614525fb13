"""What is kept of each node's file: small, and shared between equal nodes."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import TypeVar

import msgspec

from ..model.characters import harmless
from ..model.finding import Finding
from ..model.severity import FigureBasis, Verdict, Word
from .section import CATEGORIES, EACH_GPU, WHOLE_NODE


def one_line(text: object, most: int) -> str:
    """One line of harmless text, at most so long."""
    return " ".join(harmless(str(text)[: most * 2]).split())[:most]


_T = TypeVar("_T", bound=Hashable)


class FigureKind(msgspec.Struct, frozen=True, kw_only=True):
    """What a figure is a figure of, with the healthy band of the hardware."""

    key: str
    over: str
    """As in `FleetFigure`."""
    unit: str
    healthy: float | None = None
    low: float | None = None
    basis: FigureBasis = FigureBasis.UNSAID

    @property
    def name(self) -> str:
        """For people: "p2p write bandwidth over NV18", "gemm bf16"."""
        beside = "" if self.over in (EACH_GPU, WHOLE_NODE) else f" over {self.over}"
        probe, _, quantity = self.key.replace("_", " ").partition(" ")
        said = quantity if quantity.startswith(probe) else f"{probe} {quantity}".strip()
        return f"{said}{beside}"


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """One node as its file tells."""

    host: str
    path: str
    """The file, below the folder."""
    verdict: Verdict
    """The node's own."""
    taken_at: float
    written_at: float
    """By the node's clock; `taken_at` where the file does not say."""
    modified_at: float
    """The file's time, by the clock of the file system."""
    gputop: str = ""
    job: str | None = None
    rank: int | None = None
    boot_id: str | None = None
    machine: str | None = None
    product: str = ""
    facts: tuple[dict[str, str], ...] = ()
    """Facts of each of CATEGORIES; () where an older gputop wrote none. Equal nodes share them."""
    sizes: tuple[tuple[str, float], ...] = ()
    """What and how many GiB, compared with a tolerance."""
    findings: tuple[Finding, ...] = ()
    """Broken, slow and cannot tell; not what is a notice or by design."""
    kinds: tuple[FigureKind, ...] = ()
    values: array[float] = msgspec.field(default_factory=lambda: array("d"))
    """The middle and the worst of each kind, one after the other."""
    at: tuple[str, ...] = ()
    """Where the worst was measured."""
    measured: bool = False
    redacted: bool = False
    simulated: bool = False

    def category(self, name: str) -> dict[str, str]:
        """The facts of a category."""
        place = CATEGORIES.index(name)
        return self.facts[place] if place < len(self.facts) else {}


class FileFault(Word):
    """Why a file tells nothing about a node."""

    CUT_OFF = "cut-off"
    UNREADABLE = "unreadable"
    NO_FILE = "no-file"
    LINK = "link"
    TOO_LARGE = "too-large"
    FOREIGN = "foreign"
    DAMAGED = "damaged"
    NEWER = "newer"
    OTHER_DOCUMENT = "other-document"
    UNNAMED = "unnamed"


class Unusable(msgspec.Struct, frozen=True, kw_only=True):
    """A file that tells nothing about a node, and why."""

    path: str
    kind: FileFault
    why: str
    """One clause: "it ends in the middle"."""
    host: str | None = None
    """The node that its name stands for; None where it is no name of a host."""
    modified_at: float = 0.0


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """A document of gputop that lies in the folder and is no node: a pair's result, a plan."""

    path: str
    schema: str


class Interned:
    """Keeps one copy of what equal nodes have in common."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Hashable] = {}
        self._facts: dict[bytes, dict[str, str]] = {}

    def intern(self, value: _T) -> _T:
        """The copy that is kept."""
        return self._known.setdefault(value, value)  # type: ignore[return-value]

    def facts(self, raw: bytes) -> dict[str, str]:
        """Facts from JSON; each text is read once. Raises msgspec's errors."""
        found = self._facts.get(raw)
        if found is None:
            read = msgspec.json.decode(raw, type=dict[str, str])
            made = {
                self.intern(one_line(what, 80)): self.intern(one_line(value, 600))
                for what, value in read.items()
            }
            found = self._facts.setdefault(raw, made)
        return found
