"""Counters of links are understood once for as long as the driver's answers stay equal."""

from __future__ import annotations

from typing import Any

from gputop.topology.model.readings import GpuReading
from gputop.topology.sources.nvidia import parse_readings
from gputop.topology.sources.nvidia.parse_readings import LinkMemory
from tests.support.nvml_fake import Binding

REPLAYS = "NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY"


def links(count: int = 2, replays: Any = 4) -> list[dict[str, Any]]:
    return [{"link": link, "fields": {REPLAYS: {"value": replays}}} for link in range(count)]


def read(*listed: Any) -> tuple[GpuReading, ...]:
    devices = [
        {"nvmlDeviceGetPciInfo_v3": Binding().nvmlDeviceGetPciInfo_v3(place), "links": answers}
        for place, answers in enumerate(listed)
    ]
    return parse_readings.parse({"devices": devices}).gpu_readings


def test_equal_answers_are_understood_once() -> None:
    first, other = read(links(), links(3))
    again, other_again = read(links(), links(3))
    assert again.nvlinks is first.nvlinks
    assert other_again.nvlinks is other.nvlinks
    assert [len(reading.nvlinks) for reading in (first, other)] == [2, 3]


def test_an_answer_that_is_changed_in_place_is_understood_again() -> None:
    answers = links()
    read(answers)
    answers[1]["fields"][REPLAYS]["value"] = 9
    assert [link.replay_errors for link in read(answers)[0].nvlinks] == [4, 9]
    answers[0]["fields"][REPLAYS] = {"ret": 999}
    part = parse_readings.parse({"devices": [{"links": answers}]})
    assert [problem.text for problem in part.problems] == [f"Unknown Error: {REPLAYS}"]


def test_only_the_last_call_is_remembered() -> None:
    memory = LinkMemory()
    first, same = memory.understood([links(), links()])
    assert first is same
    (kept,) = memory.understood([links()])
    assert kept is first
    assert memory.understood([links(3)]) != [first]
    (forgotten,) = memory.understood([links()])
    assert forgotten == first
    assert forgotten is not first


def test_numbers_beyond_64_bits_are_no_counts_but_answers() -> None:
    (reading,) = read(links(replays=2**70))
    assert [link.replay_errors for link in reading.nvlinks] == [None, None]
