"""The what-if that holds on all screens: what is changed, and the report that follows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.message import Message
from textual.worker import get_current_worker

from gputop.live.diagnosing import Diagnosing
from gputop.topology.flags.what_if.changes import FlagChanges
from gputop.topology.nccl.versions import UnknownVersionError

if TYPE_CHECKING:
    from gputop.live.host import NodeHost
    from gputop.live.what_if_work import WhatIfOutcome
    from gputop.topology.diagnosis.engine import Diagnosis
    from gputop.topology.flags.what_if.remedy import Remedy
    from gputop.topology.flags.what_if.study import Study
    from gputop.topology.nccl.prediction import Prediction
    from gputop.topology.node import Node
    from gputop.topology.report import Report

PAUSE_SECONDS = 0.1
"""How long a request waits for a later one: trying one value after the other predicts nothing."""
LIMIT_REMEDIES = 512


class Worked(Message):
    """A thread has worked out what the changes do, or what would give a pair P2P."""

    def __init__(self, outcome: WhatIfOutcome | None = None, error: str = "") -> None:
        super().__init__()
        self.outcome = outcome
        self.error = error


class WhatIfController:
    """Keeps the changes and the last answer; threads of the app predict."""

    def __init__(self, host: NodeHost) -> None:
        self._host = host
        self.tried = FlagChanges()
        """The changes that hold on all screens."""
        self.real: Report | None = None
        """The node as it is set up."""
        self._outcome: WhatIfOutcome | None = None
        self._asked: tuple[object, ...] = ()
        self._study: Study | None = None
        self._study_of: object = None
        self._remedies: dict[tuple[object, ...], Remedy | None] = {}
        self._sought: tuple[object, ...] = ()
        """The pair that a thread works on, and its study."""

    @property
    def holds(self) -> bool:
        """Whether something is tried out."""
        return bool(self.tried.wanted)

    @property
    def summary(self) -> tuple[str, ...]:
        """What the changes do, in short clauses; () until that is worked out."""
        outcome = self._outcome
        return outcome.summary if outcome is not None and self._answers(outcome) else ()

    def forget(self) -> None:
        """Forget everything: another node is shown."""
        self.tried = FlagChanges()
        self.real = self._outcome = self._study = None
        self._asked = self._sought = ()
        self._remedies.clear()

    def study(self) -> Study | None:
        """The study of the node as it is set up; None before a prediction."""
        real = self.real
        if real is None or not real.node.decided:
            return None
        if self._study is None or not _same(self._study_of, _basis(real)):
            from gputop.topology.flags.what_if.study import Study

            self._study = Study(real.snapshot, made=real.prediction)
            self._study_of = _basis(real)
            self._remedies.clear()
            self.tried.set_now = self._study.set_now
        return self._study

    def shown(self, report: Report) -> Report:
        """Take a report of the node; gives the report with the changes, once they are predicted."""
        self.real = report
        if not self.holds:
            self._outcome = None
            return report
        outcome = self._outcome
        if outcome is None or not self._answers(outcome) or not outcome.fits(report):
            self._ask(report)
        # Meanwhile the last answer stays, and the banner says that it is worked out.
        return report if outcome is None else outcome.shown(report) or report

    def _answers(self, outcome: WhatIfOutcome) -> bool:
        return outcome.changes == tuple(self.tried.wanted.items())

    def _ask(self, report: Report) -> None:
        study = self.study()
        wanted = dict(self.tried.wanted)
        request = (tuple(wanted.items()), id(study), id(report.diagnosis))
        if study is None or request == self._asked:
            return
        self._asked = request

        def work() -> None:
            from gputop.live.what_if_work import work_out

            outcome = work_out(study.stop_when(_overtaken()), report, wanted, self._diagnose)
            if outcome is not None:
                self._host.post_message(Worked(outcome))

        self._in_thread(work, "what if")

    def accept(self, message: Worked) -> None:
        """Keep and show what a thread worked out."""
        if message.outcome is not None and self._answers(message.outcome):
            self._outcome = message.outcome
        self._host.trouble = message.error or self._host.trouble
        self.show()

    def show(self) -> None:
        """Show the node with the changes that are tried, or as it is set up."""
        if self.real is not None:
            self._host.report = self.shown(self.real)
        if self._host.view is not None:
            self._host.view.redraw()

    def change(self, name: str, value: str | None) -> None:
        """Try a variable out, or another version; None takes it away."""
        self.study()
        try:
            self.tried.change(name, value)
        except UnknownVersionError as error:
            self._host.say(str(error), severity="warning")
            return
        self.show()

    def undo(self) -> None:
        """Undo the last change."""
        if self.tried.undo():
            self.show()
        else:
            self._host.say("no what-if is set", severity="warning")

    def _diagnose(self, node: Node) -> Diagnosis:
        refresher = self._host.refresher
        asking = Diagnosing() if refresher is None else refresher.diagnosing
        return asking.asked_of(node)

    def remedy(self, src: str, dst: str) -> tuple[bool, Remedy | None]:
        """Whether it is known which change gives a pair P2P, and that change; a thread predicts."""
        study = self.study()
        if study is None:
            return False, None
        held = dict(self.tried.wanted)
        pair = (src, dst, *held.items())
        if pair in self._remedies:
            return True, self._remedies[pair]
        if self._sought == (pair, id(study)):
            return False, None  # asked again at every tick, a large node would never be done
        self._sought = (pair, id(study))

        def work() -> None:
            from gputop.live.what_if_work import find_remedy

            found = find_remedy(study.stop_when(_overtaken()), src, dst, held)
            if found is not None:
                if len(self._remedies) >= LIMIT_REMEDIES:
                    self._remedies.clear()
                self._remedies[pair] = found[0]
                self._host.post_message(Worked())

        self._in_thread(work, "remedy")
        return False, None

    def _in_thread(self, work: Callable[[], None], group: str) -> None:
        def guarded() -> None:
            time.sleep(PAUSE_SECONDS)
            if get_current_worker().is_cancelled:
                return
            try:
                work()
            except Exception as error:  # noqa: BLE001 - the app border: the screen says so and stays
                text = f"cannot work this out: {type(error).__name__}: {error}"
                self._host.post_message(Worked(error=text))

        self._host.run_worker(
            guarded, thread=True, exclusive=True, group=group, exit_on_error=False
        )


def _basis(report: Report) -> Prediction | tuple[object, ...]:
    """What a study belongs to: the prediction; where there is none, what it would rest on."""
    return report.prediction or (report.snapshot.machine, report.snapshot.environment)


def _same(one: object, other: object) -> bool:
    return one is other or (isinstance(one, tuple) and one == other)


def _overtaken() -> Callable[[], bool]:
    worker = get_current_worker()
    return lambda: worker.is_cancelled
