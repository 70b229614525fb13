"""Asking the jobs of this machine: /proc twice, RAS twice, dumps where the ranks write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gputop.topology.jobs import asking
from gputop.topology.jobs.asking import Asker, JobsReport, ask_live
from gputop.topology.jobs.ras.answer import parse
from gputop.topology.jobs.ras.client import RasReply
from gputop.topology.jobs.ras.places import RasPlace
from gputop.topology.model.severity import JobVerdict
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.sources.files.tree import FolderTree
from tests.topology.jobs.flight.test_compare import dumped, entry
from tests.topology.jobs.inspector.made import START_US, lines
from tests.topology.jobs.ras.service import document, missing, rank
from tests.topology.jobs.test_activity import process


@pytest.fixture
def snapshot() -> NodeSnapshot:
    return replace(DemoFeed("hgx-h100-8", version="test").at(0), source=("live",))


@pytest.fixture
def there(snapshot: NodeSnapshot, monkeypatch: pytest.MonkeyPatch) -> NodeSnapshot:
    """A node whose ranks began long ago and see our files."""
    theirs = dict(snapshot.readings.processes[0].namespaces or ())["mnt"]
    monkeypatch.setattr(asking, "namespaces", lambda _: {"mnt": f"mnt:[{theirs}]"})
    early = tuple(replace(each, started_at=1.0) for each in snapshot.readings.processes)
    return replace(snapshot, readings=replace(snapshot.readings, processes=early))


class Machine:
    """A folder like /proc with six ranks; one is gone, and RAS does not hear of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 0.0
        self.asked: list[str] = []
        for pid in range(41000, 41005):
            process(root, pid, "T" if pid == 41003 else "R", 100)
            folder = root / "proc" / str(pid)
            (folder / "cmdline").write_text("python3\0train.py\0")
            (folder / "environ").write_text(f"TORCH_FR_DUMP_TEMP_FILE={root}/dump_\0")

    def answer(self, snapshot: NodeSnapshot, *, ras: bool) -> JobsReport:
        asker = Asker(FolderTree(self.root), self.sleep, lambda: self.now, self.reply)
        return ask_live(snapshot, ras=ras, asker=asker)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def reply(self, place: RasPlace, seconds: float) -> RasReply:
        self.asked.append(place.address)
        left = [rank(n, 41000 + n, 9) for n in range(5) if n != 3]
        data = document(left, [missing(3, 41003), missing(5, 41005)])
        return RasReply(place=place, answers=(parse(data),))


def test_what_proc_and_ras_say_together(tmp_path: Path, snapshot: NodeSnapshot) -> None:
    machine = Machine(tmp_path)
    (job,) = machine.answer(snapshot, ras=True).jobs
    assert machine.asked == ["localhost:28028"] * 2
    assert job.verdict == JobVerdict.HANGS
    assert job.sentence == (
        "train.py: 6 ranks, 4 wait in all-reduce 9, rank 3 (pid 41003, GPU3) is stopped (T) and "
        "rank 5 (pid 41005, GPU5) has ended: no such process"
    )


def test_ras_is_asked_only_when_that_is_wanted(tmp_path: Path, snapshot: NodeSnapshot) -> None:
    machine = Machine(tmp_path)
    answer = machine.answer(snapshot, ras=False)
    assert (machine.asked, answer.ras, answer.jobs[0].verdict) == ([], (), JobVerdict.FAULTY)


def test_dumps_of_the_ranks_here_are_read(tmp_path: Path, there: NodeSnapshot) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "dump_0").write_bytes(dumped(entry(1), entry(2, state="started")))
    (tmp_path / "dump_1").write_bytes(dumped(entry(1)))
    answer = machine.answer(there, ras=False)
    assert [dump.rank for dump in answer.dumps.dumps] == [0, 1]
    assert "rank 1 (pid 41001, GPU1)" in str(answer.jobs[0].findings)
    unknown = [replace(each, started_at=None) for each in there.readings.processes]
    undated = replace(there, readings=replace(there.readings, processes=tuple(unknown)))
    assert machine.answer(undated, ras=False).dumps.dumps == (), "they may be of an earlier job"


def test_records_of_the_inspector_tell_for_whom_the_others_wait(
    tmp_path: Path, there: NodeSnapshot
) -> None:
    records = tmp_path / "records"
    records.mkdir()
    late = lines(lambda n, _: 300.0 if n == 4 else 20_300.0, ranks=6, first_pid=41000)
    for n, text in late.items():
        (records / f"vm-pid{41000 + n}.log").write_bytes(text)
        (records / f"vm-pid{51000 + n}.log").write_bytes(text)  # another job's
    for pid in range(41000, 41006):
        process(tmp_path, pid, "R", 100)
        folder = tmp_path / "proc" / str(pid)
        names = f"NCCL_INSPECTOR_ENABLE=1\0NCCL_INSPECTOR_DUMP_DIR={records}\0"
        (folder / "environ").write_text(names)
    newest = (START_US + 19 * 50_000) / 1e6
    asker = Asker(FolderTree(tmp_path), lambda _: None, lambda: 0.0, now=lambda: newest + 30)
    for chosen in ("", str(records)):
        (job,) = ask_live(there, asker=asker, inspector=chosen).jobs
        assert any("since its newest record, 30 s ago" in open_ for open_ in job.unknown)
        assert job.verdict is JobVerdict.SLOW
        assert "it comes last in 20 of 20 all-reduces" in job.sentence
        assert "the others wait for it 40 % of the time, 20.0 ms in each" in job.sentence
    aged = Asker(FolderTree(tmp_path), lambda _: None, lambda: 0.0, now=lambda: newest + 300)
    (job,) = ask_live(there, asker=aged).jobs
    assert job.verdict is JobVerdict.UNKNOWN, "they say nothing of now"
    assert any("the newest is 5 min old" in line for line in job.unknown)
    (folder / "environ").write_text("")
    (job,) = ask_live(there, asker=asker).jobs
    assert job.verdict is JobVerdict.UNKNOWN, "one rank's records are missing"
