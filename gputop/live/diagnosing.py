"""When the rules are asked again in the app: at once after a change, else every few seconds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from gputop.exits import Exit
from gputop.topology.plugins import PLUGINS

if TYPE_CHECKING:
    from gputop.topology.diagnosis.engine import Diagnosis
    from gputop.topology.diagnosis.policy import Policy
    from gputop.topology.expectation.reference import Reference
    from gputop.topology.model.snapshot import NodeSnapshot
    from gputop.topology.node import Node
    from gputop.topology.report import Report

CHANGED_SECONDS, CHANGED_COSTS = 1.0, 20
"""After a change the rules wait at least this long, or this many times their last run time."""
MOVED_SECONDS, MOVED_COSTS = 5.0, 200
"""The same where only readings moved: at most half a percent of a core."""
SETTLED_SECONDS = 2.0
"""By then every source has answered, so that counters have a value to start from."""
WINDOW_SECONDS = 600.0
"""Counters are compared with a reading that is one to two of these old. A finding about them
disappears again; its event stays in the list."""


class Diagnosing:
    """Asks the rules about reports of one node; used by one thread alone."""

    def __init__(self) -> None:
        self.diagnosis: Diagnosis | None = None
        """The last diagnosis; an equal one is the same object."""
        self.trouble = ""
        """Why the site's policy cannot be used and silences nothing; "" where it can."""
        self._policy: Policy | None = None
        self._reference: Reference | None = None
        self._started: float | None = None
        self._earlier: tuple[float, NodeSnapshot] | None = None
        """Time (monotonic: the clock of the host may jump) and snapshot of the earlier reading."""
        self._next: tuple[float, NodeSnapshot] | None = None
        """The reading that becomes the earlier one once it is old enough."""
        self._last: NodeSnapshot | None = None
        self._decided_by: tuple[object, ...] = ()
        self._prediction: object = None
        self._asked_at = 0.0
        self._cost = 0.0

    def due(self, report: Report, now: float) -> bool:
        """Whether the rules should be asked about this report; `now` monotonic."""
        if PLUGINS.held:
            return False  # rules of plugins are looked up behind the first row
        if self._last is None:
            return True
        waited = now - self._asked_at
        if self._prediction is not report.prediction or self._decided_by != _deciding(report):
            return waited >= max(CHANGED_SECONDS, CHANGED_COSTS * self._cost)
        if report.snapshot is self._last:
            return False
        return waited >= max(MOVED_SECONDS, MOVED_COSTS * self._cost)

    def ask(self, report: Report, now: float) -> bool:
        """Ask the rules if that is due; whether the diagnosis is new. Takes milliseconds."""
        self._keep(report.snapshot, now)
        if not self.due(report, now):
            return False
        from gputop.topology.diagnosis.case import Case
        from gputop.topology.diagnosis.engine import diagnose

        snapshot, earlier = report.snapshot, self._before(report.snapshot, now)
        # Before the rules run: should that fail, the same report would fail again.
        first, self._last = self._last is None, snapshot
        self._asked_at, self._decided_by = now, _deciding(report)
        self._prediction = report.prediction
        if self._policy is None:
            self._read_policy(live=snapshot.is_live)
        begun = time.perf_counter()
        found = diagnose(
            Case(report.node, earlier=earlier, reference=self._reference, policy=self._policy)
        )
        if not first:
            # The first time most of it is imports.
            self._cost = time.perf_counter() - begun
        if found == self.diagnosis:
            return False
        self.diagnosis = found
        return True

    def asked_of(self, node: Node) -> Diagnosis:
        """What the rules find on another state of the node, such as a what-if; from any thread."""
        from gputop.topology.diagnosis.case import Case
        from gputop.topology.diagnosis.engine import diagnose

        earlier = self._before(node.snapshot, time.monotonic())
        return diagnose(Case(node, earlier=earlier, reference=self._reference, policy=self._policy))

    def _read_policy(self, *, live: bool) -> None:
        """Read the site's policy; its expected node applies to live machines only."""
        from gputop.checking.policy import site
        from gputop.topology.diagnosis.engine import load
        from gputop.topology.diagnosis.policy import Policy

        self._policy = Policy()
        try:
            decided = site(None, (), load())
            self._policy = decided.policy
            if live and decided.expect:
                from gputop.checking.node import reference

                self._reference = reference(decided.expect)
        except Exit as error:
            self.trouble = str(error)

    def _keep(self, snapshot: NodeSnapshot, now: float) -> None:
        if self._started is None:
            self._started = now
        if now - self._started < SETTLED_SECONDS:
            return
        if self._earlier is None or self._next is None:
            self._earlier = self._next = now, snapshot
        elif now - self._next[0] >= WINDOW_SECONDS:
            self._earlier, self._next = self._next, (now, snapshot)

    def _before(self, snapshot: NodeSnapshot, now: float) -> NodeSnapshot | None:
        """The earlier reading with its true age, whatever the clock of the host did since."""
        if self._earlier is None:
            return None
        at, earlier = self._earlier
        # A file does not change, so nothing happens between two looks at it.
        if now <= at or earlier is snapshot:
            return None
        return msgspec.structs.replace(earlier, taken_at=snapshot.taken_at - (now - at))


def _deciding(report: Report) -> tuple[object, ...]:
    """The facts that most rules depend on, without readings, which always change."""
    snapshot = report.snapshot
    return (
        snapshot.machine,
        snapshot.environment,
        snapshot.measurements,
        snapshot.problems,
    )
