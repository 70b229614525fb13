"""The findings of a session: which of them are silenced, and which command is copied next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.live.worst_jobs import wrong
from gputop.topology.jobs.finding import finding_of

if TYPE_CHECKING:
    from gputop.live.findings import FindingKey, Shown
    from gputop.topology.jobs.asking import JobsReport
    from gputop.topology.model.finding import Finding
    from gputop.topology.report import Report


class FindingsController:
    """Keeps what a person silenced until the app ends or shows another node."""

    def __init__(self) -> None:
        self.quiet: frozenset[FindingKey] = frozenset()
        """Keys of the silenced findings."""
        self._jobs: tuple[Finding, ...] = ()
        self._copied: tuple[tuple[str, ...], int] = ((), 0)
        """The commands of which one was copied last, and the place of the next."""

    def shown(self, report: Report | None) -> Shown | None:
        """The findings of a report; None where the rules were not asked yet."""
        if report is None or report.diagnosis is None:
            return None
        # The import brings the rules along, which the first picture does not need.
        from gputop.live.findings import shown

        return shown(report, self.quiet, self._jobs)

    def of_jobs(self, answer: JobsReport | None) -> None:
        """Show a finding for each job that something is wrong with, as `check --jobs` does."""
        self._jobs = tuple(map(finding_of, wrong(answer)))

    def silence(self, key: FindingKey) -> bool:
        """Silence a finding or undo that; returns whether it is silenced now."""
        self.quiet ^= {key}
        return key in self.quiet

    def forget_silenced(self) -> None:
        """Forget what was silenced: another node is shown."""
        self.quiet, self._jobs = frozenset(), ()

    def next_command(self, commands: tuple[str, ...]) -> tuple[str, str]:
        """The first of these commands, or the one after the last call's; and a note on it."""
        known, place = self._copied
        place = place % len(commands) if known == commands else 0
        self._copied = (commands, place + 1)
        note = f" ({place + 1} of {len(commands)}, y: the next)" if len(commands) > 1 else ""
        return commands[place], note
