"""Traffic that stopped: facts, the sentence, and what is not known."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gputop.topology.jobs.asking import answer
from gputop.topology.jobs.grouping import jobs
from gputop.topology.jobs.silence import Silence, silence, xgmi_finding
from gputop.topology.jobs.standing import JobState
from gputop.topology.jobs.traffic import LINKS, PCIE, CarriedTraffic, GpuPast
from gputop.topology.model.severity import JobVerdict
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.feeds import DemoFeed
from tests.topology.jobs.ras.service import missing
from tests.topology.jobs.test_standing import activities, asked, counts, snapshot

__all__ = ["snapshot"]

SILENT, BUSY, NEVER = GpuPast(42.0, 90.0, 3.8e10), GpuPast(0.0, 90.0, 3.8e10), GpuPast(90.0, 90.0)


def past(node: NodeSnapshot, links: list[GpuPast | None], pcie: GpuPast | None = BUSY) -> dict:  # type: ignore[type-arg]
    (job,) = jobs(node)
    by = {gpu: each for gpu, each in zip(job.gpus, links, strict=True) if each is not None}
    return {LINKS: by, PCIE: {} if pcie is None else dict.fromkeys(job.gpus, pcie)}


def said(node: NodeSnapshot, *links: GpuPast | None, pcie: GpuPast | None = BUSY) -> Silence:
    (job,) = jobs(node)
    return silence(job, node.machine, past(node, list(links), pcie), None)


def test_links_of_all_gpus_that_fell_silent(snapshot: NodeSnapshot) -> None:
    found = said(snapshot, *[SILENT] * 5, replace_quiet(40.0))
    assert found.brief == "NVLink fell silent 40 s ago"
    (fact,) = found.findings
    assert "NVLink of GPU0-5 fell silent 40 s ago, after 38.0 GB/s a GPU: a hint" in fact.title
    assert found.unknown == ()


def replace_quiet(seconds: float) -> GpuPast:
    return replace(SILENT, quiet_seconds=seconds)


def test_links_of_some_gpus(snapshot: NodeSnapshot) -> None:
    found = said(snapshot, SILENT, *[BUSY] * 5)
    assert found.brief == ""
    assert "NVLink of GPU0 fell silent 42 s ago" in found.findings[0].title
    assert "while that of the job's other GPUs carries data" in found.findings[0].title


def test_a_job_that_moves_data_and_one_that_never_did(snapshot: NodeSnapshot) -> None:
    assert said(snapshot, *[BUSY] * 6) == Silence()
    assert said(snapshot, *[replace_quiet(3.0)] * 6) == Silence(), "a step takes its time"
    found = said(snapshot, *[NEVER] * 6)
    assert found.brief == ""
    assert "carried nothing for 1 min, as long as gputop" in found.findings[0].title


def test_both_kinds_and_what_is_not_known(snapshot: NodeSnapshot) -> None:
    found = said(snapshot, *[SILENT] * 6, pcie=SILENT)
    assert found.brief == "NVLink fell silent 42 s ago and PCIe fell silent 42 s ago"
    found = said(snapshot, *[SILENT] * 5, None, pcie=None)
    assert found.findings == ()
    assert found.unknown == (
        "what NVLink of GPU5 carried lately: the driver does not say it",
        "what PCIe of GPU0-5 carried lately: the driver does not say it",
    )


def test_what_another_job_carried_before_on_the_same_gpus(snapshot: NodeSnapshot) -> None:
    (job,) = jobs(snapshot)
    seen = past(snapshot, [SILENT] * 6)
    found = silence(job, snapshot.machine, seen, None, 30.0)
    assert found.brief == ""
    assert "carried nothing for 30 s, as long as gputop watches this job" in found.findings[0].title
    assert silence(job, snapshot.machine, seen, None, 3.0) == Silence()
    older = silence(job, snapshot.machine, seen, None, 60.0)
    assert older.brief == "NVLink fell silent 42 s ago"
    young = replace(snapshot, taken_at=(job.started_at or 0.0) + 20.0)
    assert "silent" not in told(young, *[SILENT] * 6).sentence


def test_two_looks_that_are_far_apart(snapshot: NodeSnapshot) -> None:
    (job,) = jobs(snapshot)
    carried = CarriedTraffic(30.0, dict.fromkeys(job.gpus, 0))
    assert silence(job, snapshot.machine, None, carried).brief == "NVLink carried nothing for 30 s"
    moved = CarriedTraffic(30.0, dict.fromkeys(job.gpus, 9))
    assert silence(job, snapshot.machine, None, moved) == Silence()
    assert silence(job, snapshot.machine, None, replace_seconds(carried, 0.4)) == Silence()


def replace_seconds(carried: CarriedTraffic, seconds: float) -> CarriedTraffic:
    return replace(carried, seconds=seconds)


def told(node: NodeSnapshot, *links: GpuPast, ras: object = ()) -> JobState:
    seen = past(node, list(links))
    (job,) = answer(node, activities(), ras, asked=bool(ras), past=seen).jobs  # type: ignore[arg-type]
    return job


def test_the_sentence_says_it_where_nothing_better_is_known(snapshot: NodeSnapshot) -> None:
    job = told(snapshot, *[SILENT] * 6)
    assert job.sentence.endswith("RAS was not asked (--no-ras); NVLink fell silent 42 s ago")
    healthy = told(snapshot, *[BUSY] * 6)
    assert "NVLink" not in healthy.sentence
    runs = told(snapshot, *[SILENT] * 6, ras=asked(counts(*[7] * 6), counts(*[8] * 6)))
    assert runs.verdict == JobVerdict.RUNS
    assert "silent" not in f"{runs.sentence}{runs.findings}"
    lost = told(snapshot, *[SILENT] * 6, ras=asked(counts(*[7] * 5, lost=(missing(2, 41002),))))
    assert lost.verdict == JobVerdict.HANGS
    assert "silent" not in lost.sentence
    assert "fell silent 42 s ago" in str(lost.findings)


@pytest.mark.parametrize(
    ("rates", "text"),
    [
        ([0.0] * 8, "xGMI of GPU0-7 carried nothing between two reads of its counters: a hint"),
        ([0.0, *[1e10] * 7], "xGMI of GPU0 carried nothing between two reads of its counters, wh"),
        ([1e10] * 8, "xGMI of GPU0-7 carries 80.0 GB/s: data moves between the GPUs"),
        ([None, *[1e10] * 7], ""),
    ],
)
def test_what_xgmi_carries(rates: list[float | None], text: str) -> None:
    node = DemoFeed("mi300x-8", version="test").at(0)
    (job,) = jobs(node)
    readings = tuple(
        replace(reading, xgmi_tx_bytes_per_second=rate, xgmi_rx_bytes_per_second=rate)
        for reading, rate in zip(node.readings.gpus, rates, strict=True)
    )
    job = replace(job, gpus=tuple(reading.address for reading in readings))
    facts = list(xgmi_finding(job, node.machine, replace(node.readings, gpus=readings)))
    assert [fact.title.startswith(text) for fact in facts] == ([True] if text else [])


def test_amds_links_have_their_name() -> None:
    node = DemoFeed("mi300x-8", version="test").at(0)
    (job,) = jobs(node)
    seen = {LINKS: dict.fromkeys(job.gpus, SILENT), PCIE: dict.fromkeys(job.gpus, BUSY)}
    assert silence(job, node.machine, seen, None).brief == "xGMI fell silent 42 s ago"
