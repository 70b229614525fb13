"""Records of NCCL's Inspector: read, put side by side, and told."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gputop.topology.jobs.inspector import records
from gputop.topology.jobs.inspector.comparing import (
    OperationKind,
    RankWaits,
    compare,
    worst,
)
from gputop.topology.jobs.inspector.lengthening import Lengthening
from gputop.topology.jobs.inspector.records import (
    MOST_BYTES,
    NEWS_BYTES,
    PROMETHEUS,
    InspectorRecords,
    looks_like,
    named,
    read,
)
from gputop.topology.jobs.inspector.telling import sentence, states_of, waits_of
from gputop.topology.jobs.lateness import about, at_most_slower, between
from gputop.topology.model.severity import JobVerdict
from tests.support.places import RECORDINGS
from tests.topology.jobs.inspector.made import START_US, lines, record

STRAGGLER = RECORDINGS / "inspector" / "h100x2-straggler"


def kept(folder: Path, files: Mapping[int, bytes]) -> InspectorRecords:
    """Write one file a rank, and read them."""
    paths = []
    for rank, text in files.items():
        path = folder / f"vm-pid{700 + rank}.log"
        path.write_bytes(text)
        paths.append(str(path))
    return read(paths)


def said(told: InspectorRecords) -> tuple[str, JobVerdict]:
    text, verdict, _ = sentence(compare(told.operations))
    return text, verdict


def test_the_late_rank_of_a_real_job_is_named_with_its_price() -> None:
    paths, others = named([str(STRAGGLER)])
    assert others == ()
    found = compare(read(paths).operations)
    (kind,) = found.kinds
    assert kind.late is not None
    assert (kind.late.rank, kind.late.last, kind.matched) == (1, 40, 40)
    # Healthy, the same job took 21.4 ms a step and 50.5 with the late rank: 29.1 ms more.
    assert kind.waiting[0].seconds == pytest.approx(0.0291, rel=0.05)
    assert kind.share == pytest.approx(29.1 / 50.5, rel=0.05)
    assert kind.bus_gbs == pytest.approx(275, rel=0.02)
    text, verdict, brief = sentence(found)
    assert verdict is JobVerdict.SLOW
    assert text == (
        "rank 1 is late, a step takes about 2.3 times as long: it comes last in 40 of 40 "
        "all-reduces of 64.0 MiB; the other waits for it 56 % of the time, 28.4 ms in each"
    )
    assert brief == text.partition(";")[0]
    assert waits_of(found) == {0: kind.share}
    assert found.contradicting == 0


def test_ranks_that_keep_step_are_neither_accused_nor_called_well(tmp_path: Path) -> None:
    """A job whose ranks then call in another order leaves the same records: only what ended."""
    told = kept(tmp_path, lines(lambda rank, number: 245 + rank + number % 3))
    text, verdict = said(told)
    assert verdict is JobVerdict.UNKNOWN
    assert text.startswith("no rank waited long for another: all-reduce of 64.0 MiB takes 246 us")
    (state,) = states_of(told)
    assert state is not None
    assert any(line.startswith("whether the job still runs") for line in state.unknown)


def test_ranks_that_wait_by_turns_are_not_accused(tmp_path: Path) -> None:
    turns = lines(lambda rank, number: 20_000.0 if number % 2 == rank else 245.0)
    text, verdict = said(kept(tmp_path, turns))
    assert verdict is JobVerdict.UNKNOWN
    assert "by turns, 20 % of their time" in text


@pytest.mark.parametrize("often", [3, 10, 19])
def test_one_rank_that_waits_alone_is_not_called_taking_turns(tmp_path: Path, often: int) -> None:
    def took(rank: int, number: int) -> float:
        return 40_000.0 if rank == 0 and number % often == 1 else 250.0

    sentence, verdict = said(kept(tmp_path, lines(took)))
    assert verdict is JobVerdict.UNKNOWN
    assert "rank 0" in sentence
    assert "turns" not in sentence
    assert "no rank waited long" not in sentence


def test_records_that_were_kept_twice_count_once(tmp_path: Path) -> None:
    late = lines(lambda rank, number: 245.0 if rank else 20_000.0 + number)
    once = said(kept(tmp_path, late))
    twice = said(kept(tmp_path, {rank: octets + octets for rank, octets in late.items()}))
    assert once == twice
    assert once[1] is JobVerdict.SLOW


def test_a_short_wait_is_no_slow_job(tmp_path: Path) -> None:
    little = lines(lambda rank, _: 245.0 if rank else 3_000.0)
    text, verdict = said(kept(tmp_path, little))
    assert verdict is JobVerdict.UNKNOWN
    assert "waits for it 6 % of the time, 2.75 ms in each" in text


def test_one_rank_alone_proves_nothing(tmp_path: Path) -> None:
    own = lines(lambda rank, _: 245.0 if rank else 29_000.0)
    for rank in own:
        text, verdict = said(kept(tmp_path, {rank: own[rank]}))
        assert verdict is JobVerdict.UNKNOWN
        assert f"records of rank {rank} alone, of 2" in text


def test_times_of_a_cpu_and_too_few_operations_prove_nothing(tmp_path: Path) -> None:
    late = lines(lambda rank, _: 245.0 if rank else 29_000.0, timing="collective_cpu")
    assert said(kept(tmp_path, late))[1] is JobVerdict.UNKNOWN
    few = lines(lambda rank, _: 245.0 if rank else 29_000.0, count=4)
    assert said(kept(tmp_path, few))[1] is JobVerdict.UNKNOWN


def test_operations_in_between_that_are_missing_change_no_share(tmp_path: Path) -> None:
    whole = lines(lambda rank, _: 245.0 if rank else 25_245.0, count=80)
    each = {rank: b"\n".join(text.split(b"\n")[:-1:4]) + b"\n" for rank, text in whole.items()}
    for files in (whole, each):
        kind = worst(compare(kept(tmp_path, files).operations))
        assert kind is not None
        assert kind.share == pytest.approx(0.5, rel=0.02)


def test_bandwidth_is_counted_as_the_plugin_counts_it() -> None:
    # inspector.cc:inspectorComputeCollBw, after PERFORMANCE.md of nccl-tests.
    def gbs(name: str) -> float | None:
        line = record(0, 0, 1000.0, ranks=8, size=10**9, name=name)
        return _operation(line).bus_gbs(1e-3)

    assert gbs("AllReduce") == pytest.approx(1750)
    assert gbs("AllGather") == gbs("ReduceScatter") == pytest.approx(7000)
    assert gbs("Broadcast") == gbs("Reduce") == pytest.approx(1000)
    assert gbs("AlltoAll") is None


def _operation(line: Mapping[str, Any]) -> records.FinishedOperation:
    found = records._operation(records._LINES.decode(json.dumps(line)))
    assert found is not None
    return found


def test_lost_torn_contradicting_and_foreign_records_are_each_one_line(tmp_path: Path) -> None:
    own = lines(lambda rank, _: 245.0 if rank else 29_000.0)
    dropped = record(0, 0, 1.0)
    del dropped["coll_perf"]
    dropped["dump_stats"] = {"num_dropped_coll_records": 7, "num_dropped_p2p_records": 2}
    wrong = json.dumps(record(0, 30, -5.0)).encode() + b"\n"
    lying = b"".join(
        json.dumps(record(1, n, 245.0, bus=9.0)).encode() + b"\n" for n in range(40, 43)
    )
    own[0] += json.dumps(dropped).encode() + b"\n" + b"nonsense\n" + wrong
    own[1] += lying + b'{"header":{"id":"0x9f64","ra'
    told = kept(tmp_path, own)
    assert told.lost == 9
    assert [why for _, why in told.refused] == [
        "1 line of it is no whole record",
        "1 record of it with figures that cannot be, left out",
        "1 line of it is no whole record",
    ]
    (state,) = states_of(told)
    assert state is not None
    assert state.verdict is JobVerdict.SLOW
    assert any(text.startswith("9 operations that the plugin dropped") for text in state.unknown)
    assert any(text.startswith("3 records with a bandwidth") for text in state.unknown)

    metrics = tmp_path / "gpu0.prom"
    metrics.write_text('nccl_collective_exec_time_microseconds{version="v5.1"} 5\n')
    assert read([str(metrics)]).refused == ((str(metrics), PROMETHEUS),)


def test_later_formats_are_read_by_what_they_share(tmp_path: Path) -> None:
    own = {}
    for rank, text in lines(lambda rank, _: 245.0 if rank else 29_000.0, version="v5.1").items():
        documents = [json.loads(line) for line in text.splitlines()]
        for document in documents:
            document["header"]["comm_name"] = "DP Group 0"
            document["coll_perf"] |= {"coll_algo": "RING", "coll_proto": "LL"}
        own[rank] = b"\n".join(json.dumps(document).encode() for document in documents) + b"\n"
    found = compare(kept(tmp_path, own).operations)
    assert found.kinds[0].group == "DP Group 0"
    assert found.kinds[0].late is not None


def test_packed_files_and_old_ones(tmp_path: Path) -> None:
    path = tmp_path / "vm-pid700.log.gz"
    path.write_bytes(gzip.compress(lines(lambda *_: 245.0)[0]))
    assert len(read([str(path)]).operations) == 20
    assert named([str(path), "elsewhere.txt"]) == ((str(path),), ("elsewhere.txt",))
    old = read([str(path)], since=path.stat().st_mtime + 1)
    assert old.operations == ()
    assert old.refused == ((str(path), "written before the job started, so not by it"),)
    path.write_bytes(path.read_bytes()[:-20])
    assert read([str(path)]).refused == ((str(path), "gzip that ends in the middle"),)


def test_of_a_long_file_the_last_part_is_read(tmp_path: Path) -> None:
    path = tmp_path / "vm-pid700.log"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES)  # sparse
        file.seek(0, 2)
        file.write(b"\n" + lines(lambda *_: 245.0)[0])
    told = read([str(path)])
    assert len(told.operations) == 20
    assert told.refused[0][1] == "longer than 64 MiB: its last part is read"


@given(st.binary(max_size=300), st.integers(0, 400))
def test_any_bytes_are_read_or_refused(octets: bytes, at: int) -> None:
    text = lines(lambda *_: 245.0, count=1)[0]
    looks_like(octets)
    found, lost, doubts = records._parsed(text[:at] + octets + text[at:], 10, set(), writes=False)
    assert len(found) <= 10
    assert lost >= 0
    assert all("\n" not in doubt for doubt in doubts)


@pytest.mark.parametrize(
    ("name", "late"),
    [("loader30", 1), ("gpu1.3", 1), ("cpu10", 1), ("lock", 1), ("accum", None), ("tp", None)],
)
def test_of_recorded_jobs_the_late_rank_is_named_and_no_other(name: str, late: int | None) -> None:
    folder = RECORDINGS / "inspector" / f"h100x2-{name}"
    (state,) = states_of(read([str(path) for path in sorted(folder.iterdir())]))
    assert state is not None
    named = [rank.rank for rank in state.ranks if rank.trouble is not None]
    assert named == ([] if late is None else [late])


@pytest.mark.parametrize(
    ("name", "long", "bound"),
    [
        ("cpu10", "10.5 ms in 3 of them", "1.9 times as long at most"),
        ("lock", "30.8 ms in 3 of them", "3.6 times as long at most"),
        ("gpu1.3", "460 us in each", "2.3 times as long at most"),
    ],
)
def test_records_without_the_time_of_a_step_prove_who_is_late_and_a_bound(
    name: str, long: str, bound: str
) -> None:
    folder = RECORDINGS / "inspector" / f"h100x2-{name}"
    (state,) = states_of(read([str(path) for path in sorted(folder.iterdir())]))
    assert state.verdict is JobVerdict.UNKNOWN
    assert all(part in state.sentence for part in ("rank 1 comes last", long, bound))
    assert "keep longer ones, written in three or more" in state.sentence


@pytest.mark.parametrize(
    ("share", "price"),
    [
        (0.0, "about 1 times as long"),
        (0.55, "about 2.2 times as long"),
        (0.9, "about 10 times as long"),
        (0.984, "about 62 times as long"),
        (1.0, "about 100 times as long"),
    ],
)
def test_a_price_is_a_figure_that_people_write(share: float, price: str) -> None:
    assert about(share) == price
    assert at_most_slower(share) == f"{price.removeprefix('about ')} at most"
    assert between(share, 1.0) == price.replace("about", "at least"), "all of the time bounds none"


def test_the_long_waits_of_an_evaluation_are_told_as_such(tmp_path: Path) -> None:
    """Rank 1 evaluates twice meanwhile: a mean over all operations told of no wait that was."""
    text, verdict = said(
        kept(tmp_path, lines(lambda r, n: 245.0 if r or n % 10 != 5 else 2_000_000.0))
    )
    assert verdict is JobVerdict.UNKNOWN
    assert "rank 0 waited for others 2000 ms in 2 of 20 all-reduces" in text


@pytest.mark.parametrize("first", [64 << 20, 16 << 20])
def test_waits_that_hide_computing_are_no_part_of_the_price(tmp_path: Path, first: int) -> None:
    """Rank 1 is 40 ms late to the first of four in a step of 50 ms; then each computes 1 ms."""
    own: dict[int, list[bytes]] = {0: [], 1: []}
    for rank, number in ((rank, number) for rank in own for number in range(40)):
        begins = number % 4 == 0
        waits = 0.0 if rank else 40_000.0 if begins else 1_000.0
        one = record(rank, number, 245.0 + waits, size=first if begins else 64 << 20)
        steps, place = divmod(number, 4)
        one["metadata"]["dump_timestamp_us"] = START_US + 50_000 * steps + 1_250 * place
        own[rank].append(json.dumps(one).encode())
    told = kept(tmp_path, {rank: b"\n".join(text) for rank, text in own.items()})
    kind = worst(compare(told.operations))
    assert kind is not None
    assert kind.slower == pytest.approx(40 / 50, rel=0.03)
    assert kind.share == pytest.approx(43 / 50, rel=0.03)
    (state,) = states_of(told)
    assert "about 5 times as long" in state.sentence
    assert "40.0 ms in 10 of them" in state.sentence


@pytest.mark.parametrize("at", [1, 100, -40])
def test_a_line_that_is_not_whole_is_said_with_its_file(tmp_path: Path, at: int) -> None:
    """The last line of a file that was cut while the plugin wrote it went unsaid."""
    files = lines(lambda rank, _: 245.0 if rank else 29_000.0)
    whole = kept(tmp_path, files)
    cut = files[1][:at] if at < 0 else files[1][at:]
    told = kept(tmp_path, {**files, 1: cut})
    assert whole.refused == ()
    ((path, why),) = told.refused
    assert Path(path).read_bytes() == cut
    assert why == "1 line of it is no whole record"
    live = read([path], most=NEWS_BYTES)
    assert bool(live.refused) is (at > 0), "a job that runs has not finished its last line"


@pytest.mark.parametrize(("days", "compared"), [(0, True), (0.01, True), (1, False), (400, False)])
def test_records_of_other_days_are_not_compared(
    tmp_path: Path, days: float, compared: bool
) -> None:
    files = lines(lambda rank, _: 245.0 if rank else 29_000.0)
    moved = []
    for line in files[0].splitlines():
        one = json.loads(line)
        one["metadata"]["dump_timestamp_us"] -= int(days * 86_400e6)
        moved.append(json.dumps(one).encode())
    (state,) = states_of(kept(tmp_path, {**files, 0: b"\n".join(moved)}))
    named = [rank.rank for rank in state.ranks if rank.trouble is not None]
    assert named == ([1] if compared else [])
    assert ("not compared" in state.sentence) is not compared
    assert (f"{days:g} d" in state.sentence) is not compared


def test_lines_that_were_written_together_are_no_measure_of_time(tmp_path: Path) -> None:
    own: dict[int, list[bytes]] = {0: [], 1: []}
    for rank, number in ((rank, number) for rank in own for number in range(20)):
        one = record(rank, number, 245.0 if rank else 29_000.0)
        one["metadata"]["dump_timestamp_us"] = START_US + 30 * number
        own[rank].append(json.dumps(one).encode())
    (state,) = states_of(kept(tmp_path, {rank: b"\n".join(text) for rank, text in own.items()}))
    assert state is not None
    assert state.verdict is JobVerdict.UNKNOWN
    assert "do not tell" in state.sentence


def test_of_a_running_job_the_end_of_a_long_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "NEWS_BYTES", 5000)
    path = tmp_path / "vm-pid700.log"
    path.write_bytes(lines(lambda rank, number: 245.0, count=200)[0])
    told = read([str(path)], 0.0, most=5000)
    assert told.refused == ()
    assert 5 < len(told.operations) < 20
    assert max(one.number for one in told.operations) == 199


BOUNDS: dict[str, tuple[Any, Any]] = {
    "rank": (1, 2),
    "ranks": (records.MOST_RANKS, records.MOST_RANKS + 1),
    "number": (2**63 - 1, 2**63),
    "message_bytes": (2**50, 2**50 + 1),
    "seconds": (records.LONGEST_SECONDS, records.LONGEST_SECONDS + 1),
    "written_at": (1e11 - 1, 1e11),
    "name": ("Send", ""),
}
LEAST: dict[str, tuple[Any, Any]] = {
    "rank": (0, -1),
    "ranks": (1, 0),
    "number": (0, -1),
    "message_bytes": (0, -1),
    "seconds": (0.0, -1.0),
    "written_at": (1.0, 0.0),
}


@pytest.mark.parametrize("field", [*BOUNDS, *(f"least {name}" for name in LEAST)])
def test_what_no_operation_can_have_is_not_taken(field: str, tmp_path: Path) -> None:
    sound = replace(kept(tmp_path, lines(lambda *_: 244.0, 1)).operations[0], name="Scatter")
    least = field.startswith("least ")
    name = field.removeprefix("least ")
    possible, impossible = (LEAST if least else BOUNDS)[name]
    assert records._is_possible(replace(sound, **{name: possible}))
    assert not records._is_possible(replace(sound, **{name: impossible}))


@pytest.mark.parametrize(
    ("shares", "told"), [((0.1, 0.3, 0.2), 0.2), ((0.1, 0.3), 0.2), ((0.1, None), None), ((), None)]
)
def test_the_share_of_the_rank_in_the_middle(
    shares: tuple[float | None, ...], told: float | None
) -> None:
    waits = tuple(
        RankWaits(
            rank=rank,
            pid=None,
            host="",
            seconds=1.0,
            last=0,
            share=share,
            costs=Lengthening(1.0, 1.0),
        )
        for rank, share in enumerate(shares)
    )
    made = OperationKind(
        communicator="0xc",
        group="",
        ranks=4,
        nodes=1,
        name="AllReduce",
        message_bytes=1,
        least_bytes=1,
        matched=9,
        transfer_seconds=1.0,
        bus_gbs=None,
        held=0,
        each_seconds=None,
        waits=waits,
    )
    assert made.share == (None if told is None else pytest.approx(told))
