"""What happened, by time: each form of time, what is over, and what stands in counters."""

from __future__ import annotations

import time

import msgspec
import pytest

from gputop.topology.diagnosis.case import Case
from gputop.topology.events.timeline import Timeline, moment_of, timeline
from gputop.topology.model.readings import CounterKind, DeviceCounters
from gputop.topology.model.severity import BROKEN, NOTICE
from gputop.topology.node import Node
from gputop.topology.sources.linux.kernel_lines import read_lines
from tests.support.rule_cases import base

NOW = 1768190645.0
"""2026-01-12T04:04:05Z."""


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def told(*lines: str, seconds: float | None = None, booted: float | None = None) -> Timeline:
    snapshot = msgspec.structs.replace(
        base("demo hgx-h100-8"),
        source=("dmesg.txt",),
        taken_at=NOW,
        kernel_events=read_lines(lines).kernel_events,
        states=(),
    )
    return timeline(Case(Node(snapshot)), seconds, booted)


@pytest.mark.parametrize(
    ("when", "at"),
    [
        ("100.5 s after the start", 1100.5),
        ("2026-01-12T03:04:05,123456+01:00", NOW - 7200 + 0.123456),
        ("2026-01-12T03:04:05+0100", NOW - 7200),
        ("2026-01-12 04:04:05", NOW),
        ("Mon Jan 12 04:04:05 2026", NOW),
        ("Jan 12 04:04:05", NOW),
        ("Jan  2 04:04:05", NOW - 10 * 86400),
        ("Dec 31 04:04:05", NOW - 12 * 86400),
        ("Jan 12 04:04", NOW - 5),
        ("+0.000844", None),
        ("", None),
        ("Feb 30 04:04:05", None),
        ("9999-99-99T99:99:99", None),
    ],
)
def test_a_time_as_logs_write_it(when: str, at: float | None) -> None:
    assert moment_of(when, 1000.0, NOW) == (None if at is None else pytest.approx(at))


def test_a_leap_day_and_seconds_without_a_start_are_no_date() -> None:
    assert moment_of("3.0 s after the start", None, NOW) is None


XID = "NVRM: Xid (PCI:0000:19:00): {}, pid=1, name=python3, Ch 00000008"


def test_events_come_in_the_order_of_time() -> None:
    found = told(
        f"[ 30.0] {XID.format(43)}", f"[ 10.0] {XID.format(79)}", f"[ 20.0] {XID.format(31)}"
    )
    assert [event.what.rpartition(" ")[2] for event in found.events] == ["79)", "31)", "43)"]
    assert found.log_read
    assert not found.counters_read


def test_only_a_while_is_told() -> None:
    lines = (f"[ 10.0] {XID.format(79)}", f"[ 3700.0] {XID.format(43)}", XID.format(31))
    assert len(told(*lines).events) == 3
    # The end of a recording is its newest event; without a time nobody knows when it was.
    assert [event.last for event in told(*lines, seconds=3600.0).events] == [
        "3700.0 s after the start",
        "",
    ]


def test_the_place_is_named_and_what_is_over_is_a_notice() -> None:
    first, second = told(
        f"[ 10.0] {XID.format(79)}", "[ 0.0] Linux version 6.8.0", f"[ 12.0] {XID.format(79)}"
    ).events
    assert (first.where, first.severity) == ("GPU0", NOTICE)
    assert first.over
    assert (second.severity, second.over) == (BROKEN, "")
    assert second.fix


def test_counters_above_zero_have_no_time() -> None:
    snapshot = base("demo hgx-h100-8")
    address = snapshot.machine.gpus[3].address
    counters = (
        DeviceCounters(kind=CounterKind.AER, device=address, counts=(("correctable BadTLP", 3),)),
        DeviceCounters(kind=CounterKind.NET, device="eth2", counts=(("carrier_down_count", 1),)),
        DeviceCounters(
            kind=CounterKind.RDMA,
            device="mlx5_2",
            port=1,
            counts=(("symbol_error", 17), ("np_cnp_sent", 9)),
        ),
    )
    readings = msgspec.structs.replace(snapshot.readings, counters=counters)
    found = timeline(Case(Node(msgspec.structs.replace(snapshot, readings=readings))))
    assert [(one.where, one.port, one.what, one.count) for one in found.counted] == [
        ("GPU3", None, "corrected PCIe errors (BadTLP)", 3),
        ("mlx5_2", 1, "symbol errors", 17),
    ]
    assert found.counters_read
