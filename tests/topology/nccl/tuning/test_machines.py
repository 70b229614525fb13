"""Networks, views of several ranks, and versions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.topology.nccl.prediction import Graphs
from gputop.topology.nccl.tuning.channels import coll_channels
from gputop.topology.nccl.tuning.choices import choose
from gputop.topology.nccl.tuning.inputs import TuningInput
from gputop.topology.nccl.tuning.merging import merge
from gputop.topology.nccl.tuning.model import tuning
from gputop.topology.nccl.tuning.version import assumption, tuning_version, tuning_versions
from tests.topology.nccl.tuning.made import H200, MIB, changed, graph


def test_the_tuning_asks_the_device_not_the_topology_file() -> None:
    from_file = replace(H200, min_sm=80, max_sm=80)
    assert tuning(replace(from_file, device_sm=90)) == tuning(H200)
    assert tuning(from_file) != tuning(H200)


def test_power_pays_the_rings_latency_for_a_tree_on_pcie() -> None:
    pcie = Graphs(ring=graph(2, 20, kind="PHB"), tree=graph(2, 20, kind="PHB", pattern=1))
    x86 = replace(H200, graphs=pcie)
    power = replace(x86, cpu_arch="power")
    assert tuning(x86)["AllReduce"]["TREE"]["SIMPLE"][0] == pytest.approx(32.4)
    assert tuning(power)["AllReduce"]["TREE"]["SIMPLE"][0] == pytest.approx(42.6)


def test_ll128_needs_nvlink_and_equal_gpus() -> None:
    def ll128(comm: TuningInput) -> float:
        return tuning(comm)["AllReduce"]["RING"]["LL128"][1]

    assert ll128(H200) > 0
    assert ll128(replace(H200, graphs=Graphs(ring=graph(12, 30, kind="PHB")))) == 0
    mixed = replace(H200, max_sm=100)
    assert ll128(mixed) == 0
    assert ll128(replace(mixed, number="2.30.3")) > 0
    a40 = replace(H200, min_sm=86, max_sm=86)
    assert ll128(a40) > 0
    assert ll128(replace(a40, number="2.26.2")) == 0
    far = replace(H200, graphs=Graphs(ring=graph(12, 30, inter_kind="P2C")))
    assert ll128(far) > 0
    assert ll128(changed(far, NCCL_LL128_C2C="0")) == 0


def test_pat_runs_with_one_gpu_a_node() -> None:
    slow = Graphs(ring=graph(2, 12, kind="LOC"), tree=graph(2, 12, kind="LOC", pattern=1))
    spread = replace(H200, graphs=slow, nodes=4)
    assert tuning(spread)["AllGather"]["PAT"]["SIMPLE"][1] > 0
    assert tuning(changed(spread, NCCL_PAT_ENABLE="0"))["AllGather"]["PAT"]["SIMPLE"][1] == 0
    assert tuning(changed(H200, NCCL_PAT_ENABLE="1"))["AllGather"]["PAT"]["SIMPLE"][1] > 0


def test_the_network_costs_more_on_amd_hosts_and_by_the_nics_latency() -> None:
    across = replace(H200, nodes=2)
    base = tuning(across)["AllReduce"]["RING"]
    amd = tuning(replace(across, cpu_vendor="amd"))["AllReduce"]["RING"]
    slow = tuning(replace(across, net_latency_us=5.0))["AllReduce"]["RING"]
    assert amd["LL"][0] > base["LL"][0]
    assert slow["LL"][0] - base["LL"][0] == pytest.approx(2 * 5.0)
    assert slow["SIMPLE"][0] - base["SIMPLE"][0] == pytest.approx(2 * 2 * 5.0)
    dear = changed(across, NCCL_NET_OVERHEAD="5000")
    assert tuning(dear)["AllReduce"]["RING"]["LL"][0] > base["LL"][0]


def test_views_merge_into_what_all_ranks_can_do() -> None:
    wide = Graphs(ring=graph(12, 30), tree=graph(12, 30), nvls=graph(8, 40, 60))
    narrow = Graphs(ring=graph(4, 40, kind="PHB"), tree=graph(6, 20))
    found = merge([wide, narrow])
    assert found.ring is not None
    assert (found.ring.channels, found.ring.bw_intra, found.ring.type_intra) == (4, 30, "PHB")
    assert found.nvls is None
    assert coll_channels(replace(H200, graphs=found)) == 8
    assert merge([]) == Graphs()


def test_any_view_with_an_unbalanced_tree_slows_the_tree_since_2_26() -> None:
    mixed = replace(H200, tree_patterns=(1, 3))
    balanced = tuning(H200)["AllReduce"]["TREE"]["SIMPLE"][1]
    assert tuning(mixed)["AllReduce"]["TREE"]["SIMPLE"][1] == pytest.approx(0.85 * balanced)
    assert tuning(replace(mixed, number="2.25.1"))["AllReduce"]["TREE"]["SIMPLE"][1] == balanced


def test_every_version_finds_the_one_it_follows() -> None:
    def since(version: str) -> str:
        found = tuning_version("nccl", version)
        assert found is not None
        return found.number

    assert since("2.28.9+cuda13.0") == "2.28.9"
    assert since("2.27.4") == "2.27.3"
    assert since("2.27.7") == "2.27.5"
    assert since("2.17.1") == "2.18.1"
    assert since("2.18.6") == "2.18.3"
    assert since("9.9.9") == tuning_versions()[-1].number
    assert assumption("nccl", "2.28.9+cuda13.0") is None
    assert assumption("nccl", "2.27.7") is None
    assert "are those of 2.27.3, taken over" in (assumption("nccl", "2.27.4") or "")
    assert "newest" in (assumption("nccl", "9.9.9") or "")
    assert "oldest" in (assumption("nccl", "2.17.1") or "")
    with pytest.raises(ValueError, match="no version"):
        tuning_version("nccl", "next")


def test_rccl_is_not_guessed() -> None:
    assert tuning_version("rccl", "2.21.5") is None
    assert "RCCL" in (assumption("rccl", "2.21.5") or "")
    with pytest.raises(ValueError, match="RCCL"):
        tuning(replace(H200, library="rccl", number="2.21.5"))


def test_one_rank_has_nothing_to_choose() -> None:
    alone = replace(H200, ranks=1)
    assert choose(alone, tuning(alone), 2, "AllReduce", MIB) is None
