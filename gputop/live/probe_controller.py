"""Probes of a session: starts them, keeps what they say, cancels them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

from gputop import messages
from gputop.measuring.selection import narrowed
from gputop.measuring.state import SuiteState
from gputop.probes.protocol.status import ProbeLevel, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from gputop.live.host import NodeHost
    from gputop.live.probing import Probing
    from gputop.measuring.announcing import Announcement
    from gputop.topology.diagnosis.symptoms.log import ReadLog
    from gputop.topology.model.snapshot import NodeSnapshot

PROBE = "p2p"
NCCL = "nccl"


class ProbeController:
    """Runs one probe or suite at a time for the app."""

    def __init__(
        self, host: NodeHost, confirm: Callable[[Announcement, Callable[[], None]], None]
    ) -> None:
        """`confirm`: shows what a run would load, and calls the function if that is wanted."""
        self._host = host
        self._confirm = confirm
        self._thread: Probing | None = None
        self._run = 1
        """Counts the nodes that were followed."""
        self.nccl_log: ReadLog | None = None
        """The log of the last run of the probe nccl, explained and compared."""
        self.notes: dict[str, tuple[str, ...]] = {}
        """Probe -> the notes of its last run that had figures or notes."""
        self._measured: set[Hashable] = set()
        """Keys of the figures of the run in progress."""

    @property
    def running(self) -> bool:
        """Whether something is measured."""
        return self._thread is not None and self._thread.running

    def close(self) -> None:
        """Kill a worker that runs; does not wait."""
        if self._thread is not None:
            self._thread.close()

    def start(
        self, addresses: tuple[str, ...] = (), force: bool = False, probe: str = PROBE
    ) -> None:
        """Measure between the GPUs of these PCI addresses, () for all; one probe runs at a time.

        Without `force` the load is announced first, unless it is simulated.
        """
        self.start_suite((probe,), addresses, force)

    def start_usual(self, addresses: tuple[str, ...], force: bool) -> None:
        """Measure between these GPUs; `force`: although they are busy.

        A demo costs nothing, so that without a choice of GPUs all its probes are simulated.
        `force` after a refusal of the probe nccl runs that one.
        """
        last, report = self._host.probe, self._host.what_if.real
        if force and last is not None and last.forcible and last.name == NCCL:
            self.start((), True, NCCL)
        elif not addresses and report is not None and report.snapshot.is_demo:
            self.start_suite((), (), force)
        else:
            self.start(addresses, force)

    def start_suite(
        self,
        names: tuple[str, ...] = (),
        addresses: tuple[str, ...] = (),
        force: bool = False,
        level: ProbeLevel = ProbeLevel.NORMAL,
    ) -> None:
        """Run these probes, () for all, on the GPUs of these PCI addresses, () for all.

        The app's `suite` holds the progress; `cancel` ends it.
        """
        snapshot = self._measurable()
        if snapshot is None:
            return

        def go(targets: tuple[str, ...]) -> None:
            if not self.running:
                self._host.probe = SuiteState(steps=())
                self._measured.clear()
                self._probing().start_suite(names, targets, force, level, snapshot)

        if snapshot.is_demo:
            go(addresses)
            return
        from gputop.measuring.announcing import announce

        if force:
            go(addresses or narrowed(snapshot))
            return
        announced = announce(snapshot, names, addresses, level)
        threading.Thread(target=_import_early, name="imports", daemon=True).start()
        self._confirm(announced, lambda: go(announced.addresses))

    def _measurable(self) -> NodeSnapshot | None:
        """The node if it can be measured now; else None, and a note says why not."""
        report = self._host.what_if.real
        if report is None or not report.snapshot.machine.gpus:
            why = "there is no GPU to measure"
        elif not report.snapshot.is_live and not report.snapshot.is_demo:
            why = "a file cannot be measured; the live node can, and a demo is simulated"
        elif self.running:
            why = "a probe runs already; Esc cancels it"
        else:
            return report.snapshot
        self._host.say(why, severity="warning")
        return None

    def _probing(self) -> Probing:
        if self._thread is None:
            from gputop.live.probing import Probing

            run = self._run

            def post(message: messages.ProbeMessage) -> bool:
                message.run = run
                return self._host.post_message(message)

            self._thread = Probing(post)
        return self._thread

    def forget(self) -> None:
        """Another node is shown: end what runs, and forget what ran."""
        self.close()
        self._thread, self.nccl_log, self.notes = None, None, {}
        self._run += 1
        self._host.probe = self._host.suite = self._host.nccl_check = None

    def cancel(self) -> bool:
        """Cancel a running probe; the note of one that ended is taken away. Whether it was so."""
        if self._thread is not None and self._thread.running:
            self._thread.cancel()
            return True
        noted = self._host.probe is not None
        self._host.probe = None
        return noted

    def take(self, message: messages.ProbeMessage) -> None:
        """Take what a probe has posted."""
        if message.run not in (0, self._run):
            return
        match message:
            case messages.ProbeMeasured():
                self._measured.add(message.measurement.key)
                # The refresher keeps the figure with the node; the next report carries it.
                if self._host.refresher is not None:
                    self._host.refresher.add_measurements((message.measurement,))
            case messages.SuiteChanged():
                for step in message.state.steps:
                    if step.figures or step.notes:
                        self.notes[step.name] = step.notes
                if not message.superseded:
                    self._changed(message.state)
            case messages.NcclChecked():
                self._checked(message)

    def _checked(self, message: messages.NcclChecked) -> None:
        """Keep the result of a run of NCCL, and show how it compares with the prediction."""
        self._host.nccl_check, self.nccl_log = message.check, message.read
        check = message.check
        if message.text or check is None:
            self._host.say(message.text, severity="warning")
        elif check.trouble:
            self._host.say(check.trouble, severity="warning")
        else:
            agree, differ = check.pairs_that_agree, check.pairs_that_differ
            words = f"{agree} of {len(check.pairs)} pairs use the transport that was predicted"
            if differ:
                words += f", {differ} another one"
            self._host.say(f"{words}; the screen Log shows the rest")

    def _changed(self, state: SuiteState) -> None:
        before = self._host.probe
        if not state.running:
            state = replace(state, measured=frozenset(self._measured))
        self._host.suite = self._host.probe = state
        if state.running or (before is not None and not before.running):
            return
        # The status line may be too short for the reason. A cancelled probe is reported once.
        length = len(state.text) + len(f" {state.name} {state.status} (P forces it): ")
        told = state.status in (Status.FINISHED, Status.CANCELLED)
        if not told and length > self._host.size.width:
            title = f"{state.name} {state.status}"
            self._host.say(state.text, title=title, severity="warning", timeout=15)


def _import_early() -> None:
    """Import what a run needs while somebody reads what it would load.

    It prints nothing, neither where the program ends meanwhile nor where an import fails: the run
    imports the same, and reports it.
    """
    with contextlib.suppress(Exception):
        import gputop.live.probing  # noqa: F401
