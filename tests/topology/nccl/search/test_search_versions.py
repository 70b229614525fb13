"""What versions of NCCL search differently, on small machines."""

from __future__ import annotations

import pytest

from gputop.topology.nccl.prediction import SearchGraph
from gputop.topology.nccl.search.draft import GraphDraft, to_beat
from gputop.topology.nccl.search.space import SearchSpace
from gputop.topology.nccl.search.version import search_version
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.versions import version_for
from tests.topology.nccl.nodes import made, nvswitch, searched

AMPERE = nvswitch(4, 80, 12, 100000)
"""Four A100 with a NIC each, in a job over several hosts."""
OPEN = {"NCCL_CROSS_NIC": "1"}


def ring(library: str, env: dict[str, str] | None = None) -> SearchGraph:
    found = searched(AMPERE, env, more_nodes=True, library=library).ring
    assert found is not None
    assert found.estimate is None
    return found


def test_with_an_nvswitch_rings_go_to_neighbours_since_2_19_3() -> None:
    """2.18 takes whichever GPU has most PCIe to spare near the NIC."""
    assert ring("2.18.6").orders == ((0, 1, 2, 3), (1, 3, 2, 0), (2, 1, 0, 3), (3, 1, 0, 2))
    for library in ("2.19.3", "2.20.5", "2.21.5"):
        assert ring(library).orders == ((0, 3, 2, 1), (1, 0, 3, 2), (2, 1, 0, 3), (3, 2, 1, 0))


def test_channels_that_cross_nics_come_in_pairs_since_2_20() -> None:
    """Without pairs every channel leaves by another NIC than the one before."""
    assert ring("2.19.3", OPEN).nets == ((0, 1), (1, 2), (2, 3), (3, 0))
    assert ring("2.20.5", OPEN).nets == ((0, 1), (1, 0), (2, 3), (3, 2))


def test_2_18_lets_only_its_first_tries_cross_nics_when_told_to() -> None:
    found = searched(AMPERE, OPEN, more_nodes=True, nvls=True, library="2.18.6")
    assert found.ring is not None
    assert (found.ring.channels, found.ring.cross_nic) == (8, 0)
    assert found.nvls is not None
    assert (found.nvls.channels, found.nvls.cross_nic) == (0, 1)
    assert (ring("2.19.3", OPEN).channels, ring("2.19.3", OPEN).cross_nic) == (4, 1)


def test_multicast_gets_a_higher_speed_between_nodes_since_2_19() -> None:
    node = nvswitch(8, 90, 18)
    found = {
        library: searched(node, nvls=True, library=library).nvls
        for library in ("2.18.6", "2.19.1", "2.19.3")
    }
    speeds = {name: (one.bw_intra, one.bw_inter) for name, one in found.items() if one is not None}
    assert speeds == {"2.18.6": (40.0, 40.0), "2.19.1": (40.0, 60.0), "2.19.3": (40.0, 60.0)}


@pytest.mark.parametrize(
    ("crosses", "best_crosses", "wanted"),
    [(0, 1, 85.0), (1, 0, 115.0), (0, 0, 100.0), (1, 1, 100.0)],
)
def test_a_graph_that_crosses_nics_must_be_better_up_to_2_19(
    crosses: int, best_crosses: int, wanted: float
) -> None:
    draft = GraphDraft(4, 1, 16, cross_nic=crosses)
    best = GraphDraft(4, 1, 16, cross_nic=best_crosses, channels=5, speed_intra=20000)
    assert to_beat(draft, best, 0.15) == pytest.approx(wanted)
    assert to_beat(draft, best, 0.0) == 100.0


@pytest.mark.parametrize(
    ("library", "lacking"),
    [("2.25.1", {"C2C", "P2C"}), ("2.26.2", {"P2C"}), ("2.27.3", set()), ("2.30.7", set())],
)
def test_a_search_steps_through_the_path_types_of_its_version(
    library: str, lacking: set[str]
) -> None:
    """Each one more takes steps of the budget of the whole search."""
    version, _ = version_for(library)
    system = made(AMPERE, more_nodes=True, library=library)
    counted = {
        kind.name for kind in SearchSpace(system, version, Settings({}), nvls=False).path_types
    }
    assert {
        "LOC",
        "NVL",
        "NVB",
        "C2C",
        "PIX",
        "PXB",
        "P2C",
        "PXN",
        "PHB",
        "SYS",
    } - counted == lacking


def test_pxn_and_96_gbs_on_blackwell_are_of_2_27_6() -> None:
    """Its tag differs so from that of 2.27.5; nothing of the graph changed after it."""
    versions = [version_for(f"nccl-{number}")[0] for number in ("2.27.5", "2.27.6", "2.27.7")]
    assert [version.pxn_beyond for version in versions] == ["PXB", "PXN", "PXN"]
    widest = [search_version(version).inter_sm100_gbs[0] for version in versions]
    assert widest == [48.0, 96.0, 96.0]
