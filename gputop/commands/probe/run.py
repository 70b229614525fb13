"""A run of `gputop probe`: prints figures as they come, or one document at the end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputop.commands.probe import nccl_text
from gputop.commands.probe.document import LIVE, document, exit_code, several, worst
from gputop.commands.probe.report import report
from gputop.commands.probe.verdict_text import summary
from gputop.exits import ANSWERED, INTERRUPTED, Exit
from gputop.measuring import history
from gputop.measuring.attended import Attended
from gputop.measuring.expected import Expecting
from gputop.measuring.nccl_check import check_run
from gputop.measuring.running import MakeSuite, Suite
from gputop.measuring.runs import note_lines, with_names
from gputop.probes.protocol.status import Status
from gputop.simulating.suite import simulated_suite
from gputop.terminal.lines import print_json, warn
from gputop.terminal.writing import code_of, write_whole
from gputop.topology.model.snapshot import NodeSnapshot

if TYPE_CHECKING:
    from gputop.measuring.expected import Expectations
    from gputop.measuring.nccl_check import NcclCheck
    from gputop.measuring.planning import Plan
    from gputop.measuring.state import ProbeRun


class SuiteRun:
    """Runs a plan and prints the results of each probe."""

    def __init__(
        self,
        plan: Plan,
        snapshot: NodeSnapshot | None,
        changes: dict[str, str],
        version: str | None,
        logs: Path | None,
        *,
        as_json: bool,
    ) -> None:
        self._plan = plan
        self._snapshot = snapshot
        self._changes = changes
        self._version = version
        self._logs = logs
        self._as_json = as_json
        self._names = dict(plan.steps[0].request.names)
        self._expecting = Expecting(snapshot, self._names)
        self._source = LIVE if snapshot is None else snapshot.source
        self._documents: list[dict[str, Any]] = []
        self._codes = [ANSWERED]
        self._said: set[str] = set()

    def run(self) -> int:
        """Run the plan and return the exit code."""
        attended = Attended(self._plan, self._make())
        many = len(self._plan.steps) > 1
        if many or self._plan.simulated:
            warn(self._plan.sentence)
        for run in attended.ends():
            self._ended(run)
        if attended.interrupted:
            self._codes.append(INTERRUPTED)
        state = attended.state
        if self._as_json:
            print_json(several(self._documents, self._source))
        elif many and state is not None:
            click.echo(summary(state))
        return worst(self._codes)

    def _make(self) -> MakeSuite:
        """What makes the suite: a real one, or that of a demo."""
        if self._snapshot is None or not self._plan.simulated:
            return Suite
        # Where nobody watches there is nothing to wait for.
        return simulated_suite(self._snapshot, at_once=not sys.stderr.isatty())

    def _ended(self, run: ProbeRun) -> None:
        """Judge, print and keep the figures of one probe."""
        check = None
        if run.outcome.logs:
            check = check_run(self._snapshot, run, self._changes, library=self._version)
            if self._logs is not None:
                keep_logs(run, self._logs)
        known = self._expecting.of(run.measurements)
        if self._as_json:
            self._documents.append(document(run, check, known, self._source))
        else:
            self._print(known, check)
        note = history.keep_result(
            self._snapshot, run, [judgement.verdict for judgement in known.judgements]
        )
        self._print_notes(run, note)
        self._codes.append(exit_code(run, low=known.low))

    def _print(self, known: Expectations, check: NcclCheck | None) -> None:
        """Print the figures and the check on stdout."""
        blocks = [report(known, self._names)] if known.figures else []
        if check is not None:
            blocks.append(nccl_text.text(check, self._names))
        if any(blocks):
            click.echo("\n\n".join(block for block in blocks if block) + "\n")

    def _print_notes(self, run: ProbeRun, kept: str) -> None:
        """Print notes and the outcome on stderr, each text once for all probes."""
        for text in (
            *run.blind,
            *note_lines(run.outcome.notes, self._names),
            *([kept] if kept else []),
        ):
            self._once(f"note: {text}", text)
        if run.status != Status.SKIPPED:
            message = with_names(run.outcome.message, self._names)
            self._once(f"{run.name}: {message}", message)

    def _once(self, line: str, key: str) -> None:
        if key not in self._said:
            self._said.add(key)
            warn(line)


def keep_logs(run: ProbeRun, folder: Path) -> None:
    """Write the debug log of each rank into a folder; raises Exit when that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for rank in run.outcome.ranks_logged():
            path = folder / f"rank{rank}.log"
            write_whole(path, run.outcome.log_of(rank))
    except OSError as error:
        why = f"cannot write the logs: {error.strerror}: {folder}"
        raise Exit(why, code_of(error)) from error
