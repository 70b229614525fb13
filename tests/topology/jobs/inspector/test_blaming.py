"""Why a rank comes last: by when its program called, or by how busy its GPU was."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gputop.answers.jobs import JobsRequest, answer
from gputop.topology.jobs.inspector.blaming import BY_BOTH, BY_NODE, late_for
from gputop.topology.jobs.inspector.comparing import compare
from gputop.topology.jobs.inspector.records import InspectorRecords, read
from gputop.topology.jobs.inspector.telling import states_of
from gputop.topology.jobs.lateness import Lateness
from gputop.topology.model.readings import GpuReading
from tests.support.places import RECORDINGS
from tests.topology.jobs.inspector.made import lines, record

SAVED = RECORDINGS / "saved-h200x2"
WAIT_US = 25_000


def late_job(folder: Path, ahead: tuple[int, int] | None) -> InspectorRecords:
    """Rank 1 comes last; `ahead`: microseconds from the calls of ranks 0 and 1 to their kernels."""
    given: dict[str, Any] = {} if ahead is None else {"ahead": lambda rank, _: ahead[rank]}
    files = lines(lambda rank, _: 245.0 if rank else 245.0 + WAIT_US, **given)
    paths = [folder / f"vm-pid{700 + rank}.log" for rank in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.write_bytes(text)
    return read(map(str, paths))


@pytest.mark.parametrize(
    ("ahead", "how", "said"),
    [
        ((900_000, 98), Lateness.HOST, "its program calls late, its GPU begins 98.0 us after"),
        ((2_000, 2_000), Lateness.HOST, "its program calls late, its GPU begins 2.00 ms after"),
        ((900, 25_100), Lateness.GPU, "its program calls in time, its GPU begins 25.1 ms later"),
        ((900_000, 12_500), None, ""),  # half of it is its program's, half its GPU's
        ((60, 40), None, ""),  # so a captured graph calls, whose callbacks stand in the stream
        (None, None, ""),
    ],
)
def test_an_event_trace_tells_a_late_program_from_a_busy_gpu(
    ahead: tuple[int, int] | None, how: Lateness | None, said: str, tmp_path: Path
) -> None:
    records = late_job(tmp_path, ahead)
    late = late_for(compare(records.operations))
    assert late is not None
    assert (late.rank, late.how) == (1, how)
    assert late.why.startswith(said)
    assert bool(late.why) == (how is not None)
    (state,) = states_of(records)
    assert "rank 1 is late" in state.sentence
    assert late.question in state.unknown
    assert late.question.endswith(BY_BOTH) == (ahead is None), "what would decide it is named"
    assert late.question.endswith(BY_NODE) == (ahead is not None and how is None)


@pytest.mark.parametrize(
    "trace",
    [
        "x",
        {},
        {"coll_start_ts": 5, "kernel_events": [{"kernel_start_ts": "soon"}]},
        {"coll_start_ts": 5, "kernel_events": []},
        {"coll_start_ts": 0, "kernel_events": [{"kernel_start_ts": 0}]},
        {"coll_start_ts": 5, "kernel_events": [{"kernel_start_ts": 10**18}]},
        {"coll_start_ts": 10**17, "kernel_events": [{"kernel_start_ts": 10**15}]},
        {"coll_start_ts": -(10**30), "kernel_events": [{"kernel_start_ts": 10**15}]},
    ],
)
def test_a_trace_that_cannot_be_takes_no_record_along(trace: object, tmp_path: Path) -> None:
    line = record(0, 1, 245.0)
    line["coll_perf"]["event_trace_ts"] = trace
    path = tmp_path / "vm-pid700.log"
    path.write_text(json.dumps(line))
    (one,) = read([str(path)]).operations
    assert (one.called_at, one.begun_at, one.ahead_seconds) == (None, None, None)


def test_the_calls_of_a_captured_graph_prove_nothing_of_its_program(tmp_path: Path) -> None:
    line = record(1, 1, 245.0, ahead=lambda *_: 40)
    line["coll_perf"]["graphCaptured"] = True
    path = tmp_path / "vm-pid701.log"
    path.write_text(json.dumps(line))
    (one,) = read([str(path)]).operations
    assert one.ahead_seconds is None
    assert one.begun_at is not None


def test_a_trace_tells_how_long_a_step_takes_where_the_plugin_wrote_at_once(tmp_path: Path) -> None:
    files = lines(lambda rank, _: 245.0 if rank else 29_000.0, ahead=lambda *_: 98)
    for rank, raw in files.items():
        told = [json.loads(line) for line in raw.splitlines()]
        for at, one in enumerate(told):
            one["metadata"]["dump_timestamp_us"] = told[-1]["metadata"]["dump_timestamp_us"] + at
        text = "\n".join(map(json.dumps, told))
        (tmp_path / f"vm-pid{700 + rank}.log").write_text(text)
    (state,) = states_of(read(map(str, sorted(tmp_path.iterdir()))))
    assert "a step takes about 2.4 times as long" in state.sentence, "29 of 50 ms are waited"


@pytest.mark.parametrize(
    ("busy", "how"),
    [(12.0, Lateness.HOST), (60.0, Lateness.HOST), (75.0, None), (99.0, Lateness.GPU)],
)
def test_how_busy_the_gpu_is_decides_where_others_wait_for_long(
    busy: float, how: Lateness | None, tmp_path: Path
) -> None:
    """Others wait for half of the time: idle for a third of it, it may have worked meanwhile."""
    late = late_for(
        compare(late_job(tmp_path, None).operations),
        GpuReading(address="0000:01:00.0", utilization_percent=busy),
    )
    assert late is not None
    assert late.how is how
    assert bool(late.why) == (how is not None)


@pytest.mark.parametrize(
    ("name", "how", "step_ms"),
    [
        ("cpu10", Lateness.HOST, 15.5),
        ("cpu50", Lateness.HOST, 56.4),
        ("loader30", Lateness.HOST, 36.4),
        ("gpu1.3", Lateness.GPU, 8.44),
        ("gpu5", Lateness.GPU, 30.6),
        ("ddp", None, None),
    ],
)
def test_records_with_event_traces_decide_alone_why_a_rank_is_late_and_the_price(
    name: str, how: Lateness | None, step_ms: float | None
) -> None:
    """Recorded on two H200 with event traces, where a step of ddp took 6.86 ms."""
    folder = RECORDINGS / "inspector-h200x2" / name
    records = read([str(path) for path in sorted(folder.iterdir())])
    late = late_for(compare(records.operations))
    (state,) = states_of(records)
    if step_ms is None:
        assert late is None
        assert "is late" not in state.sentence
        return
    assert late is not None
    assert (late.rank, late.how) == (1, how)
    assert late.why in state.brief
    times = float(state.sentence.partition(" times as long")[0].split()[-1])
    assert times == pytest.approx(step_ms / 6.86, rel=0.2)


@pytest.mark.parametrize("name", ["cpu50", "gpu5", "loader30"])
def test_the_node_beside_records_decides_what_they_leave_open(name: str, tmp_path: Path) -> None:
    for path in (SAVED / name).glob("*.log.gz"):
        (tmp_path / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    (alone,) = answer(JobsRequest(sources=(str(tmp_path),))).report.jobs
    (beside,) = answer(JobsRequest(sources=(str(SAVED / name),))).report.jobs
    asked = [line for line in alone.unknown if line.startswith("why rank 1 comes last")]
    assert len(asked) == 1
    assert asked[0].endswith(BY_BOTH)
    assert not [line for line in beside.unknown if line.startswith("why rank 1 comes last")]
    expected = "its GPU is busy" if name == "gpu5" else "its GPU has no work"
    assert expected in beside.brief
