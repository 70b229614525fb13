"""The messages to the app: one report a tick, and the news of a probe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from gputop.measuring.nccl_check import NcclCheck
    from gputop.measuring.state import SuiteState
    from gputop.topology.diagnosis.symptoms.log import ReadLog
    from gputop.topology.model.snapshot import Measurement
    from gputop.topology.report import Report
    from gputop.topology.sources.feed import Past


@dataclass
class ReportReady(Message):
    """A fresh report, from the refresh thread."""

    report: Report

    def can_replace(self, message: Message) -> bool:
        """A later report takes the place of one that is still queued, so a slow terminal skips."""
        return isinstance(message, ReportReady)


@dataclass
class LookedBack(Message):
    """What a feed remembers of the minutes before it was opened."""

    past: Past


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
class ScreenWanted(Message):
    """Somebody asked for another screen by its name."""

    name: str
