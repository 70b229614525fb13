"""The app's side of a probe: starts one, keeps its state and its figures, cancels it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from textual.dom import DOMNode
from textual.reactive import reactive

from gputop import messages
from gputop.messages import ProbeState, SuiteState

if TYPE_CHECKING:
    from gputop.app import GpuTop
    from gputop.live.probing import Probing
    from gputop.measuring.nccl_check import NcclCheck
    from gputop.topology.diagnosis.symptoms.log import ReadLog
    from gputop.topology.model.snapshot import NodeSnapshot

PROBE = "p2p"
NCCL = "nccl"


class ProbeDesk(DOMNode):
    """Mixed into the app; what a probe posts arrives here."""

    probe: reactive[ProbeState | None] = reactive(None, init=False, repaint=False)
    suite: reactive[SuiteState | None] = reactive(None, init=False, repaint=False)
    """The last suite that was started, a single probe included; None before the first."""
    nccl_check: reactive[NcclCheck | None] = reactive(None, init=False, repaint=False)
    """What the last run of the probe nccl proved."""
    nccl_log: ReadLog | None = None
    """Its log, explained and compared."""
    probe_notes: dict[str, tuple[str, ...]]
    """Probe -> what its last run with figures or notes said besides; made with the app."""
    _probing: Probing | None = None

    @property
    def _app(self) -> GpuTop:
        return cast("GpuTop", self)

    def close_desk(self) -> None:
        """Kill a worker that runs; does not wait."""
        if self._probing is not None:
            self._probing.close()

    def action_probe(self, force: bool = False) -> None:
        """Measure what is selected on the screen that is shown; forced, what was refused."""
        last = self.probe
        if force and last is not None and last.forcible and last.probe == NCCL:
            self.action_probe_nccl(True)
            return
        view = self._app.view
        self.start_probe(view.probe_targets() if view is not None else (), force)

    def action_probe_nccl(self, force: bool = False) -> None:
        """Run NCCL or RCCL itself on all GPUs and lay its log beside the prediction."""
        self.start_probe((), force, NCCL)

    def start_probe(
        self, addresses: tuple[str, ...], force: bool = False, probe: str = PROBE
    ) -> None:
        """Measure between these GPUs, all when there are none named; one probe at a time."""
        snapshot = self._measurable()
        if snapshot is not None:
            self.probe = ProbeState(probe=probe)
            self._at_probing().start(probe, addresses, force, snapshot)

    def start_suite(
        self,
        names: tuple[str, ...] = (),
        addresses: tuple[str, ...] = (),
        force: bool = False,
        level: str = "normal",
    ) -> None:
        """Run these probes, all when none is named, on these GPUs, all when none is named.

        `level`: "quick", "normal" or "full". What it does shows in `suite`; `cancel_probe` ends it.
        """
        snapshot = self._measurable()
        if snapshot is not None:
            self.probe = ProbeState(probe=names[0] if len(names) == 1 else "probes")
            self._at_probing().start_suite(names, addresses, force, level, snapshot)

    def _measurable(self) -> NodeSnapshot | None:
        """The node, where it can be measured now; else a word on why not."""
        report = self._app.report
        if report is None or not report.snapshot.machine.gpus:
            self._app.say("there is no GPU to measure", severity="warning")
        elif report.snapshot.source != ("live",):
            self._app.say(
                "only the live node can be measured, not a demo or a file", severity="warning"
            )
        elif self._probing is not None and self._probing.running:
            self._app.say("a probe runs already; Esc cancels it", severity="warning")
        else:
            return report.snapshot
        return None

    def _at_probing(self) -> Probing:
        if self._probing is None:
            from gputop.live.probing import Probing

            self._probing = Probing(self._app.post_message)
        return self._probing

    def cancel_probe(self) -> None:
        """Cancel a running probe; the note of one that ended is taken away."""
        if self._probing is not None and self._probing.running:
            self._probing.cancel()
        else:
            self.probe = None

    def on_probe_started(self, message: messages.ProbeStarted) -> None:
        """Say what measures."""
        self.probe = ProbeState(probe=message.probe, python=message.python, note=message.note)

    def on_probe_progress(self, message: messages.ProbeProgress) -> None:
        """Say how far it is."""
        self._change(done=message.done, total=message.total, what=message.what)

    def on_probe_measured(self, message: messages.ProbeMeasured) -> None:
        """Keep a figure with the node; the next report carries it."""
        if self._app.refresher is not None:
            self._app.refresher.add_measurements((message.measurement,))

    def on_suite_changed(self, message: messages.SuiteChanged) -> None:
        """Keep where the suite stands; the screens are bound to it."""
        for step in message.state.steps:
            if step.figures or step.notes:
                self.probe_notes[step.name] = step.notes
        self.suite = message.state

    def on_nccl_checked(self, message: messages.NcclChecked) -> None:
        """Keep what a run proved, for the screens; say it when nothing could be compared."""
        self.nccl_check, self.nccl_log = message.check, message.read
        check = message.check
        if message.text or check is None:
            self._app.say(message.text, severity="warning")
        elif check.trouble:
            self._app.say(check.trouble, severity="warning")
        else:
            agree, differ = check.pairs_that_agree, check.pairs_that_differ
            words = f"{agree} of {len(check.pairs)} pairs use the transport that was predicted"
            if differ:
                words += f", {differ} another one"
            self._app.say(f"{words}; the screen Log shows the rest")
        if self._app.view is not None:
            self._app.view.redraw()

    def on_probe_ended(self, message: messages.ProbeEnded) -> None:
        """Say how it ended."""
        probe = message.probe or (PROBE if self.probe is None else self.probe.probe)
        self._change(
            probe=probe,
            running=False,
            status=message.status,
            text=message.text,
            forcible=message.forcible,
        )
        # One line may not hold why; an end that was wished for needs no second telling.
        said = len(message.text) + len(f" {probe} {message.status} (P forces it): ")
        if message.status not in ("finished", "cancelled") and said > self._app.size.width:
            self._app.say(
                message.text, title=f"{probe} {message.status}", severity="warning", timeout=15
            )

    def _change(self, **fields: Any) -> None:
        self.probe = replace(self.probe or ProbeState(probe=PROBE), **fields)
