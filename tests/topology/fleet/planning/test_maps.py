"""Heat maps: a sick rail stands out, and its partners do not."""

from __future__ import annotations

import pytest

from gputop.topology.fleet.planning.fabric import SwitchFabric, fabric_of
from gputop.topology.fleet.planning.judging import judge
from gputop.topology.fleet.planning.links import links_of
from gputop.topology.fleet.planning.looks import ABSENT, FINISHED, NetFlow, NetLook
from gputop.topology.fleet.planning.maps import leaf_map, rail_map
from tests.topology.fleet.planning.test_judging import look

NOWHERE = SwitchFabric()
LEAVES = fabric_of("t", {"a": ["a0", "a1", "a2"], "b": ["b0", "b1", "b2"]}, {"top": ["a", "b"]})


def looks() -> list[NetLook]:
    """Each of a with each of b; the second rail of a0 gives half."""
    return [
        look(f"a{one}", f"b{two}", 48.0, 24.0 if one == 0 else 48.0)
        for one in range(3)
        for two in range(3)
    ]


def test_the_sick_rail_comes_first_and_is_bad_alone() -> None:
    found = rail_map(judge(looks(), NOWHERE))
    assert found.rails == (0, 1)
    first = found.nodes[0]
    assert first.host == "a0"
    well, sick = first.cells
    assert well is not None
    assert sick is not None
    assert (well.share, sick.share) == pytest.approx((1.0, 0.5))
    assert [
        node.host for node in found.nodes for cell in node.cells if cell and cell.mostly_bad
    ] == ["a0"]


def test_a_look_that_did_not_finish_is_counted_and_has_no_figure() -> None:
    lost = NetLook(hosts=("a0", "c9"), status=ABSENT)
    rows = {node.host: node.cells for node in rail_map(judge([*looks(), lost], NOWHERE)).nodes}
    cell = rows["c9"][0]
    assert cell is not None
    assert (cell.share, cell.looks, cell.unfinished, cell.mostly_bad) == (None, 1, 1, False)


def test_leaves_by_leaves() -> None:
    found = leaf_map(judge(looks(), NOWHERE), LEAVES)
    assert found.leaves == ("a", "b")
    cell = found.cell("b", "a")
    assert cell is not None
    assert cell is found.cell("a", "b")
    assert (cell.looks, cell.bad, cell.mostly_bad) == (9, 3, False)
    assert found.cell("a", "a") is None
    nowhere = look("a0", "x9", 48.0, 48.0)
    assert leaf_map(judge([*looks(), nowhere], NOWHERE), LEAVES) == found, "x9 is on no leaf"


def test_without_looks_there_is_nothing() -> None:
    judged = judge([], NOWHERE)
    assert rail_map(judged).nodes == ()
    assert leaf_map(judged, LEAVES).leaves == ()


def test_looks_and_plans_are_told_apart() -> None:
    flow = NetFlow(rail=0, source="a", target="b", bytes=1, gbs=20.0)
    look = NetLook(hosts=("a", "b"), status=FINISHED, round=1, results=(flow,))
    found = links_of([look, look], SwitchFabric(), {})
    assert (found.looks, found.unfinished) == (1, 0)
    none = links_of([], SwitchFabric(), {})
    assert (none.looks, none.unfinished) == (0, 0)
