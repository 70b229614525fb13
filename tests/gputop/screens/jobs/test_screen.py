"""Where jobs stand, on the screen: asked on opening and on a key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gputop.app import GpuTop
from gputop.live.findings import Shown
from gputop.live.jobs_controller import asking, of_demo
from gputop.live.recent import Recent
from gputop.reading import recording
from gputop.screens.job_sentence import headline
from gputop.screens.jobs.list import head_lines, rows_of
from gputop.screens.jobs.standing import progress_lines, said_of, signs_of
from gputop.screens.node.head import JOBS_END, job_line
from gputop.screens.tab_signs import tab_signs
from gputop.topology.diagnosis.case import Case
from gputop.topology.diagnosis.engine import diagnose
from gputop.topology.jobs.asking import JobsReport
from gputop.topology.jobs.grouping import jobs
from gputop.topology.jobs.standing import KnownBy, LastCollective
from gputop.topology.jobs.traffic import LINKS
from gputop.topology.model.page import SIMULATED
from gputop.topology.model.severity import Origin
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.report import Report
from gputop.widgets.spans import text_of, width_of
from tests.gputop.screens.jobs.test_jobs import decided, open_jobs, said, snapshot_with
from tests.support.app import give, press, text
from tests.support.findings_made import diagnosis, finding
from tests.support.places import RECORDINGS


async def test_a_job_that_hangs_comes_first_and_is_marked_as_simulated() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await open_jobs(pilot, snapshot_with("sick-h100-8"))
        head = " ".join(text(pilot, "#job-head").split())
        assert (
            "train.py: 6 ranks, 5 wait in all-reduce 1042 (no progress for 12 min), rank 3" in head
        )
        assert "simulated" in said(pilot)
        assert "py-spy dump --pid 41003" in said(pilot)


async def test_jobs_of_this_machine_are_asked_on_opening_and_on_a_key_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count: list[int] = []

    def asked(snapshot: NodeSnapshot, **rest: object) -> JobsReport:
        count.append(len(snapshot.readings.processes))
        return JobsReport(jobs=())

    monkeypatch.setattr("gputop.topology.jobs.asking.ask_live", asked)
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await open_jobs(pilot, replace(snapshot_with(), source=("live",)))
        await pilot.app.workers.wait_for_complete()
        await give(pilot, decided(replace(snapshot_with(), source=("live",))))
        assert count == [6]
        assert "R ask again" in text(pilot, "#keys")
        await press(pilot, "R")
        await pilot.app.workers.wait_for_complete()
        assert count == [6, 6]


def test_links_are_called_silent_or_unread_only_after_some_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pasts: list[Any] = []

    def asked(snapshot: NodeSnapshot, **rest: object) -> JobsReport:
        pasts.append(rest["past"])
        return JobsReport(jobs=())

    monkeypatch.setattr("gputop.topology.jobs.asking.ask_live", asked)
    recent = Recent()
    for second in range(7):
        live = replace(snapshot_with(), source=("live",), taken_at=1000.0 + second)
        recent.add(live)
        asking(live, None, recent)()
    assert pasts[:5] == [None] * 5, "the first reading has no rate: nobody can say anything yet"
    assert [len(past[LINKS]) for past in pasts[5:]] == [8, 8]


async def test_a_recording_offers_no_key_that_asks() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await open_jobs(pilot, snapshot_with())
        assert "ask again" not in text(pilot, "#keys")


def test_the_rank_that_all_wait_for_has_a_sign_else_its_gpu_gives_one() -> None:
    snapshot = snapshot_with("sick-h100-8")
    found = jobs(snapshot)
    (late,) = (user for job in found for user in job.processes if user.reading.rank == 3)
    marked = Shown(
        diagnosis=diagnosis(), findings=(finding("link", "slow", "down", *late.gpus),), silenced=()
    )
    assert signs_of(of_demo(snapshot), found, marked) == {late.pid: ("✗", "bad")}
    assert signs_of(None, found, marked) == {late.pid: ("▼", "warn")}
    (row,) = (row for row in rows_of(found, snapshot, {late.pid: ("▼", "warn")}) if row.sign[0])
    assert row.user == late


def test_a_long_sentence_takes_both_lines_and_keeps_the_word_simulated() -> None:
    snapshot = snapshot_with("sick-h100-8")
    first = headline(of_demo(snapshot))
    one, two, _ = head_lines(jobs(snapshot), snapshot, (), 78, first)
    assert "5 wait in all-reduce 1042 (no progress for 12 min)" in text_of(one)
    assert text_of(two).startswith("  3 (pid 41003, GPU3) has not launched it")
    assert text_of(two).endswith("… · simulated")
    one, two = head_lines(jobs(snapshot), snapshot, (), 300, first)
    assert text_of(one).endswith("its GPU computes meanwhile · simulated")
    assert text_of(two).startswith("  torchrun demo: 6 ranks")


async def test_jobs_that_come_while_the_screen_is_open_are_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count: list[int] = []

    def asked(snapshot: NodeSnapshot, **rest: object) -> JobsReport:
        count.append(len(snapshot.readings.processes))
        return JobsReport(jobs=())

    monkeypatch.setattr("gputop.topology.jobs.asking.ask_live", asked)
    monkeypatch.setattr("gputop.live.jobs_controller.ASK_AGAIN_SECONDS", 0.0)
    live = replace(snapshot_with(), source=("live",))
    empty = replace(live, readings=replace(live.readings, processes=()))
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await open_jobs(pilot, empty)
        await pilot.app.workers.wait_for_complete()
        for _ in range(2):
            await give(pilot, decided(live))
            await pilot.app.workers.wait_for_complete()
        assert count == [0, 6]


async def test_y_steps_from_the_next_step_to_the_line_that_ends_the_late_rank() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await open_jobs(pilot, snapshot_with("sick-h100-8"))
        for line in ("py-spy dump --pid 41003", "kill -TERM 41003", "py-spy dump --pid 41003"):
            await press(pilot, "y")
            assert pilot.app.clipboard == line
        await press(pilot, *["down"] * 4, "y")
        assert pilot.app.clipboard == "kill -TERM 41003"


async def test_processes_are_sorted_and_filtered_by_columns_that_do_not_fit_too() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await open_jobs(pilot, snapshot_with("sick-h100-8", p41004={"user": "eve"}), "s", "s")
        lines = text(pilot, "#job-list").splitlines()
        assert "core ↓" in lines[1] or "↓core" in lines[1]
        await press(pilot, "ampersand", *"eve", "enter")
        lines = text(pilot, "#job-list").splitlines()
        assert [line.split()[1] for line in lines[3:]] == ["41004"]
        await press(pilot, "escape")
        assert len(text(pilot, "#job-list").splitlines()) == 9


async def test_the_rank_behind_is_a_cell_and_a_bar() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await open_jobs(pilot, snapshot_with("sick-h100-8"))
        lines = text(pilot, "#job-list").splitlines()
        assert "all-reduce 1041     -1" in lines[6]
        assert ["-1" in line for line in lines[3:]] == [False] * 3 + [True] + [False] * 2
        assert "1,041 ◄ behind" in said(pilot)
        assert "12 min" in lines[3]


async def test_what_the_time_of_each_gpu_is_made_of_is_a_bar() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await open_jobs(pilot, snapshot_with("slow-job-h100-8"))
        lines = text(pilot, "#job").splitlines()
        (at,) = (at for at, line in enumerate(lines) if "A bar is all time" in line)
        bars = " ".join(lines[at + 1 : at + 4])
        assert bars.count("▒") > 5 * 10
        (late,) = re.findall(r" 4 (█+)(▒*)(·*) ", bars)
        assert [len(part) for part in late] == [9, 2, 13]


def test_ranks_that_wait_for_a_late_one_show_for_what_share_of_the_time() -> None:
    here = snapshot_with("slow-job-h100-8")
    answer = of_demo(here)
    ranks = {one.rank.rank: one.waits for one in said_of(answer).values()}
    assert ranks == {**dict.fromkeys((0, 1, 2, 3, 5), "55 %"), 4: "–"}


@pytest.mark.parametrize(
    ("demo", "first"),
    [
        ("sick-h100-8", "✗ train.py: rank 3 (pid 41003, GPU3) keeps 5 waiting for 12 min"),
        ("slow-job-h100-8", "▼ train.py: rank 4 is late, a step takes about 2.2 times as long"),
    ],
)
def test_a_line_without_room_has_rank_and_price_first(demo: str, first: str) -> None:
    here = snapshot_with(demo)
    whole, brief = (headline(of_demo(here), width=width) for width in (0, 78))
    assert whole is not None
    assert brief is not None
    assert "6 ranks" in text_of(whole)
    assert text_of(brief).startswith(first)
    assert len(first) <= 78


@pytest.mark.parametrize("width", [40, 60, 78, 100, 140, 400])
@pytest.mark.parametrize("demo", ["sick-h100-8", "slow-job-h100-8"])
def test_every_door_says_the_same_words_cut_at_a_word(demo: str, width: int) -> None:
    answer = of_demo(snapshot_with(demo))
    assert answer is not None
    (job,) = answer.jobs
    said = headline(answer, width=width)
    line = job_line(answer, width + width_of(JOBS_END) + 2)
    assert said is not None
    assert line is not None
    assert text_of(line[0]).strip() == text_of(said), "Node and Jobs say one thing"
    assert text_of(said).endswith(f" · {SIMULATED}")
    assert width_of(said) <= width
    words = text_of(said).removesuffix(f" · {SIMULATED}")[2:]
    kept, cut, _ = words.partition("…")
    whole = job.sentence if words == job.sentence else job.brief
    assert whole.startswith(kept)
    assert not cut or not whole[len(kept)].isalnum()


@pytest.mark.parametrize(("behind", "step"), [(1, "1 behind"), (40, "up to 4 behind")])
def test_a_bar_says_what_is_full_and_what_a_cell_is(behind: int, step: str) -> None:
    answer = of_demo(snapshot_with("sick-h100-8"))
    assert answer is not None
    (job,) = answer.jobs
    late = LastCollective(f"all-reduce {1042 - behind}", KnownBy.RAS)
    ranks = tuple(replace(rank, last=late) if rank.rank == 3 else rank for rank in job.ranks)
    title, *bars = progress_lines(replace(job, ranks=ranks), 78)
    assert text_of(title) == f"all-reduce launched: a full bar is 1,042, a cell less {step}"
    lengths = [cells.count("█") for line in bars for cells, _ in line if "█" in cells]
    assert sorted(lengths) == [12 - (1 if behind == 1 else 10), *[12] * 5]


@pytest.mark.parametrize("node", [False, True])
async def test_what_was_kept_of_a_job_stands_on_the_screens(tmp_path: Path, *, node: bool) -> None:
    """Beside its node, where its ranks are rows, or alone; and nothing is to be copied for here."""
    saved = RECORDINGS / "saved-h200x2" / "cpu50"
    names = [path.name for path in saved.iterdir() if node or "pid" in path.name]
    for name in names:
        (tmp_path / name).write_bytes((saved / name).read_bytes())
    kept = recording((str(tmp_path),))
    app = GpuTop()
    app.jobs.show_recorded(kept.jobs)
    async with app.run_test(size=(120, 40)) as pilot:
        await open_jobs(pilot, kept.snapshot)
        head = " ".join(text(pilot, "#job-head").split())
        assert "rank 1 is late, a step takes about 10 times as long" in head
        assert "142 all-reduces of 32.0 MiB by 2 ranks" in said(pilot)
        assert "simulated" not in said(pilot)
        found = Node(kept.snapshot).decide()
        await give(pilot, Report(found, diagnose(Case(found))))
        tabs = tab_signs(app)
        assert [tabs[name][0][:1] for name in ("jobs", "findings")] == ["▼", "▼"]
        shown = app.findings.shown(app.report)
        assert shown is not None
        assert sum(one.origin is Origin.JOB for one in shown.findings) == 1
        if node:
            await press(pilot, "y")
            assert app.clipboard.endswith("if it still runs")
