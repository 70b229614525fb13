"""A PCI tree from NVML's common ancestors, where /sys shows none."""

from __future__ import annotations

import pytest

from gputop.topology.nccl.xml.stated import NOTE, stated
from gputop.topology.node import Node
from tests.support.faults.machine import read


@pytest.mark.parametrize("profile", ["l40s-8", "v100-8", "h100-8"])
def test_paths_are_those_of_the_tree_that_sysfs_would_show(profile: str) -> None:
    seen, unseen = (Node(read(profile, bare=bare)).decide().prediction for bare in (False, True))
    assert seen is not None
    assert unseen is not None
    assert {(pair.src, pair.dst): pair.path for pair in unseen.pairs} == {
        (pair.src, pair.dst): pair.path for pair in seen.pairs
    }


def test_what_the_driver_states_is_an_assumption() -> None:
    prediction = Node(read("l40s-8", bare=True)).decide().prediction
    assert prediction is not None
    assert NOTE.rstrip(".") in prediction.assumptions
    assert "PIX" in {pair.path for pair in prediction.pairs}


def test_a_tree_that_was_read_stays() -> None:
    notes: list[str] = []
    machine = read("l40s-8").machine
    assert stated(machine, notes) is machine
    assert notes == []
