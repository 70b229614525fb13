"""The part of the Flags screen that has things worked out: one study of the node, one wish."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from textual.message import Message
from textual.worker import Worker, WorkerState, get_current_worker

from gputop.screens.flags.changes import FlagChanges
from gputop.screens.listed import ListedView

if TYPE_CHECKING:
    from gputop.screens.flags.work import Told
    from gputop.topology.flags.values.process import ProcessFlags
    from gputop.topology.flags.what_if.study import Study
    from gputop.topology.nccl.prediction import Prediction
    from gputop.topology.report import Report

GROUP = "flags"
PAUSE_SECONDS = 0.1
"""A wish waits so long for a later one: moving through the list predicts nothing on the way."""


class FlagDesk(ListedView):
    """Keeps what is known of the flags of one node; predictions are made in threads alone."""

    class Ready(Message):
        """A thread has worked something out."""

        def __init__(self, wish: tuple[object, ...], told: Told) -> None:
            super().__init__()
            self.wish = wish
            self.told = told

    class Loaded(Message):
        """The catalogue is in memory."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.study: Study | None = None
        self._of: Prediction | None = None
        self.tried = FlagChanges()
        self.origins: dict[str, str] = {}
        """Who sets a variable: "environment" or the path of a file."""
        self.told: Told | None = None
        self.wish: tuple[object, ...] = ()
        self.done: tuple[object, ...] = ()
        self._loading = False
        self.loaded = False
        self.process: ProcessFlags | None = None
        """Whose variables count instead of this shell's; None for this shell."""
        self._studied: ProcessFlags | None = None

    def load(self) -> None:
        """Read the catalogue, which takes a moment."""
        if self._loading:
            return
        self._loading = True

        def load() -> None:
            from gputop.screens.flags import work as flag_work  # noqa: F401 - what it needs takes a while to import
            from gputop.topology.flags.catalogue.catalogue import catalogue

            catalogue()
            self.post_message(self.Loaded())

        self.run_worker(load, thread=True, group="catalogue", exit_on_error=False)

    def on_flag_desk_loaded(self) -> None:
        """Draw with the catalogue at hand."""
        self.loaded = True
        self.redraw()

    def renew(self, report: Report) -> None:
        """Study the node anew when what is decided about it changed."""
        from gputop.topology.flags.what_if.study import Study

        if self._outdated(report):
            self._of, self._studied = report.prediction, self.process
            process = self.process
            if process is None:
                self.study = Study(report.snapshot, made=report.prediction)
                held = report.snapshot.environment
            else:
                held = process.environment
                values = {one.name: one.value for one in held}
                self.study = Study(report.snapshot, library=process.rules, values=values)
            self.tried.set_now = self.study.values
            self.origins = {one.name: one.origin for one in held}
            self.told = None
            self.done = ()

    def _outdated(self, report: Report) -> bool:
        if self.study is None or self._of is not report.prediction:
            return True
        if self._studied is not self.process:
            return True
        if report.prediction is not None:
            return False
        then, now = self.study.snapshot, report.snapshot
        return then.machine != now.machine or then.environment != now.environment

    def ask(self, name: str) -> None:
        """Have a thread work out what the selected flag and the changes do."""
        study = self.study
        wish = (study, name, tuple(sorted(self.tried.wanted.items(), key=lambda one: one[0])))
        if study is None or wish == self.wish:
            return
        self.wish = wish
        if wish == self.done:
            self.workers.cancel_group(self, GROUP)
            return
        changes = dict(self.tried.wanted)

        def work() -> None:
            from gputop.screens.flags.work import work_out

            worker = get_current_worker()
            time.sleep(PAUSE_SECONDS)
            if worker.is_cancelled:
                return
            told = work_out(study.stop_when(lambda: worker.is_cancelled), name, changes)
            if told is not None and not worker.is_cancelled:
                self.post_message(self.Ready(wish, told))

        self.run_worker(work, thread=True, exclusive=True, group=GROUP, exit_on_error=False)

    def on_flag_desk_ready(self, message: Ready) -> None:
        """Show what was worked out, unless something else is wanted by now."""
        if message.wish == self.wish:
            self.told, self.done = message.told, message.wish
            self.redraw()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Say so where a mistake of ours keeps something from being worked out."""
        if event.state is WorkerState.ERROR:
            error = event.worker.error
            self.gputop.trouble = f"cannot work this out: {type(error).__name__}: {error}"
            self.draw_bars()
