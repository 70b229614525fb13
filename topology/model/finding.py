"""Finding: the only record of a fault, whoever found it: a rule, a log, a fleet, a job, a probe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from .page import Fact, Fix
from .severity import CANNOT_TELL, Origin, Severity, Sureness, Word

POSSIBLY = "Possibly"
"""What stands before a cause that is one of several."""
_HEDGES = re.compile(
    r"(?i)\b(?:may|might|possibl[ey]|perhaps|either|mostly|usually|often|probably|seldom|echo)\b"
)
"""Words of a cause that says itself how sure it is."""


JOB = "job"
"""Id of a finding that says where a job stands: of the job, not of the hardware below it."""
FLAG_COSTS = "flag-costs"
"""Id of a finding that says what variables cost, of this environment or of a running job."""
RAS_ANSWER = "ras-answer"
"""Id of a finding that quotes what NCCL's RAS said of a job."""
MOST_ALIKE = 40
"""So many equal letters at the start of two causes: they are one."""


class Kind(Word):
    """What a finding can be about, besides the devices that it names by their addresses."""

    HOST = "host"
    RANK = "rank"
    PROCESS = "process"
    FLAG = "flag"
    LINE = "line"
    PART = "part"
    """Something that several hosts share, such as a switch."""


class Subject(msgspec.Struct, frozen=True):
    """One thing that a finding is about."""

    kind: Kind
    name: str
    """"g17", "3", "4711", "NCCL_IB_HCA", "812"."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One possible cause of what a finding says, where nothing proves it to be the one."""

    cause: str
    """One sentence."""
    supported_by: tuple[str, ...] = ()
    """Lines of the text that speak for it."""
    contradicted_by: tuple[str, ...] = ()
    """Lines of the text that speak against it."""
    needs: str = ""
    """What would decide: a command, or a fact to fetch."""
    fix: tuple[Fix, ...] = ()

    @property
    def told(self) -> Iterator[tuple[str, str]]:
        """What speaks for it and against it, what decides and what helps: label and text."""
        yield from (("for it", text) for text in self.supported_by)
        yield from (("against it", text) for text in self.contradicted_by)
        if self.needs:
            yield "decides", self.needs
        yield from (("then", " ".join(fix.lines)) for fix in self.fix)

    @property
    def first_told(self) -> Iterator[tuple[str, str]]:
        """What decides, and the first step: label and text."""
        if self.needs:
            yield "Decides", self.needs
        if self.fix:
            yield "Then", " ".join(self.fix[0].lines)


UNSEEN = ("evidence-missing", "nothing-to-examine")
"""Ids of findings that say what was not seen."""


class Finding(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"family": "peers", "impact": "consequence", "about": "subjects"},
):
    """One fault or oddity, with its proof, what follows from it and what helps.

    The fields without a default stand in every JSON document, the others where they are set.
    `Finding.of` fills in those that are empty.
    """

    id: str
    """Id of the rule, or of the symptom of a log; kebab-case, stable."""
    family: str
    """Number of the kind of trouble, "D07"; related rules share one. "" where it has none."""
    severity: Severity
    title: str
    """One line, with the devices by their names."""
    devices: tuple[str, ...]
    """PCI addresses; empty where it concerns the whole node."""
    evidence: tuple[Fact, ...]
    disproof: str
    """Observation that would show that this is wrong."""
    impact: str
    """Consequence for a job on this node."""
    fix: tuple[Fix, ...]
    sources: tuple[str, ...]
    about: tuple[Subject, ...] = ()
    """Its hosts, ranks, flags or lines of a log."""
    origin: Origin = Origin.RULE
    brief: str = ""
    """The fault of its one device in a few words, for a line that names the device: "16 of 18
    NVLinks"; empty where the title is short enough."""
    cost: str = ""
    """The impact as two figures for a column, GB/s on a healthy node and here: "473→355"."""
    cause: str = ""
    """The likely cause; only symptoms of logs have it, as rules say it in the title."""
    look: tuple[str, ...] = ()
    """Where to look for more, without root: only for symptoms of logs."""
    candidates: tuple[Candidate, ...] = ()
    """Possible causes, the best supported first, where none is proven."""
    sureness: Sureness = Sureness.UNSAID
    """For symptoms of logs; rules say only what was read."""
    count: int = 0
    """Number of log lines that show it; `evidence` quotes the first few."""

    @classmethod
    def of(cls, id: str, severity: Severity, title: str, **fields: Any) -> Finding:  # noqa: A002
        """Make a finding; fields that are not given are empty."""
        empty: dict[str, Any] = {
            "family": "", "devices": (), "evidence": (), "disproof": "", "impact": "", "fix": (),
            "sources": (),
        }  # fmt: skip
        return cls(id=id, severity=severity, title=title, **(empty | fields))

    @classmethod
    def read(cls, row: bytes | msgspec.Raw) -> Finding:
        """Decode one of a document, which another version may have written with fewer fields.

        Raises msgspec.DecodeError.
        """
        given = msgspec.json.decode(row, type=dict[str, Any])
        lists = dict.fromkeys(("devices", "evidence", "fix", "sources"), ())
        texts = dict.fromkeys(("peers", "disproof", "consequence"), "")
        return msgspec.convert({**lists, **texts, **given}, cls)

    @property
    def key(self) -> tuple[str, tuple[str, ...], str]:
        """Its identity for as long as its cause lasts: rule, devices and title."""
        return self.id, self.devices, self.title

    @property
    def said_cause(self) -> str:
        """The cause, in words for people: one that is only possible is called so.

        Causes that hedge say it themselves, as candidates and the mark of "cannot tell" do.
        """
        open_ = self.sureness is Sureness.POSSIBLE and not self.candidates
        said = self.severity is CANNOT_TELL or _HEDGES.search(self.cause) is not None
        return f"{POSSIBLY}: {self.cause}" if self.cause and open_ and not said else self.cause

    def possible(self, most: int) -> Iterator[tuple[str, str]]:
        """The likeliest causes where none is proven, with what to do about each: label and text.

        Where several are wanted, what is known of the cause stands first, unless the first of them
        says it again.
        """
        if most > 1 and not self.candidates[0].cause.startswith(self.cause[:MOST_ALIKE]):
            yield "", self.cause
        for number, one in enumerate(self.candidates[:most]):
            yield "Or" if number else POSSIBLY, one.cause
            yield from one.first_told

    @property
    def commands(self) -> tuple[str, ...]:
        """Its commands. They are copied one by one: pasted together, a reset would run unread."""
        return tuple(fix.command for fix in self.fix if fix.command)

    def names(self, kind: Kind) -> tuple[str, ...]:
        """The names of its subjects of one kind: its hosts, its ranks."""
        return tuple(subject.name for subject in self.about if subject.kind is kind)
