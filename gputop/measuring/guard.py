"""Asks the driver whether GPUs are free. A deadline covers a driver that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psutil

from gputop.measuring import busy
from gputop.measuring.busy import BusyAnswer
from gputop.measuring.drivers import open_drivers
from gputop.topology.model.source import SourceAbsent

DEADLINE_SECONDS = 3.0 + busy.CALM_SECONDS
_LOOK_SECONDS = 0.1
HANGS = "the driver did not answer in time whether the GPUs are in use"


class Guard:
    """Checks the GPUs of one suite: fully before it begins, for foreign processes later."""

    def __init__(
        self,
        addresses: tuple[str, ...],
        names: dict[str, str],
        cancel: threading.Event,
        open_reader: Callable[[], busy.Read] | None = None,
    ) -> None:
        self._addresses = addresses
        self._names = names
        self._cancel = cancel
        self._open = open_reader or open_drivers
        self._read: busy.Read | None = None

    def begin(self, *, patient: bool = True) -> Callable[[], BusyAnswer]:
        """Start the check; the returned function waits for the verdict.

        `patient`: let utilisation settle first; pointless when the suite runs anyway.
        """
        seconds = busy.CALM_SECONDS if patient else 0.0
        return self._start(
            lambda read: busy.look(
                read, self._addresses, self._names, own_pids(), self._cancel, seconds
            )
        )

    def recheck(self) -> BusyAnswer:
        """Check whether another process has come meanwhile."""
        return self._start(
            lambda read: busy.strangers(
                read, self._addresses, self._names, own_pids, cancel=self._cancel
            )
        )()

    def _start(self, judge: Callable[[busy.Read], BusyAnswer]) -> Callable[[], BusyAnswer]:
        if not self._addresses:
            return BusyAnswer
        verdicts: list[BusyAnswer] = []
        thread = threading.Thread(
            target=lambda: verdicts.append(self._judge(judge)), name="busy check", daemon=True
        )
        thread.start()

        def wait() -> BusyAnswer:
            give_up = time.monotonic() + DEADLINE_SECONDS
            while thread.is_alive() and not self._cancel.is_set():
                left = give_up - time.monotonic()
                if left <= 0:
                    break
                thread.join(min(left, _LOOK_SECONDS))
            if verdicts:
                return verdicts[0]
            # Nothing is started on a driver that hangs, unless the user forces it. After a
            # cancel nothing starts anyway, so the verdict is not needed.
            return BusyAnswer() if self._cancel.is_set() else BusyAnswer(busy=(HANGS,))

        return wait

    def _judge(self, judge: Callable[[busy.Read], BusyAnswer]) -> BusyAnswer:
        try:
            if self._read is None:
                self._read = self._open()
            return judge(self._read)
        except SourceAbsent as absent:
            return BusyAnswer(blind=(f"whether the GPUs are in use is unknown: {absent}",))
        except Exception as error:  # noqa: BLE001 - the source border: a failing driver is no answer
            return BusyAnswer(blind=(f"whether the GPUs are in use is unknown: {error}",))


def own_pids() -> frozenset[int]:
    """Our own processes: gputop and all its descendants (keepers, workers, ranks)."""
    me = psutil.Process()
    try:
        below = [child.pid for child in me.children(recursive=True)]
    except psutil.Error:
        below = []
    return frozenset((me.pid, *below))
