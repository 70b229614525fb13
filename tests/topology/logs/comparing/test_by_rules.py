"""Recorded logs without the lines of GRAPH, and no node to compare them with."""

from __future__ import annotations

import pytest

from gputop.pages.log import compared
from gputop.topology.diagnosis.symptoms.log import examine
from gputop.topology.logs.comparing.by_rules import BEHIND
from gputop.topology.logs.comparing.overlay import lay
from gputop.topology.logs.reading.read import read_log
from tests.support.places import RECORDINGS, ROOT

FAULTS = RECORDINGS / "real-faults"


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("healthy", {"P2P/CUMEM"}),
        ("p2p_off", {"SHM/direct/direct"}),
        ("memlock", {"P2P/CUMEM"}),
    ],
)
def test_how_pairs_share_memory_is_compared(name: str, labels: set[str]) -> None:
    log = read_log((FAULTS / f"{name}.txt").read_bytes().splitlines(keepends=True))
    overlay = lay(log, None)
    agreement = overlay.agreement
    assert overlay.prediction is None
    assert agreement.comparable
    assert {label for pair in agreement.pairs for label in pair.predicted} == labels
    assert [pair.agrees for pair in agreement.pairs] == [True, True]
    assert "System block" in agreement.skipped[0]
    assert compared(examine(log, None)) == (
        "the prediction agrees with the log in all 2 things compared (nccl-2.28.9, without a node)"
    )


def test_a_rank_with_a_variable_of_its_own_differs() -> None:
    log = read_log((FAULTS / "cumem_one_rank.txt").read_bytes().splitlines(keepends=True))
    agreement = lay(log, None).agreement
    (different,) = agreement.differing
    assert getattr(different, "logged", ()) == ("P2P/CUMEM",)
    assert agreement.reasons == (BEHIND,)


def test_ranks_of_one_process_see_pointers() -> None:
    thread = ROOT / "tests" / "threads" / "pytorch-73790-iommu-hang" / "material.txt"
    agreement = lay(read_log(thread.read_bytes().splitlines(keepends=True)), None).agreement
    assert agreement.library == "nccl-2.10.3"
    assert {pair.logged for pair in agreement.pairs} == {("P2P/direct pointer",)}
    assert not agreement.differing


@pytest.mark.parametrize("name", ["sockets_only", "captured_dup"])
def test_what_a_topology_decides_is_left_open(name: str) -> None:
    log = read_log((FAULTS / f"{name}.txt").read_bytes().splitlines(keepends=True))
    agreement = lay(log, None).agreement
    assert not agreement.comparable
    assert "System block" in str(agreement.why_not)
