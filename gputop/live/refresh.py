"""The thread between the sources and the screen: waits for news, examines, posts one report."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from gputop.live.diagnosing import Diagnosing
from gputop.messages import LookedBack, PolicyFailed, RefreshFailed, ReportReady
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.report import Report
from gputop.topology.sources.feed import Feed, RememberingFeed

STARTUP_SECONDS = 2.0
"""For this long after the start every answer is shown at once; later one report an interval."""
STARTUP_GAP_SECONDS = 0.03
PREDICT_AFTER_SECONDS = 0.5
"""Predicting computes for a tenth of a second, so it waits until the first picture is drawn."""
NO_NICS = "no NICs between nodes"
"""What a report lacks where they could not be worked out."""
WAKE_SECONDS = 0.5
"""How long new measurements wait at most for a silent feed."""


class Inbox:
    """Passes on what the refresh thread posts; keeps the last of a kind until the app is there."""

    def __init__(self, post: Callable[[Any], object]) -> None:
        self._post = post
        self._lock = threading.Lock()
        self._open = False
        self._early: dict[type, Any] = {}

    def take(self, message: Any) -> None:
        """Take a message, from any thread."""
        with self._lock:
            if not self._open:
                self._early[type(message)] = message
                return
        self._post(message)

    def open(self) -> tuple[Any, ...]:
        """Pass on every message from now on; gives the last one of each kind from before."""
        with self._lock:
            self._open = True
            early, self._early = tuple(self._early.values()), {}
        return early


class Refresher:
    """Turns a feed into ReportReady messages; `post` is called from its own daemon thread."""

    def __init__(self, feed: Feed, post: Callable[[Any], object], interval: float = 1.0) -> None:
        self._feed = feed
        self._post = post
        self._interval = interval
        self._closed = threading.Event()
        self._wake = threading.Event()
        self._measurements: tuple[Measurement, ...] = ()
        self._report: Any = None
        self._started = 0.0
        self._snapshot: NodeSnapshot | None = None
        self._shown_measurements: tuple[Measurement, ...] = ()
        self.diagnosing = Diagnosing()
        """Asks the rules; its thread is this one's."""
        self._watcher: Any = None
        self._looked_back = self._anew = False
        self._clock: Callable[[], float] = getattr(feed, "clock", time.monotonic)
        """That by which rules are asked again and counters compared."""
        self._thread = threading.Thread(target=self._run, name="refresh", daemon=True)

    def start(self) -> None:
        """Begin to post."""
        self._thread.start()

    def close(self) -> None:
        """Stop posting and let go of the feed; never blocks."""
        self._closed.set()
        self._wake.set()
        self._feed.close()

    def wake(self) -> None:
        """Look again at once: the rules may be asked now."""
        self._wake.set()

    def begin_anew(self) -> None:
        """Forget events, findings and what was before: a recording goes on at another place."""
        self._anew = True
        self.wake()

    def set_interval(self, interval: float) -> None:
        """Seconds between two reports."""
        self._interval = interval

    def add_measurements(self, measurements: tuple[Measurement, ...]) -> None:
        """Keep figures of a probe with the node; a newer one replaces an older one of its kind."""
        kept = {figure.key: figure for figure in self._measurements}
        for figure in measurements:
            # The newest goes last, where it counts most.
            kept.pop(figure.key, None)
            kept[figure.key] = figure
        self._measurements = tuple(kept.values())
        self._wake.set()

    def _run(self) -> None:
        started = self._started = time.monotonic()
        while not self._closed.is_set():
            begun = time.monotonic()
            self._wake.clear()
            try:
                if self._anew:
                    self._forget()
                self._tick()
                self._decide()
                self._with_news()
                self._look_back()
            except Exception as error:  # noqa: BLE001 - the app border: the screen stays, with the reason
                self._send(RefreshFailed(f"{type(error).__name__}: {error}"))
            ended = time.monotonic()
            young = ended - started < STARTUP_SECONDS
            if not young:  # figures that come fast wake at once, and the screens need time too
                self._closed.wait(min(ended - begun, self._interval))
            self._wake.wait(STARTUP_GAP_SECONDS if young else self._interval * 0.9)
            self._wait_for_news()

    def _forget(self) -> None:
        self._looked_back = self._anew = False
        self._watcher, self.diagnosing = None, Diagnosing()
        if self._report is not None:
            self._report = Report(self._report.node)

    def _wait_for_news(self) -> None:
        """Wait for the feed or a wake; without either one interval, as ages still move on."""
        end = time.monotonic() + self._interval
        if self._undecided():
            end = min(end, max(time.monotonic(), self._started + PREDICT_AFTER_SECONDS))
        while not self._wake.is_set() and (left := end - time.monotonic()) > 0:
            if self._feed.wait(min(left, WAKE_SECONDS)):
                return

    def _tick(self) -> None:
        snapshot = self._feed.snapshot()
        measurements = self._measurements
        if snapshot is self._snapshot and measurements is self._shown_measurements:
            return
        self._snapshot, self._shown_measurements = snapshot, measurements
        if measurements:
            snapshot = _with_measurements(snapshot, measurements)
        known = self._report
        report = Report(Node(snapshot)) if known is None else known.follow(snapshot)
        self._report = report
        try:
            if measurements:
                # Before the screens see them, so that none of them waits for the verdicts.
                from gputop.measuring.judged import judged

                judged(report)
        finally:
            self._send(ReportReady(report))

    def _undecided(self) -> bool:
        """Whether neither a prediction nor the reason for its absence is known yet."""
        return self._report is not None and not self._report.node.decided

    def _decide(self) -> None:
        """Predict, and show it without waiting for the next reading."""
        late = time.monotonic() - self._started >= PREDICT_AFTER_SECONDS
        if not late or not self._undecided():
            return
        node, trouble = self._report.node, ""
        try:
            node = node.decide()
        except Exception as error:
            # Reported once: another try on the same machine would fail alike.
            node = node.without_prediction(f"{type(error).__name__}: {error}")
            raise
        else:
            # Asked for here, where no screen waits for it.
            node, trouble = with_nics(node)
        finally:
            self._report = self._report.of(node)
            self._send(ReportReady(self._report))
        if trouble:
            self._send(RefreshFailed(trouble, NO_NICS))

    def _with_news(self) -> None:
        """Add the events and, where the rules are due, their diagnosis."""
        report = self._report
        if report is None or self._undecided():
            return
        if self._watcher is None:
            from gputop.topology.diagnosis.events import Watcher

            self._watcher = Watcher()
        happened = self._watcher.see(report.snapshot)
        asked = False
        try:
            asked = self.diagnosing.ask(report, self._clock())
            if self.diagnosing.trouble:
                self._send(PolicyFailed(self.diagnosing.trouble))
                self.diagnosing.trouble = ""
        finally:
            if happened or asked:
                events = self._watcher.events
                self._report = Report(report.node, self.diagnosing.diagnosis, events)
                self._send(ReportReady(self._report))

    def _look_back(self) -> None:
        """Post once what was before, as soon as nothing else is to be worked out."""
        if not self._looked_back and self._report is not None and not self._undecided():
            self._looked_back = True
            if isinstance(self._feed, RememberingFeed):
                self._send(LookedBack(self._feed.earlier()))

    def _send(self, message: Any) -> None:
        if not self._closed.is_set():
            self._post(message)


def with_nics(node: Node) -> tuple[Node, str]:
    """A decided node whose NICs are worked out, and what went wrong; "" where nothing did.

    A failure leaves the prediction as it is, without NICs, so that no screen meets it again.
    """
    try:
        _ = node.nic_views
    except Exception as error:  # noqa: BLE001 - a mistake of ours in one part leaves the others
        return node.without_nics(), f"{type(error).__name__}: {error}"
    return node, ""


def _with_measurements(
    snapshot: NodeSnapshot, measurements: tuple[Measurement, ...]
) -> NodeSnapshot:
    merged = {figure.key: figure for figure in (*snapshot.measurements, *measurements)}
    return msgspec.structs.replace(snapshot, measurements=tuple(merged.values()))
