"""`gputop watch`: a line where a verdict changes, and only there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

import msgspec
import pytest

from gputop.__main__ import run
from gputop.answers import watch as watching
from gputop.answers.watch import NodeLook, WatchRequest, look, wanted, watch
from gputop.exits import Exit
from gputop.topology.diagnosis.policy import Policy
from gputop.topology.jobs.asking import JobsReport
from gputop.topology.jobs.standing import JobState
from gputop.topology.model.readings import NvLinkReading
from gputop.topology.model.severity import JobVerdict, Severity, Verdict
from gputop.topology.model.snapshot import NodeSnapshot
from tests.support.rule_cases import HOUR_SECONDS, base

HEALTHY, SICK = base("demo hgx-h100-8"), base("demo sick-h100-8")


def said(
    snapshots: Iterable[NodeSnapshot], monkeypatch: pytest.MonkeyPatch, **asked: object
) -> tuple[list[str], int | None]:
    """The lines behind the time that a watch of these readings prints, and how it ends."""
    lines: list[str] = []
    readings: Iterator[NodeSnapshot] = iter(snapshots)

    def read(*_: object) -> Callable[[], NodeSnapshot]:
        return lambda: next(readings)

    monkeypatch.setattr(watching, "snapshots_of", read)
    request = WatchRequest(no_jobs=True, **asked)  # type: ignore[arg-type]
    try:
        code = watch(
            request, sleep=lambda _: None, say=lambda line: lines.append(line.partition(" ")[2])
        )
    except RuntimeError:  # no reading is left
        return lines, None
    except StopIteration:
        return lines, None
    return lines, code


def test_how_it_stands_then_each_change_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, code = said([HEALTHY, HEALTHY, SICK, SICK, HEALTHY], monkeypatch)
    assert code is None
    assert lines == [
        "✓ node healthy",
        "▼ slow: 2 NVLinks of GPU3 are down [nvlink-down]",
        "▼ slow: PCIe of GPU3 has x8 instead of x16 [pcie-width]",
        "▼ node slow, was healthy",
        "✓ no longer: 2 NVLinks of GPU3 are down [nvlink-down]",
        "✓ no longer: PCIe of GPU3 has x8 instead of x16 [pcie-width]",
        "✓ node healthy, was slow",
    ]


def test_once_ends_at_the_first_line_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, code = said([HEALTHY, HEALTHY, SICK], monkeypatch, on="broken,slow", once=True)
    assert code == 1
    assert [line[0] for line in lines] == ["▼", "▼", "▼"]
    assert said([HEALTHY], monkeypatch, once=True) == (["✓ node healthy"], 0)
    assert said([HEALTHY, SICK], monkeypatch, on="broken,hang", once=True) == ([], None)


def test_counters_that_grow_under_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    def replays(count: int, hours: float) -> NodeSnapshot:
        first, *rest = HEALTHY.readings.gpus
        links = (NvLinkReading(link=0, replay_errors=count),)
        gpus = (msgspec.structs.replace(first, nvlinks=links), *rest)
        readings = msgspec.structs.replace(HEALTHY.readings, gpus=gpus)
        at = HEALTHY.taken_at + hours * HOUR_SECONDS
        return msgspec.structs.replace(HEALTHY, readings=readings, taken_at=at)

    lines, _ = said([replays(7, 0), replays(7, 1), replays(500, 2)], monkeypatch)
    assert lines[0] == "✓ node healthy"
    assert lines[1].endswith("[nvlink-errors]")
    assert lines[2] == "▼ node slow, was healthy"


def job(verdict: JobVerdict) -> JobsReport:
    state = JobState(name="run 7", program="train.py", sentence="it stands", verdict=verdict)
    return JobsReport(jobs=(state,))


def test_jobs_are_watched_by_what_watches_them_in_jobs() -> None:
    runs, first = look(HEALTHY, Policy(), job(JobVerdict.RUNS), None)
    assert [line.shown for line in first][-1] == "✓ runs: it stands"
    hangs, lines = look(HEALTHY, Policy(), job(JobVerdict.HANGS), runs)
    assert [line.shown for line in lines] == ["✗ hangs: it stands"]
    assert [line.mark for line in lines] == list(wanted("hang"))
    _, gone = look(HEALTHY, Policy(), JobsReport(jobs=()), hangs)
    assert [line.shown for line in gone] == ["? run 7 is no longer seen"]


def test_a_finding_that_gets_worse_is_told_again() -> None:
    sick, _ = look(SICK, Policy(), None, None)
    milder = {
        key: msgspec.structs.replace(one, severity=Severity.CANNOT_TELL)
        for key, one in sick.findings.items()
    }
    _, lines = look(SICK, Policy(), None, NodeLook(Verdict.SLOW, milder, {}))
    assert len(lines) == 2


def test_words_that_are_none() -> None:
    with pytest.raises(Exit, match="slowly"):
        wanted("broken,slowly")


def test_a_demo_and_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["watch", "--demo", "sick-h100-8", "--once", "--on", "hang"]) == 2
    assert " ✗ hangs: train.py" in capsys.readouterr().out
    assert run(["watch", "--demo", "sick-h100-8", "--no-jobs", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "gputop.watch/1"
    assert found["lines"][-1] == "▼ node slow"
