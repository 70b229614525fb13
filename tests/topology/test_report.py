"""A report is pure and keeps what did not change."""

from __future__ import annotations

import msgspec

from gputop.topology.report import examine
from tests.support.snapshots import demo_report, gpus_of


def test_an_equal_machine_keeps_its_graph_and_matrix() -> None:
    first = demo_report("hgx-h100-8", 0)
    graph, matrix = first.graph, first.matrix
    later = demo_report("hgx-h100-8", 5).snapshot
    assert later.machine is not first.snapshot.machine
    second = examine(later, first)
    assert second.graph is graph
    assert second.matrix is matrix
    assert second.snapshot is later
    assert second.snapshot.readings != first.snapshot.readings


def test_another_machine_is_examined_anew() -> None:
    first = demo_report("hgx-h100-8")
    machine = first.snapshot.machine
    fewer = msgspec.structs.replace(machine, gpus=machine.gpus[:4])
    second = examine(msgspec.structs.replace(first.snapshot, machine=fewer), first)
    assert second.graph is not first.graph
    assert second.islands == (tuple(gpus_of(first)[:4]),)


def test_islands_of_the_demos() -> None:
    assert [len(group) for group in demo_report("dgx-1v").islands] == [8]
    assert [len(group) for group in demo_report("mi300x-8").islands] == [8]
    assert demo_report("pcie-l40s-8").islands == ()
