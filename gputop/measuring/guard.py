"""Asks the drivers of all vendors whether GPUs are free. A deadline covers one that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import psutil

from gputop.measuring import busy
from gputop.measuring.busy import BusyAnswer, Read
from gputop.topology.model.part import PartialNode
from gputop.topology.model.readings import GpuReading
from gputop.topology.model.source import Source, SourceAbsent
from gputop.topology.sources import load
from gputop.topology.sources.collect import merge_readings

SOURCES = ("nvml_readings", "amdsmi_readings", "amdgpu_readings")
"""In order of precedence; for AMD GPUs sysfs fills in what ROCm's library does not report."""


def open_drivers(sources: Sequence[Source] | None = None) -> Read:
    """Return a function that asks every driver on the machine once and merges the answers.

    The function raises SourceAbsent when no driver has a GPU. Any other error of a driver is
    raised only when no other driver answers.
    """
    if sources is None:
        sources = [load(name) for name in SOURCES]
    readers: dict[str, Callable[[], Any]] = {}

    def read() -> Sequence[GpuReading]:
        parts: list[PartialNode] = []
        absent: list[str] = []
        failed: list[Exception] = []
        for source in sources:
            try:
                if source.id not in readers:
                    readers[source.id] = source.reader()
                parts.append(source.parse(readers[source.id]()))
            except SourceAbsent as why:
                absent.append(str(why))
            except Exception as error:  # noqa: BLE001 - the source border: the others may answer
                readers.pop(source.id, None)
                failed.append(error)
        found = merge_readings(parts).gpus
        if found:
            return found
        if failed:
            raise failed[0]
        raise SourceAbsent("; ".join(dict.fromkeys(absent)) or "no driver shows a GPU")

    return read


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


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs to measure and those to leave out."""

    free: tuple[str, ...] = ()
    """PCI addresses."""
    busy: tuple[tuple[str, str], ...] = ()
    """(PCI address, a sentence on why the GPU counts as busy)."""
    blind: tuple[str, ...] = ()
    """What the driver did not report; "not busy" is then unproven."""


def idle(
    addresses: Sequence[str],
    names: dict[str, str],
    open_reader: Callable[[], busy.Read] | None = None,
    deadline_seconds: float = DEADLINE_SECONDS,
) -> Idle:
    """Judge each GPU; if only utilisation is high, wait a moment and look again.

    When the driver does not answer in time, no GPU counts as idle.
    """
    answers: list[Idle] = []
    thread = threading.Thread(
        target=lambda: answers.append(_look(addresses, names, open_reader or open_drivers)),
        name="busy check",
        daemon=True,
    )
    thread.start()
    thread.join(deadline_seconds)
    if answers:
        return answers[0]
    return Idle(busy=tuple((address, HANGS) for address in addresses))


def _look(
    addresses: Sequence[str], names: dict[str, str], open_reader: Callable[[], busy.Read]
) -> Idle:
    try:
        read = open_reader()
        samples = busy.sample(read)
        verdicts = _judged(samples, addresses, names)
        give_up = time.monotonic() + busy.CALM_SECONDS
        while (
            any(verdict.only_utilization for verdict in verdicts.values())
            and time.monotonic() < give_up
        ):
            time.sleep(busy.SAMPLE_GAP_SECONDS)
            samples = [*samples[1:], read()]
            verdicts = _judged(samples, addresses, names)
    except Exception as error:  # noqa: BLE001 - the source border: a failing driver is no answer
        # All are measured although nothing was seen; workers check free memory themselves.
        blind = f"whether the GPUs are in use is unknown: {error}"[:400]
        return Idle(free=tuple(addresses), blind=(blind,))
    return Idle(
        free=tuple(address for address, verdict in verdicts.items() if not verdict.busy),
        busy=tuple(
            (address, "; ".join(verdict.busy))
            for address, verdict in verdicts.items()
            if verdict.busy
        ),
        blind=tuple(dict.fromkeys(text for verdict in verdicts.values() for text in verdict.blind)),
    )


def _judged(
    samples: Sequence[Sequence[GpuReading]], addresses: Sequence[str], names: dict[str, str]
) -> dict[str, BusyAnswer]:
    own = own_pids()
    return {address: busy.judge(samples, (address,), names, own) for address in addresses}
