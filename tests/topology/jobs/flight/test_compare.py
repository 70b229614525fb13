"""Dumps as records, and what several of them say together."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.jobs.flight.comparing import compare, own_frame
from gputop.topology.jobs.flight.dump import Dump, DumpError, looks_like, parse
from gputop.topology.jobs.flight.files import age, expected, named, read

REAL = Path(__file__).parent / "order.rank_0"
"""As PyTorch 2.11 with NCCL 2.28.9 wrote it on a GPU: rank 0 of 2 waits in an all-reduce."""


def entry(number: int, *, size: int = 4, state: str = "completed", **more: Any) -> dict[str, Any]:
    return {
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "profiling_name": "nccl:all_reduce",
        "input_sizes": [[size]],
        "input_dtypes": ["Float"],
        "state": state,
        "retired": state == "completed",
        "is_p2p": False,
        "frames": [
            {"name": "all_reduce", "filename": "/venv/site-packages/torch/d.py", "line": 3},
            {"name": "step", "filename": "/srv/train.py", "line": 21},
        ],
    } | more


def dumped(*entries: dict[str, Any]) -> bytes:
    ranks = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}}
    return pickle.dumps({"version": "2.10", "pg_config": ranks, "entries": list(entries)}, 2)


def test_a_dump_of_a_real_job() -> None:
    dump = parse(REAL.read_bytes(), "order.rank_0")
    assert (dump.rank, dump.library, dump.ranks) == (0, "2.28.9", (("0", (0, 1)),))
    (group,) = compare([dump])
    assert (group.name, group.size, group.without_dump) == ("default group", 2, (1,))
    (waiting,) = group.waiting
    assert waiting.last is not None
    assert (waiting.last.name, waiting.last.number) == ("all_reduce", 1)
    assert own_frame(waiting.last.frames) is not None


def test_how_far_ranks_ran_ahead_of_the_collective_that_blocks_them_accuses_nobody() -> None:
    def ran(*states: str) -> bytes:
        return dumped(*(entry(at, state=state) for at, state in enumerate(states, 1)))

    done, waits = "completed", "scheduled"
    sides = (ran(done, waits, waits), ran(done, waits, waits, waits), ran(done, waits))
    (group,) = compare([parse(side, f"d_{n}") for n, side in enumerate(sides)])
    assert group.furthest is not None
    assert (group.furthest.number, [place.rank for place in group.waiting]) == (2, [0, 1, 2])
    assert group.behind == ()
    sides = (ran(done, waits, waits), ran(done, waits, waits, waits), ran(done))
    (group,) = compare([parse(side, f"d_{n}") for n, side in enumerate(sides)])
    assert group.furthest is not None
    assert (group.furthest.number, [place.rank for place in group.waiting]) == (2, [0, 1])
    assert [place.rank for place in group.behind] == [2]
    # A broadcast that has ended on some ranks alone is not what the others wait in.
    sides = (ran(done, waits), ran(done, done, waits), ran(done, done))
    (group,) = compare([parse(side, f"d_{n}") for n, side in enumerate(sides)])
    assert group.furthest is not None
    assert group.furthest.number == 3


def test_who_waits_and_who_is_behind() -> None:
    ahead = dumped(entry(1), entry(2, state="started"))
    (group,) = compare([parse(ahead, "d_0"), parse(ahead, "d_1"), parse(dumped(entry(1)), "d_2")])
    assert [place.rank for place in group.waiting] == [0, 1]
    assert [place.rank for place in group.behind] == [2]
    frame = own_frame(group.waiting[0].last.frames) if group.waiting[0].last else None
    assert frame is not None
    assert (frame.file, frame.line) == ("/srv/train.py", 21)


def test_two_groups_of_one_name_are_not_held_against_each_other() -> None:
    def part(ranks: str, *entries: dict[str, Any]) -> bytes:
        groups = {"1": {"name": "1", "desc": "tp", "ranks": ranks}}
        return pickle.dumps({"pg_config": groups, "entries": list(entries)}, 2)

    def call(number: int, state: str) -> dict[str, Any]:
        return entry(number, state=state, process_group=("1", "tp"))

    far, near = part("[0, 1]", call(5, "started")), part("[2, 3]", call(3, "completed"))
    sides = [parse(data, f"d_{rank}") for rank, data in enumerate((far, far, near, near))]
    first, second = compare(sides)
    assert [place.rank for place in first.waiting] == [0, 1]
    assert (first.size, first.behind, second.behind) == (2, (), ())
    assert [place.rank for place in second.places] == [2, 3]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (entry(1, size=5), "has other sizes on some ranks: 4 on rank 0; 5 on rank 1"),
        (entry(1, input_dtypes=["Half"]), "has other types on some ranks"),
        (entry(1, profiling_name="nccl:broadcast"), "broadcast on rank 1"),
    ],
)
def test_collectives_that_do_not_fit(other: dict[str, Any], said: str) -> None:
    (group,) = compare([parse(dumped(entry(1)), "d_0"), parse(dumped(other), "d_1")])
    assert said in group.differences[0]


def test_tensors_of_a_root_may_differ() -> None:
    sides = [dumped(entry(1, profiling_name="nccl:gather", input_sizes=[[n]])) for n in (1, 2)]
    (group,) = compare([parse(side, f"d_{rank}") for rank, side in enumerate(sides)])
    assert group.differences == ()


def test_json_of_pytorch_says_the_same() -> None:
    raw = {
        "version": "2.10",
        "pg_config": {"": {"desc": "", "name": "", "ranks": "[0, 1]"}},
        "pg_status": {"0": {"last_completed_collective": "2", "last_enqueued_collective": "2"}},
        "entries": [entry(2, state="scheduled", retired=False)],
    }
    (group,) = compare(
        [parse(json.dumps(raw).encode(), "d_0"), parse(json.dumps(raw).encode(), "d_1")]
    )
    assert (group.size, group.waiting, group.behind) == (2, (), ())


@pytest.mark.parametrize(
    "data",
    [b"", b"text", b"{" * 100_000, b'{"a": 1}', b"\x80\x02N.", b"\x80\x02cos\nsystem\n.", b"[1]"],
)
def test_what_is_no_dump_gets_one_line(data: bytes) -> None:
    with pytest.raises(DumpError) as refused:
        parse(data, "x_0")
    assert "\n" not in str(refused.value)


def test_entries_of_another_form_are_left_out() -> None:
    strange = {"entries": [7, {}, {"process_group": 3}, entry(1, frames=[1, {"line": 2}])]}
    (one,) = parse(pickle.dumps(strange, 2), "x").entries
    assert one.frames == ()


def test_where_dumps_are_looked_for() -> None:
    assert expected(3, {"TORCH_FR_DUMP_TEMP_FILE": "/d/a_", "HOME": "/h"}) == ("/d/a_3",)
    assert expected(3, {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/d/b_"}) == ("/d/b_3",)
    assert "/h/.cache/torch/comm_lib_trace_rank_3" in expected(3, {"HOME": "/h"})
    assert "/tmp/nccl_trace_rank_3" in expected(3, {})


def test_a_dump_of_a_job_that_runs_shows_nobody_who_waits() -> None:
    def dumps(seconds: float) -> list[Dump]:
        ahead = entry(2, state="started", time_created_ns=50 * 10**9)
        return [
            parse(dumped(entry(1), ahead), "d_0", 50.0 + seconds),
            parse(dumped(entry(1)), "d_1", 50.0 + seconds),
        ]

    (group,) = compare(dumps(5.0))
    assert group.waiting == ()
    (group,) = compare(dumps(60.0))
    assert [place.rank for place in group.waiting] == [0]
    (group,) = compare(dumps(-60.0))
    assert [place.rank for place in group.waiting] == [0], "clocks that do not fit prove nothing"


def test_files_are_found_by_content_and_links_pipes_and_old_ones_are_not_read(
    tmp_path: Path,
) -> None:
    good = tmp_path / "trace_0"
    good.write_bytes(dumped(entry(1)))
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "link_1").symlink_to(good)
    assert looks_like(good.read_bytes())
    beside = (str(tmp_path / "notes.txt"), "node.json")
    assert named([str(tmp_path), "node.json"]) == ((str(good),), beside, ())
    found = read([str(good), str(tmp_path / "link_1"), str(tmp_path / "absent_2")])
    assert [dump.rank for dump in found.dumps] == [0]
    assert [path for path, _ in found.refused] == [str(tmp_path / "link_1")]
    late = read([str(good)], since=good.stat().st_mtime + 60)
    assert "before the job started" in late.refused[0][1]


def test_a_dump_in_json_is_told_by_a_field_that_it_has() -> None:
    assert looks_like(b' {"version": "2.10", "pg_config": {')
    assert looks_like(b'{"entries": [')
    assert not looks_like(b'{"machine": {"gpus": []}}')
    assert not looks_like(b'{"nccl_version": "2.28.9", "communicators": [')


def test_tensors_of_another_shape_with_as_many_elements_fit() -> None:
    def sides(*shapes: list[int]) -> tuple[str, ...]:
        dumps = [dumped(entry(1, input_sizes=[shape])) for shape in shapes]
        (group,) = compare([parse(side, f"d_{n}") for n, side in enumerate(dumps)])
        return group.differences

    assert sides([16], [4, 4]) == ()
    (text,) = sides([16], [4, 5])
    assert text.endswith("has other sizes on some ranks: 16 on rank 0; 4x5 on rank 1")


def test_long_names_of_groups_are_cut() -> None:
    ranks = {"g" * 999: {"ranks": [0]}}
    dump = parse(pickle.dumps({"version": "2.10", "pg_config": ranks, "entries": []}, 2), "d_0")
    assert [len(name) for name, _ in dump.ranks] == [300]


def test_the_age_of_the_newest_dump() -> None:
    def made(*written: float | None) -> list[Dump]:
        return [Dump(rank=0, origin="d", written_at=when) for when in written]

    for written, now, said in (
        ((), 1000.0, None),
        ((None,), 1000.0, None),
        ((100.0,), None, None),
        ((100.0,), 160.0, None),
        ((100.0,), 161.0, "1 min"),
        ((40.0, 100.0, None), 160.0, None),
        ((100.0,), 50.0, None),
    ):
        assert age(made(*written), now) == said, (written, now)
