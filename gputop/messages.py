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
    superseded = False
    """Whether a later one is queued, which the screens show instead: so a slow machine skips."""


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
    superseded = False
    """Whether a later one is queued: only the last one counts."""


@dataclass
class NcclChecked(ProbeMessage):
    """The log of a run of the probe nccl, beside its prediction."""

    check: NcclCheck | None
    """None when the comparison itself failed."""
    text: str = ""
    """Why it failed."""
    read: ReadLog | None = None
    """The log itself, explained and compared, for the Log screen."""


class Newest:
    """The last message of each kind of which only the newest counts.

    Textual's own `can_replace` compares neighbours alone, and what is measured lies between.
    """

    def __init__(self) -> None:
        self._posted: dict[type, ReportReady | SuiteChanged] = {}

    def see(self, message: Message) -> None:
        """Let a message that is posted supersede the one before; from any thread."""
        if isinstance(message, (ReportReady, SuiteChanged)):
            before = self._posted.get(type(message))
            self._posted[type(message)] = message
            if before is not None and before is not message:
                before.superseded = True


@dataclass
class ScreenWanted(Message):
    """Somebody asked for another screen by its name."""

    name: str
