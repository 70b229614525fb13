"""A node held against a reference: what a part of it may lack."""

from __future__ import annotations

from gputop.topology.expectation.reference import named
from gputop.topology.model.severity import SLOW
from tests.support.rule_cases import severities
from tests.topology.diagnosis.device_rules import at

BOARD = "demo hgx-h100-8"


def test_links_of_gpus_in_parts_are_not_held_against_a_whole_node() -> None:
    down = [{"link": number, "active": False} for number in range(18)]
    off = at(BOARD, ("machine.gpus[0].nvlinks", down))
    parted = at(
        BOARD,
        ("machine.gpus[0].nvlinks", down),
        ("machine.gpus[0].mig_enabled", True),
        ("machine.gpus[0].mig_pending", True),
    )
    assert severities("nvlink-down", off, reference=named("dgx-h100")) == [SLOW]
    assert severities("unexpected-links", parted, reference=named("dgx-h100")) == []
