"""Counters of xGMI links that come again are those that were read before, others never."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.model.readings import XgmiReading
from gputop.topology.sources.amd.answers import AMDSMI
from gputop.topology.sources.amd.parse_readings import bundles
from gputop.topology.sources.files.library_answers import Answers

PEERS = frozenset(("0000:05:00.0", "0000:06:00.0"))


def read(links: Any) -> tuple[XgmiReading, ...]:
    return bundles(Answers({"amdsmi_get_link_metrics": {"links": links}}, AMDSMI), PEERS)


def link(end: int, write: Any, bdf: str = "0000:{:02x}:00.0") -> dict[str, Any]:
    return {"bdf": bdf.format(end), "write": write, "read": 2}


def test_links_to_one_peer_are_added() -> None:
    found = read([link(5, 1), link(6, 10), link(5, 4), link(9, 99)])
    assert [(one.remote_address, one.tx_bytes, one.rx_bytes) for one in found] == [
        ("0000:05:00.0", 5 * 1024, 4 * 1024),
        ("0000:06:00.0", 10 * 1024, 2 * 1024),
    ]


@pytest.mark.parametrize("odd", [True, 1.0, "1", None, [1], -1, 0xFFFF, 2**64 - 1])
def test_what_looks_like_a_counter_is_none(odd: Any) -> None:
    before = read([link(5, 1)])
    (found,) = read([link(5, odd)])
    assert found.tx_bytes is None
    assert found.why("tx_bytes")
    assert before == read([link(5, 1)])
    assert before[0].tx_bytes == 1024


def test_an_answer_that_changed_in_place_is_read_again() -> None:
    links = [link(5, 1)]
    assert read(links)[0].tx_bytes == 1024
    links[0]["write"] = 3
    assert read(links)[0].tx_bytes == 3 * 1024


def test_an_entry_that_is_no_link_is_passed_over() -> None:
    assert [one.tx_bytes for one in read([None, "bdf", link(6, 1), {"bdf": "0000:05:00.0"}])] == [
        1024,
        None,
    ]
