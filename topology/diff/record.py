"""What a comparison of two nodes, or of one node at two times, is made of."""

from __future__ import annotations

import msgspec

from ..fleet.record import FigureKind
from ..fleet.section import FleetFigure
from ..model.finding import Finding
from ..model.severity import NOTICE, Mark, Severity, Verdict, Word
from ..node import Node

Facts = dict[str, dict[str, str]]
"""Category -> what -> value, as the file of a check has them."""


class DiffVerdict(Mark):
    """What a comparison comes to, for the second of the two.

    other: something differs, and nothing shows that it does harm.
    """

    WORSE = "worse", "✗", "bad", "worse", 1
    CANNOT_TELL = "cannot tell", "?", "warn", "cannot tell", 3
    OTHER = "other", "•", "muted", "differs"
    BETTER = "better", "✓", "good"
    SAME = "same", "✓", "good"


class DiffRelation(Word):
    """How the two nodes are related; sister: another machine with the same GPUs."""

    SAME = "the same machine"
    SISTER = "two machines of one kind"
    OTHER = "two kinds of machine"
    UNKNOWN = "not known to be the same machine"


class ChangedPart(Word):
    """What a change belongs to, in the order in which equally harmful ones are told."""

    DEVICES = "devices"
    ENVIRONMENT = "environment"
    LIBRARY = "library"
    WIRING = "wiring"
    DECISIONS = "decisions"
    FIGURES = "figures"
    COUNTERS = "counters"
    HARDWARE = "hardware"
    DRIVER = "driver"
    FIRMWARE = "firmware"
    SETTINGS = "settings"


PARTS = tuple(ChangedPart)


class NodeChange(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is other in the second."""

    part: ChangedPart
    what: str
    """"driver", "NVLinks up of GPU3", "NCCL_P2P_DISABLE"."""
    before: str
    """"" where there is none."""
    now: str
    severity: Severity = NOTICE
    """broken and slow: the second is worse by it; notice: nothing shows harm."""
    gain: bool = False
    """Whether the second is better by it."""
    meaning: str = ""
    """What follows from it, in a sentence or a clause."""
    brief: str = ""
    """The same in a few words, for the line that answers; "" where the values say enough."""
    devices: tuple[str, ...] = ()
    """PCI addresses in the second, of what is gone in the first."""

    @property
    def moved(self) -> str:
        """Both values: "16 → 8"; one alone where it says all."""
        if self.part in (ChangedPart.COUNTERS, ChangedPart.DEVICES) and not (
            self.before and self.now
        ):
            return self.before or self.now
        return f"{self.before or 'none'} → {self.now or 'none'}"


class Uncompared(msgspec.Struct, frozen=True, kw_only=True):
    """What cannot be compared, as one of the two does not tell it."""

    part: str
    what: tuple[str, ...]
    why: str


class DiffSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two: what it tells, whatever it was read from."""

    name: str
    """"before.json", "this machine", "demo hgx-h100-8"."""
    host: str | None
    taken_at: float
    """Seconds since the epoch; 0 where the text does not tell."""
    verdict: Verdict
    product: str
    """"8 × NVIDIA H100 80GB HBM3"."""
    machine: str | None
    """A digest of the UUIDs of its GPUs."""
    findings: tuple[Finding, ...]
    examined: frozenset[str]
    """Ids of the rules that had their evidence."""
    facts: Facts
    sizes: dict[str, float]
    figures: tuple[FleetFigure, ...]
    simulated: bool = False
    """Whether its figures are those of a demo."""
    node: Node | None = None
    """None of the file of a check that holds no snapshot."""


def kind_of(figure: FleetFigure) -> FigureKind:
    """What a figure is a figure of."""
    return FigureKind(key=figure.key, over=figure.over, unit=figure.unit)
