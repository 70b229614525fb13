"""A recording as CSV and as a trace: what stands in them is what was read."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import msgspec

from gputop.topology.model.readings import GpuProcess, GpuUse
from gputop.topology.recorded.sessions.changes import NoteKind, SessionNote
from gputop.topology.recorded.sessions.exported import COLUMNS, FIGURES, as_csv, as_trace
from gputop.topology.recorded.sessions.session_file import SessionFile
from tests.support.sessions import BEGUN, demo_readings, write_recording


def recorded(tmp_path: Path) -> SessionFile:
    """Five readings; a process is on the first GPU in the second and the third of them."""
    readings = []
    for place, one in enumerate(demo_readings(5)):
        mine = (GpuProcess(pid=77, kind=GpuUse.COMPUTE),) if place in (1, 2) else ()
        first = msgspec.structs.replace(one.readings.gpus[0], processes=mine, power_watts=None)
        gpus = (first, *one.readings.gpus[1:])
        parts = msgspec.structs.replace(one.readings, gpus=gpus)
        readings.append(msgspec.structs.replace(one, readings=parts))
    notes = {
        3: (
            SessionNote(
                NoteKind.EVENT, 'GPU0: "lost"', "broken", readings[0].readings.gpus[0].address
            ),
        )
    }
    return SessionFile(write_recording(tmp_path / "a", readings, notes))


def test_csv_has_a_line_for_each_gpu_and_reading(tmp_path: Path) -> None:
    session = recorded(tmp_path)
    rows = list(csv.DictReader(b"".join(as_csv(session)).decode().splitlines()))
    assert len(rows) == 5 * 8
    assert tuple(rows[0]) == COLUMNS
    assert rows[0]["power_watts"] == ""
    assert rows[8]["pids"] == "77"
    assert rows[0]["pids"] == "none"
    known = demo_readings(5)[2].readings.gpus[3]
    row = rows[2 * 8 + 3]
    assert float(row["taken_at"]) == BEGUN + 2
    assert row["address"] == known.address
    assert float(row["temperature_c"]) == known.temperature_c
    assert float(row["power_watts"]) == float(f"{known.power_watts:.4g}")


def test_a_trace_is_what_perfetto_reads(tmp_path: Path) -> None:
    """The fields that its documentation of the JSON format asks for, by kind of event."""
    found = json.loads(b"".join(as_trace(recorded(tmp_path))))
    events = found["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "C", "i", "X"}
    for event in events:
        assert isinstance(event["pid"], int)
        assert isinstance(event["name"], str)
        if event["ph"] != "M":
            assert BEGUN * 1e6 <= event["ts"] <= (BEGUN + 4) * 1e6
        if event["ph"] == "C":
            assert all(isinstance(value, int | float) for value in event["args"].values())
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert len(names) == 8
    assert any(name.startswith("GPU0 ") for name in names)
    (instant,) = [event for event in events if event["ph"] == "i"]
    assert instant["name"] == 'GPU0: "lost"'
    assert instant["pid"] == 1
    assert instant["s"] == "p"
    (run,) = [event for event in events if event["ph"] == "X" and event["tid"] == 77]
    assert (run["ts"], run["dur"]) == ((BEGUN + 1) * 1e6, 2e6)
    counters = {event["name"] for event in events if event["ph"] == "C"}
    assert set(FIGURES[:4]) <= counters
