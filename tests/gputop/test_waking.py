"""The driver is woken for command lines that will ask it, and for no other."""

from __future__ import annotations

import msgspec
import pytest

from gputop import waking
from gputop.reading import read_snapshot
from gputop.topology.exports import NAMES as FORMS
from gputop.topology.exports.written import exported
from gputop.topology.node import Node
from gputop.topology.recorded.demos.demo import names
from gputop.topology.sources import NAMES, WIRING


@pytest.mark.parametrize(
    ("line", "woken"),
    [
        ("topo", True),
        ("topo --json", True),
        ("check --quick", True),
        ("topo --demo dgx-1v", False),
        ("--demo=dgx-1v topo", False),
        ("check --deadline 10", False),
        ("topo --help", False),
        ("log x", False),
        ("", False),
    ],
)
def test_a_command_that_reads_this_machine_wakes_its_driver(
    monkeypatch: pytest.MonkeyPatch, line: str, woken: bool
) -> None:
    calls: list[None] = []
    monkeypatch.setattr(waking, "wake_driver", lambda: calls.append(None))
    waking.wake_for(line.split())
    assert bool(calls) is woken


@pytest.mark.parametrize("name", names())
def test_what_topo_does_not_read_changes_none_of_its_forms(name: str) -> None:
    whole = read_snapshot((), name)
    machine = msgspec.structs.replace(whole.machine, software=None)
    wiring = msgspec.structs.replace(whole, machine=machine, readings=type(whole.readings)())
    for form in FORMS:
        assert exported(form, Node(wiring)).text == exported(form, Node(whole)).text, form


def test_topo_reads_what_says_how_devices_are_connected() -> None:
    assert {"nvml", "amdsmi", "kfd", "pci", "host", "network", "storage", "environment"} == set(
        WIRING
    )
    asked = read_snapshot((), None, wiring=True)
    assert {state.source for state in asked.states} == set(WIRING)
    assert {state.source for state in read_snapshot((), None).states} == set(NAMES)
