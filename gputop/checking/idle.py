"""Finds the GPUs that may be measured. Each is judged alone: a busy one does not stop the rest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from gputop.measuring import busy
from gputop.measuring.drivers import open_drivers
from gputop.measuring.guard import DEADLINE_SECONDS, HANGS, own_pids
from gputop.topology.model.readings import GpuReading
from gputop.topology.model.source import SourceAbsent


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
    except SourceAbsent as absent:
        return _unknown(addresses, absent)
    except Exception as error:  # noqa: BLE001 - the source border: a failing driver is no answer
        return _unknown(addresses, error)
    return Idle(
        free=tuple(address for address, verdict in verdicts.items() if not verdict.busy),
        busy=tuple(
            (address, "; ".join(verdict.busy))
            for address, verdict in verdicts.items()
            if verdict.busy
        ),
        blind=tuple(dict.fromkeys(text for verdict in verdicts.values() for text in verdict.blind)),
    )


def _unknown(addresses: Sequence[str], why: Exception) -> Idle:
    """Measure all GPUs although nothing was seen; workers check free memory themselves."""
    return Idle(
        free=tuple(addresses), blind=(f"whether the GPUs are in use is unknown: {why}"[:400],)
    )


def _judged(
    samples: Sequence[Sequence[GpuReading]], addresses: Sequence[str], names: dict[str, str]
) -> dict[str, busy.BusyAnswer]:
    own = own_pids()
    return {address: busy.judge(samples, (address,), names, own) for address in addresses}
