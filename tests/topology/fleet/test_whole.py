"""Whole answers about made-up fleets: sick nodes, and faults between them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from gputop.topology.fleet.draining import drains
from gputop.topology.fleet.facts import facts_of
from gputop.topology.fleet.fleet import Fleet
from gputop.topology.fleet.merging.growing import accused, read_fleet
from gputop.topology.fleet.planning.document import plan_fields
from gputop.topology.fleet.planning.links import links_of
from gputop.topology.fleet.planning.looks import ABSENT, NetLook
from gputop.topology.fleet.planning.maps import LeafMap
from gputop.topology.fleet.planning.plan import PlanRequest, plan
from gputop.topology.fleet.since import changed
from gputop.topology.node import Node
from tests.harness.fleet_plans.__main__ import measured
from tests.harness.fleet_plans.cluster import NAMES, cluster, faults
from tests.support.fleet_made import NOW, write
from tests.support.rule_cases import base
from tests.support.whole import changes, whole

UNHEARD = ("*",)
UNSTEADY = ("gputop", "folder", "path", "machine", "boot_id")


def said(fleet: Fleet) -> str:
    parts = [fleet.counts, fleet.verdict, fleet.findings, fleet.groups, drains(fleet, slight=True)]
    return whole([str(fleet.verdict), parts], without=UNSTEADY)


def test_a_fleet_with_ten_kinds_of_sick_nodes(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    sick = write(tmp_path / "now", 40)
    expected = [*sick, "g1", "g2", "missing7"]
    fleet = read_fleet(str(tmp_path / "now"), expected, now=NOW + 600)
    assert said(fleet) == snapshot
    late = read_fleet(str(tmp_path / "now"), expected, now=NOW + 90_000)
    assert changes(said(fleet), said(late)) == snapshot
    for path in list((tmp_path / "now").iterdir())[::7]:
        path.unlink()
    fewer = read_fleet(str(tmp_path / "now"), (), now=NOW + 600)
    assert whole(changed(fleet, fewer), without=UNSTEADY) == snapshot


@pytest.mark.parametrize("name", [name for name in NAMES if name != "only at scale"])
def test_each_kind_of_fault_between_nodes(name: str, snapshot: SnapshotAssertion) -> None:
    """After one, two and three rounds, with a node that dies in the second."""
    made = cluster(20, 7)
    made.plant(faults(made, name))
    wish, looks = PlanRequest(made.hosts, made.fabric), list[NetLook]()
    for number in range(3):
        planned = plan(wish, looks)
        assert whole(plan_fields(planned)) == snapshot
        more = measured(made, planned)
        if number == 1 and more:
            one = more[0]
            more[0] = NetLook(
                hosts=one.hosts, status=ABSENT, missing=one.hosts[:1], round=planned.number
            )
        looks += more
    for known in (looks[:12], looks):
        links = links_of(known, made.fabric, {})
        assert links.leaves.cells is not None
        cells = sorted(links.leaves.cells.items())
        rest = replace(links, leaves=LeafMap(links.leaves.leaves))
        assert whole([cells, rest, list(accused(links, "F"))], without=UNSTEADY) == snapshot


@pytest.mark.parametrize(
    "name", ["hgx-h200-4gpu-live", "demo sick-h100-8", "demo mi300x-8", "demo gb200-nvl72-tray"]
)
def test_the_facts_of_a_node(name: str, snapshot: SnapshotAssertion) -> None:
    node = base(name)
    known = whole(facts_of(Node(node)))
    assert known == snapshot
    found = []
    for number, gpu in enumerate(node.machine.gpus[:1]):
        for field in gpu.__struct_fields__:
            if getattr(gpu, field) is None or field in ("address", "vendor", "gaps"):
                continue
            default = dict(
                zip(gpu.__struct_fields__[::-1], gpu.__struct_defaults__[::-1], strict=False)
            )
            less = msgspec.structs.replace(gpu, **{field: default.get(field)})
            gpus = (*node.machine.gpus[:number], less, *node.machine.gpus[number + 1 :])
            machine = msgspec.structs.replace(node.machine, gpus=gpus)
            other = Node(msgspec.structs.replace(node, machine=machine))
            found.append(f"without {field}\n{changes(known, whole(facts_of(other)))}")
    assert "\n".join(found) == snapshot
