"""The messages to the app: one report a tick, and the news of a probe."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from gputop.measuring.state import ProbeStep as ProbeStep
from gputop.measuring.state import SuiteState as SuiteState

if TYPE_CHECKING:
    from gputop.measuring.nccl_check import NcclCheck
    from gputop.topology.diagnosis.symptoms.log import ReadLog
    from gputop.topology.model.snapshot import Measurement
    from gputop.topology.report import Report


@dataclass
class ReportReady(Message):
    """A fresh report, from the refresh thread."""

    report: Report

    def can_replace(self, message: Message) -> bool:
        """A later report takes the place of one that is still queued, so a slow terminal skips."""
        return isinstance(message, ReportReady)


@dataclass
class RefreshFailed(Message):
    """The refresh thread could not make a report, or a part of it; the text says why."""

    text: str
    what: str = "no report"
    """What is missing."""


@dataclass
class PolicyFailed(Message):
    """The site's policy about findings cannot be used; the text says why."""

    text: str


class ProbeMessage(Message):
    """A message of the measuring thread; the app hands it to its ProbeController."""

    run = 0
    """Which runs it belongs to: those of an earlier node count no more."""


@dataclass
class ProbeStarted(ProbeMessage):
    """A probe has started."""

    probe: str
    python: str
    """Path of the interpreter that measures."""
    note: str = ""
    """How that interpreter was found, or a warning worth one line."""


@dataclass
class ProbeProgress(ProbeMessage):
    """The progress of a probe."""

    done: int
    total: int
    what: str
    """What is measured right now: "0000:1b:00.0 to 0000:43:00.0, latency"."""


@dataclass
class ProbeMeasured(ProbeMessage):
    """One more figure."""

    measurement: Measurement


@dataclass
class SuiteChanged(ProbeMessage):
    """The state of a suite after a step began, moved on or ended."""

    state: SuiteState

    def can_replace(self, message: Message) -> bool:
        """Only the last one counts."""
        return isinstance(message, SuiteChanged)


@dataclass
class NcclChecked(ProbeMessage):
    """The log of a run of the probe nccl, beside its prediction."""

    check: NcclCheck | None
    """None when the comparison itself failed."""
    text: str = ""
    """Why it failed."""
    read: ReadLog | None = None
    """The log itself, explained and compared, for the Log screen."""


@dataclass
class ProbeEnded(ProbeMessage):
    """A probe has ended."""

    status: str
    """"finished", "cancelled", "refused", "died", "timed out", "garbled", "no torch", "failed"."""
    text: str
    """One sentence for a person."""
    forcible: bool = False
    """Whether the same request with force would go on."""
    probe: str = ""
    """The probe, or "probes" for several; empty for the one that was started last."""


@dataclass
class ScreenWanted(Message):
    """Somebody asked for another screen by its name."""

    name: str


@dataclass(frozen=True)
class ProbeState:
    """The state of a probe, as the screens show it."""

    probe: str
    running: bool = True
    python: str = ""
    note: str = ""
    done: int = 0
    total: int = 0
    what: str = ""
    status: str = ""
    """Why it ended; empty while it runs."""
    text: str = ""
    forcible: bool = False
    measured: frozenset[Hashable] = frozenset()
    """Keys of the figures of this run, once it has ended."""
