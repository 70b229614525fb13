"""A recording for other programs: CSV, and the JSON that Perfetto and chrome://tracing read.

Columns and counters have the names of the fields of a snapshot, whose unit is in the name.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ...model.budget import Budget
from .frames import RecordingError
from .session_file import RecordedReading, SessionFile

FIGURES = (
    "utilization_percent",
    "memory_utilization_percent",
    "memory_used_bytes",
    "power_watts",
    "temperature_c",
    "temperature_memory_c",
    "clock_sm_mhz",
    "clock_memory_mhz",
    "pcie_tx_bytes_per_second",
    "pcie_rx_bytes_per_second",
    "nvlink_tx_bytes_per_second",
    "nvlink_rx_bytes_per_second",
    "xgmi_tx_bytes_per_second",
    "xgmi_rx_bytes_per_second",
    "pcie_replays",
)
"""Fields of a GPU's reading that are numbers."""
LINK_COUNTERS = ("replay_errors", "recovery_errors", "crc_errors")
"""Of NVLinks; added over the links of a GPU."""
ECC_COUNTERS = ("corrected_volatile", "uncorrected_volatile")
COLUMNS = (
    "taken_at",
    "time",
    "address",
    "index",
    *FIGURES,
    *(f"nvlink_{name}" for name in LINK_COUNTERS),
    *(f"ecc_{name}" for name in ECC_COUNTERS),
    "throttle_reasons",
    "pids",
)
_MICROSECONDS = 1_000_000
Numbers = dict[str, Any]


def _rows(reading: RecordedReading) -> Iterator[Numbers]:
    """What is exported of each GPU of a reading; None where nothing is known."""
    machine, readings = reading.tree.get("machine"), reading.tree.get("readings")
    numbers = {gpu["address"]: gpu["index"] for gpu in machine["gpus"]} if machine else {}
    for gpu in readings["gpus"] if readings else ():
        ecc, links = gpu["ecc"] or {}, gpu["nvlinks"]
        row = {"address": gpu["address"], "index": numbers.get(gpu["address"])}
        row |= {name: gpu[name] for name in FIGURES}
        for name in LINK_COUNTERS:
            known = [link[name] for link in links if link[name] is not None]
            row[f"nvlink_{name}"] = sum(known) if known else None
        for name in ECC_COUNTERS:
            row[f"ecc_{name}"] = ecc.get(name)
        row["throttle_reasons"] = gpu["throttle_reasons"]
        processes = gpu["processes"]
        row["pids"] = None if processes is None else [one["pid"] for one in processes]
        yield row


def _all_rows(session: SessionFile) -> Iterator[tuple[RecordedReading, list[Numbers]]]:
    """All readings, with their rows. Raises RecordingError, also where it takes too long."""
    budget = Budget("recording")
    for reading in session.readings():
        if budget.over:
            raise RecordingError(budget.why)
        try:
            rows = list(_rows(reading))
        except (LookupError, TypeError, AttributeError) as error:
            raise RecordingError(f"a reading without {error}") from error
        yield reading, rows


def as_csv(session: SessionFile) -> Iterator[bytes]:
    """A line for each GPU and reading; an empty cell is unknown. Raises RecordingError."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for reading, rows in _all_rows(session):
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(reading.at))
        for row in rows:
            for name in ("throttle_reasons", "pids"):
                row[name] = None if row[name] is None else _cell(row[name])
            writer.writerow({"taken_at": round(reading.at, 3), "time": stamp, **row})
        yield text.getvalue().encode("utf-8", "replace")
        text.seek(0)
        text.truncate()


def _cell(values: list[Any]) -> str:
    """Names in one cell; none begins as a formula does."""
    return ";".join(str(value).lstrip("=+-@\t\r") for value in values) or "none"


def as_trace(session: SessionFile) -> Iterator[bytes]:
    """Trace events of Perfetto: a process for each GPU, counters where they change, instants.

    Times are microseconds since the epoch. Raises RecordingError.
    """
    yield b'{"displayTimeUnit":"ms","traceEvents":[\n'
    encode, known, began = msgspec.json.encode, dict[str, Numbers](), False
    numbers = _Numbers()
    runs: dict[tuple[str, int], int] = {}
    for reading, rows in _all_rows(session):
        ts = round(reading.at * _MICROSECONDS)
        events = []
        for row in rows:
            address = row["address"]
            if address not in known:
                events.append(numbers.named(address, row["index"]))
            before = known.get(address, {})
            events += _counters(numbers.of(address), ts, before, row)
            known[address] = row
            events += _ended(runs, address, row["pids"], ts, numbers.of)
        for note in reading.notes:
            scope = "p" if note.device in known else "g"
            shared = {"ph": "i", "s": scope, "ts": ts, "tid": 0, "cat": note.kind}
            events.append({"name": note.text, "pid": numbers.of(note.device), **shared})
        if events:
            lead = b",\n" if began else b""
            began = True
            yield lead + b",\n".join(map(encode, events))
    last = round(session.last * _MICROSECONDS)
    left = [_slice(numbers.of(address), pid, ts, last) for (address, pid), ts in runs.items()]
    if left:
        yield (b",\n" if began else b"") + b",\n".join(map(encode, left))
    yield b"\n]}\n"


class _Numbers:
    """The number of each GPU in a trace; 0 is the node itself."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, address: str) -> int:
        """The number of a GPU."""
        return self._numbers.get(address, 0)

    def named(self, address: str, index: int | None) -> Numbers:
        """The event that names a GPU."""
        number = self._numbers[address] = len(self._numbers) + 1
        name = f"GPU{'' if index is None else index} {address}"
        return {"ph": "M", "pid": number, "tid": 0, "name": "process_name", "args": {"name": name}}


def _counters(pid: int, ts: int, before: Numbers, row: Numbers) -> Iterator[Numbers]:
    for name, value in row.items():
        number = isinstance(value, int | float) and name != "index"
        if number and before.get(name) != value:
            yield {"ph": "C", "pid": pid, "tid": 0, "ts": ts, "name": name, "args": {name: value}}


def _ended(
    runs: dict[tuple[str, int], int],
    address: str,
    pids: list[int] | None,
    ts: int,
    number: Callable[[str], int],
) -> list[Numbers]:
    """Processes that are gone from a GPU since the reading before, as slices; new ones begin."""
    if pids is None:
        return []
    for pid in pids:
        runs.setdefault((address, pid), ts)
    gone = [key for key in runs if key[0] == address and key[1] not in pids]
    return [_slice(number(address), key[1], runs.pop(key), ts) for key in gone]


def _slice(number: int, pid: int, begins: int, ends: int) -> Numbers:
    shared = {"ph": "X", "pid": number, "tid": pid, "cat": "process"}
    return {"name": f"PID {pid}", "ts": begins, "dur": max(ends - begins, 0), **shared}


EXPORTS: dict[str, Callable[[SessionFile], Iterator[bytes]]] = {
    ".csv": as_csv,
    ".json": as_trace,
}
"""Ending of a file -> what is written into it."""
