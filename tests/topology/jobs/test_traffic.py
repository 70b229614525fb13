"""What NVLink carried between two looks, and what that hints at."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from msgspec.structs import replace

from gputop.topology.jobs.asking import answer
from gputop.topology.jobs.grouping import Job, jobs
from gputop.topology.jobs.silence import nvlink_finding, pcie_finding
from gputop.topology.jobs.traffic import CarriedTraffic, TrafficLook, look, traffic_delta
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.source import SourceAbsent
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.sources.nvidia.library import NvmlLibrary
from gputop.topology.sources.nvidia.traffic import NVLINK_TX_RX


class Refused(Exception):  # noqa: N818 - as NVML refuses
    value = 3


class Binding:
    """Two GPUs with counters, and one that has none."""

    NVMLError = Refused
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 138, 139

    def nvmlDeviceGetHandleByPciBusId(self, address: bytes) -> bytes:  # noqa: N802 - NVML's name
        if address == b"gone":
            raise Refused
        return address

    def nvmlDeviceGetFieldValues(self, handle: bytes, asked: Any) -> list[Any]:  # noqa: N802
        class Value:
            nvmlReturn = 3 if handle == b"none" else 0  # noqa: N815 - NVML's name
            valueType = 3  # noqa: N815

            class value:  # noqa: N801
                ullVal = 40 + len(handle)  # noqa: N815

        return [Value() for _ in asked]


def test_counters_are_read_and_gpus_without_them_are_left_out() -> None:
    found = look(["a", "bb", "none", "gone"], lambda: NvmlLibrary(Binding()), lambda: 5.0)
    assert found == TrafficLook(5.0, {"a": 82, "bb": 84})
    assert len(NVLINK_TX_RX) == 2


def test_a_driver_that_hangs_or_is_not_there_stops_nobody() -> None:
    release = threading.Event()

    def hang() -> NvmlLibrary:
        release.wait(60)
        raise SourceAbsent("over")

    def absent() -> NvmlLibrary:
        raise SourceAbsent("no driver")

    assert look(["a"], hang, deadline=0.01) is None
    assert look(["a"], absent) is None
    release.set()


def test_between_two_looks() -> None:
    first = TrafficLook(1.0, {"a": 10, "b": 10, "c": 10})
    found = traffic_delta(first, TrafficLook(1.5, {"a": 12, "b": 4, "d": 1}))
    assert found == CarriedTraffic(0.5, {"a": 2048})
    assert (
        traffic_delta(first, None)
        is traffic_delta(None, first)
        is traffic_delta(first, first)
        is None
    )


@pytest.fixture(scope="module")
def node() -> NodeSnapshot:
    return DemoFeed("hgx-h100-8", version="test").at(0)


@pytest.fixture(scope="module")
def job(node: NodeSnapshot) -> Job:
    (found,) = jobs(node)
    return found


def test_silence_is_a_hint_and_movement_is_told_with_its_pace(node: NodeSnapshot, job: Job) -> None:
    def said(*carried: int) -> str:
        traffic = CarriedTraffic(0.5, dict(zip(job.gpus, carried, strict=False)))
        return " ".join(fact.title for fact in nvlink_finding(job, node.machine, traffic))

    count = len(job.gpus)
    assert "carried nothing in 0.5 s: a hint that ranks wait, no proof" in said(*[0] * count)
    text = said(0, *[10**9] * (count - 1))
    assert text.startswith("NVLink of GPU0 carried nothing in 0.5 s, while that of")
    moving = said(*[10**9] * count)
    assert "(6.00 GB/s): data moves between the GPUs" in moving
    assert said(*[0] * (count - 1)) == "", "one GPU is not known"
    assert list(nvlink_finding(job, node.machine, None)) == []


def test_traffic_is_not_that_of_a_job_whose_gpus_another_one_uses(node: NodeSnapshot) -> None:
    """As on two H100: a stopped job was told that data moves, which was that of the job beside."""
    readings = node.readings
    others = tuple(
        replace(each, pid=each.pid + 90_000, job="beside") for each in readings.processes
    )
    gpus = tuple(
        replace(
            gpu,
            processes=(
                *(gpu.processes or ()),
                *(replace(each, pid=each.pid + 90_000) for each in gpu.processes or ()),
            ),
        )
        for gpu in readings.gpus
    )
    both = replace(readings, gpus=gpus, processes=(*readings.processes, *others))
    crowded = replace(node, readings=both)
    traffic = CarriedTraffic(1.0, dict.fromkeys((gpu.address for gpu in gpus), 10**9))
    alone, shared = (
        [job.findings for job in answer(one, {}, (), traffic=traffic).jobs]
        for one in (node, crowded)
    )
    theirs = "GB/s): other jobs use GPU0-5 too, so it may be theirs"
    assert (len(alone), len(shared)) == (1, 2)
    assert any("GB/s): data moves between the GPUs" in fact.title for fact in alone[0])
    for facts in shared:
        assert any(theirs in fact.title for fact in facts)


def test_pcie_is_told_as_it_is_read_and_only_silence_hints_at_anything(
    node: NodeSnapshot, job: Job
) -> None:
    def said(*rates: float | None) -> str:
        known = dict(zip(job.gpus, rates, strict=True))
        gpus = tuple(
            replace(gpu, pcie_tx_bytes_per_second=known[gpu.address], pcie_rx_bytes_per_second=0.0)
            for gpu in node.readings.gpus
            if gpu.address in known
        )
        found = pcie_finding(job, node.machine, replace(node.readings, gpus=gpus))
        return " ".join(fact.title for fact in found)

    count = len(job.gpus)
    assert "carried nothing between two reads of its counters: a hint" in said(*[0.0] * count)
    assert said(0.0, *[2e9] * (count - 1)).startswith("PCIe of GPU0 carried nothing")
    assert "carries 6.00 GB/s, both ways; kernels of NCCL that wait poll" in said(*[1e9] * count)
    assert said(None, *[1e9] * (count - 1)) == ""
