"""The flags of one node, and the changes that the user tries out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual.message import Message
from textual.worker import get_current_worker

from gputop.screens.flags.work import work_out
from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.flags.what_if.study import Study
from gputop.topology.flags.what_if.whatif import export_line

if TYPE_CHECKING:
    from textual.widget import Widget

    from gputop.screens.flags.work import FlagDetails
    from gputop.topology.flags.values.process import ProcessFlags
    from gputop.topology.nccl.prediction import Prediction
    from gputop.topology.report import Report

GROUP = "flags"
PAUSE_SECONDS = 0.1
"""How long a request waits for a later one: moving through the list predicts nothing on the way."""


class FlagChanges:
    """Changes on top of what is set; None takes a variable away."""

    def __init__(self) -> None:
        self.set_now: Mapping[str, str] = {}
        """What is set on the node."""
        self.wanted: dict[str, str | None] = {}
        """Name -> new value, in the order in which they were changed."""

    def now(self, name: str) -> str | None:
        """The value with the changes; None when it is not set."""
        return self.wanted[name] if name in self.wanted else self.set_now.get(name)

    def change(self, name: str, value: str | None) -> None:
        """Set a variable, or take it away; what is as it was is no change."""
        self.wanted.pop(name, None)
        if value != self.set_now.get(name):
            self.wanted[name] = value

    def undo(self) -> bool:
        """Undo the last change; False when there is none."""
        if not self.wanted:
            return False
        self.wanted.popitem()
        return True

    def next_value(self, name: str, tries: tuple[str, ...]) -> None:
        """The next of these values; after the last one none, then the first."""
        order: list[str | None] = [*tries, None]
        now = self.now(name)
        place = order.index(now) + 1 if now in order else 0
        self.change(name, order[place % len(order)])

    def export(self) -> str:
        """The line that sets the changes up in a shell; "" without any."""
        return export_line(self.wanted)


class FlagsController:
    """Keeps one study of the node and one request; threads of `widget` work requests out."""

    class Loaded(Message):
        """The catalogue is in memory."""

    class Ready(Message):
        """A thread has worked something out."""

        def __init__(self, request: tuple[object, ...], details: FlagDetails) -> None:
            super().__init__()
            self.request = request
            self.details = details

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self.study: Study | None = None
        self._of: Prediction | None = None
        """The prediction that the study belongs to."""
        self.tried = FlagChanges()
        self.origins: dict[str, str] = {}
        """Who sets a variable: "environment" or the path of a file."""
        self.details: FlagDetails | None = None
        self._request: tuple[object, ...] = ()
        self._done: tuple[object, ...] = ()
        """The request that `details` answers."""
        self._loading = False
        self.loaded = False
        """Whether the catalogue is in memory."""
        self.process: ProcessFlags | None = None
        """Whose variables count instead of this shell's; None for this shell."""
        self._studied: ProcessFlags | None = None

    @property
    def answered(self) -> bool:
        """Whether something was asked for and `details` is the answer."""
        return self._done == self._request != ()

    @property
    def summary(self) -> str:
        """One line on what the changes do; "" until that is worked out."""
        return self.details.summary if self.details is not None and self.answered else ""

    def load(self) -> None:
        """Read the catalogue in a thread; it posts Loaded."""
        if self._loading:
            return
        self._loading = True

        def load() -> None:
            catalogue()
            self._widget.post_message(self.Loaded())

        self._widget.run_worker(load, thread=True, group="catalogue", exit_on_error=False)

    def renew(self, report: Report) -> None:
        """Study the node anew when a prediction or the choice of a process has changed."""
        if self._outdated(report):
            self._of, self._studied = report.prediction, self.process
            process = self.process
            if process is None:
                self.study = Study(report.snapshot, made=report.prediction)
                held = report.snapshot.environment
            else:
                held = process.environment
                values = {variable.name: variable.value for variable in held}
                self.study = Study(report.snapshot, library=process.rules, values=values)
            self.tried.set_now = self.study.values
            self.origins = {variable.name: variable.origin for variable in held}
            self.details = None
            self._done = ()

    def _outdated(self, report: Report) -> bool:
        if self.study is None or self._of is not report.prediction:
            return True
        if self._studied is not self.process:
            return True
        if report.prediction is not None:
            return False
        then, now = self.study.snapshot, report.snapshot
        return then.machine != now.machine or then.environment != now.environment

    def use(self, process: ProcessFlags | None) -> None:
        """Study the node with the variables of a process, or of this shell; forget the changes."""
        self.process = process
        self.tried.wanted.clear()

    def ask(self, name: str) -> None:
        """Have a thread work out what a flag and the changes do; it posts Ready."""
        study = self.study
        request = (study, name, tuple(sorted(self.tried.wanted.items(), key=lambda set_: set_[0])))
        if study is None or request == self._request:
            return
        self._request = request
        if request == self._done:
            self._widget.workers.cancel_group(self._widget, GROUP)
            return
        changes = dict(self.tried.wanted)

        def work() -> None:
            worker = get_current_worker()
            time.sleep(PAUSE_SECONDS)
            if worker.is_cancelled:
                return
            details = work_out(study.stop_when(lambda: worker.is_cancelled), name, changes)
            if details is not None and not worker.is_cancelled:
                self._widget.post_message(self.Ready(request, details))

        self._widget.run_worker(work, thread=True, exclusive=True, group=GROUP, exit_on_error=False)

    def accept(self, message: Ready) -> bool:
        """Keep what was worked out; False when something else is asked for by now."""
        if message.request != self._request:
            return False
        self.details, self._done = message.details, message.request
        return True
