from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.nccl.prediction import Graphs, SearchGraph
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.tuning import rules as tuning_rules
from gputop.topology.nccl.tuning.channels import coll_channels, nvls_channels
from gputop.topology.nccl.tuning.choices import (
    choices,
    choose,
    crossovers,
    estimate_us,
    failures,
    logged_bytes,
)
from gputop.topology.nccl.tuning.merging import merge
from gputop.topology.nccl.tuning.model import TuningInput, tuning
from gputop.topology.nccl.tuning.remarks import assumptions, failure, ignored
from gputop.topology.nccl.tuning.threads import most_threads, threshold

KIB, MIB = 1 << 10, 1 << 20


def graph(
    channels: int,
    intra: float,
    inter: float | None = None,
    *,
    kind: str = "NVL",
    inter_kind: str = "PIX",
    pattern: int = 4,
    same: int = 1,
) -> SearchGraph:
    """A searched graph of so many channels before they are doubled."""
    return SearchGraph(
        pattern=pattern,
        channels=channels,
        bw_intra=intra,
        bw_inter=intra if inter is None else inter,
        type_intra=kind,
        type_inter=inter_kind,
        same_channels=same,
        cross_nic=0,
    )


H200 = TuningInput(
    graphs=Graphs(ring=graph(12, 30), tree=graph(12, 30, pattern=1)),
    ranks=4,
    min_sm=90,
    max_sm=90,
    nvls=False,
)
"""The recorded node: 4 H200 behind NVSwitch, NVLS off."""

H100 = replace(
    H200,
    graphs=Graphs(
        ring=graph(12, 30), tree=graph(12, 30, pattern=1), nvls=graph(8, 40, 60, pattern=5)
    ),
    ranks=8,
    nvls=True,
)


def changed(comm: TuningInput, **environment: str) -> TuningInput:
    """The same communicator under an environment."""
    return replace(comm, settings=Settings(environment))


def picked(comm: TuningInput, collective: str, size: int) -> str:
    """Algorithm and protocol, and the channels."""
    choice = choose(comm, tuning(comm), coll_channels(comm), collective, size)
    assert choice is not None
    first, last = choice.channels
    return f"{choice.algorithm} {choice.protocol} {first}..{last}"


def switches(comm: TuningInput, collective: str) -> str:
    """Where the choice changes: "RING LL, 4M RING LL128"."""
    found = crossovers(comm, tuning(comm), coll_channels(comm), collective)
    names = [f"{one.algorithm} {one.protocol}" for one in found]
    sizes = ["", *(f"{one.bytes // KIB}K " for one in found[1:])]
    return ", ".join(size + name for size, name in zip(sizes, names, strict=True))


# The log of the recorded node: LL, LL128, SIMPLE of each algorithm, latency/bandwidth.
LOGGED = {
    ("Broadcast", "RING"): "7.2/141.0 15.9/331.2 11.8/360.0",
    ("Reduce", "RING"): "7.2/141.0 15.9/331.2 11.8/360.0",
    ("AllGather", "RING"): "8.4/188.0 19.7/441.6 18.6/480.0",
    ("ReduceScatter", "RING"): "8.4/188.0 19.7/441.6 18.6/480.0",
    ("AllReduce", "TREE"): "10.4/43.6 21.5/128.8 32.4/165.6",
    ("AllReduce", "RING"): "10.2/94.0 25.4/220.8 28.8/240.0",
    ("AllReduce", "COLLNET_DIRECT"): "2.4/0.0 2.4/0.0 40.8/0.0",
    ("AllGather", "COLLNET_DIRECT"): "2.4/0.0 2.4/0.0 40.8/0.0",
    ("AllReduce", "COLLNET_CHAIN"): "0.0/0.0 0.0/0.0 46.8/0.0",
    ("AllReduce", "NVLS"): "0.0/0.0 0.0/0.0 0.0/0.0",
    ("AllGather", "PAT"): "0.0/0.0 0.0/0.0 0.0/0.0",
    ("Broadcast", "TREE"): "0.0/0.0 0.0/0.0 0.0/0.0",
}


@pytest.mark.parametrize("cell", LOGGED, ids=" ".join)
def test_the_table_is_the_logged_one(cell: tuple[str, str]) -> None:
    collective, algorithm = cell
    cells = tuning(H200)[collective][algorithm]
    assert " ".join(f"{us:.1f}/{gbs:.1f}" for us, gbs in cells.values()) == LOGGED[cell]


def test_the_worked_example_is_timed_as_in_the_log() -> None:
    table, channels = tuning(H200), coll_channels(H200)
    assert channels == 24
    assert picked(H200, "AllReduce", MIB) == "RING LL 0..23"
    assert picked(H200, "AllReduce", 16 * MIB) == "RING SIMPLE 0..23"
    assert picked(H200, "AllReduce", 4) == "RING LL 0..0"
    assert estimate_us(H200, table, channels, "AllReduce", MIB) == pytest.approx(21.36, abs=0.01)
    assert estimate_us(H200, table, channels, "AllReduce", 16 * MIB) == pytest.approx(98.7, abs=0.1)
    shown = choices(H200, table, channels)
    assert [one.bytes // MIB for one in shown] == [1, 4, 16, 64, 256, 1024]
    assert all(one.time_us < later.time_us for one, later in pairwise(shown))


def node(
    ranks: int,
    sm: int,
    ring: SearchGraph,
    tree: SearchGraph,
    nvls: SearchGraph | None = None,
    nodes: int = 1,
) -> TuningInput:
    """A communicator under the rules of 2.30.7."""
    graphs = Graphs(ring=ring, tree=tree, nvls=nvls)
    return TuningInput(
        graphs=graphs, ranks=ranks, nodes=nodes, min_sm=sm, max_sm=sm, version="2.30.7"
    )


SWITCHES = [
    (
        "8x A100",
        node(8, 80, graph(12, 20), graph(12, 20, pattern=1)),
        {"AllReduce": "RING LL, 4096K RING LL128, 32768K RING SIMPLE"},
    ),
    (
        "8x H100",
        replace(H100, version="2.30.7"),
        {
            "AllReduce": "RING LL, 2048K NVLS SIMPLE",
            "AllGather": "RING LL, 8192K RING LL128, 32768K RING SIMPLE",
            "ReduceScatter": "RING LL, 8192K RING LL128, 32768K RING SIMPLE",
        },
    ),
    (
        "4x H100",
        node(4, 90, graph(12, 30), graph(12, 30, pattern=1), graph(4, 60, pattern=5)),
        {"AllReduce": "RING LL, 4096K RING LL128, 16384K RING SIMPLE"},
    ),
    (
        "8x B200",
        node(8, 100, graph(16, 45), graph(16, 45, pattern=1), graph(8, 80, 90, pattern=5)),
        {"AllReduce": "RING LL, 4096K NVLS SIMPLE"},
    ),
    (
        "GB200 tray",
        node(4, 100, graph(16, 45), graph(16, 50, pattern=3), graph(4, 90, pattern=5)),
        {"AllReduce": "RING LL, 8192K RING LL128, 16384K RING SIMPLE"},
    ),
    (
        "8x V100",
        node(8, 70, graph(6, 20, same=0), graph(6, 20, pattern=1, same=0)),
        {"AllReduce": "RING LL, 1024K RING LL128, 16384K RING SIMPLE"},
    ),
    (
        "4x PCIe gen4",
        node(4, 80, graph(1, 20, kind="PHB"), graph(1, 20, kind="PHB", pattern=1)),
        {"AllReduce": "RING LL, 512K RING SIMPLE"},
    ),
    (
        "8x PCIe gen4",
        node(8, 80, graph(1, 20, kind="PHB"), graph(1, 20, kind="PHB", pattern=1)),
        {"AllReduce": "RING LL, 1024K RING SIMPLE"},
    ),
    (
        "8x H100 NVL pairs",
        node(8, 90, graph(2, 11, kind="SYS"), graph(2, 20, kind="SYS", pattern=1)),
        {"AllReduce": "RING LL, 1024K RING SIMPLE, 2048K TREE SIMPLE"},
    ),
    (
        "2x DGX H100",
        node(16, 90, graph(8, 48), graph(8, 48, pattern=2), graph(8, 40, 48, pattern=5), nodes=2),
        {
            "AllReduce": "TREE LL, 256K TREE LL128, 4096K NVLS_TREE SIMPLE",
            "AllGather": "RING LL, 1024K RING LL128, 65536K RING SIMPLE",
        },
    ),
]


@pytest.mark.parametrize(("name", "comm", "wanted"), SWITCHES, ids=[one[0] for one in SWITCHES])
def test_choices_switch_where_nccls_own_code_does(
    name: str, comm: TuningInput, wanted: dict[str, str]
) -> None:
    assert {collective: switches(comm, collective) for collective in wanted} == wanted


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
    assert ll128(replace(mixed, version="2.30.3")) > 0
    a40 = replace(H200, min_sm=86, max_sm=86)
    assert ll128(a40) > 0
    assert ll128(replace(a40, version="2.26.2")) == 0
    far = replace(H200, graphs=Graphs(ring=graph(12, 30, inter_kind="P2C")))
    assert ll128(far) > 0
    assert ll128(changed(far, NCCL_LL128_C2C="0")) == 0


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"NCCL_ALGO": "tree"}, "TREE LL128 0..23"),
        ({"NCCL_ALGO": "Tree,Ring"}, "RING LL128 0..23"),
        ({"NCCL_ALGO": "^RING"}, "TREE LL128 0..23"),
        ({"NCCL_ALGO": "ring;allreduce:tree"}, "TREE LL128 0..23"),
        ({"NCCL_PROTO": "Simple"}, "RING SIMPLE 0..23"),
        ({"NCCL_PROTO": "^LL128"}, "RING SIMPLE 0..23"),
        ({"NCCL_PROTO": "^LL128;AllReduce:LL"}, "RING LL 0..23"),
        ({"NCCL_ALGO": ""}, "RING LL128 0..23"),
    ],
)
def test_algo_and_proto_narrow_the_choice(environment: dict[str, str], wanted: str) -> None:
    comm = changed(H200, **environment)
    assert picked(comm, "AllReduce", 8 * MIB) == wanted
    assert failure(comm) is None
    assert ignored(comm) == ()


def test_naming_another_protocol_to_leave_out_forces_ll128() -> None:
    pcie = Graphs(ring=graph(2, 20, kind="PHB"), tree=graph(2, 20, kind="PHB", pattern=1))
    forced = changed(replace(H200, graphs=pcie), NCCL_PROTO="^LL")
    assert tuning(forced)["AllReduce"]["RING"]["LL128"][1] > 0


@pytest.mark.parametrize(
    "value",
    [
        "rings",
        "ring,,foo",
        "ring;tree",
        ";ring",
        "send:ring",
        "allreduce:",
        "allreduce:tree; ",
        ":",
    ],
)
def test_since_2_24_a_word_that_is_not_known_ends_the_start(value: str) -> None:
    said = failure(changed(H200, NCCL_ALGO=value))
    assert said is not None
    assert "NCCL_ALGO" in said
    assert failure(changed(replace(H200, version="2.23.4"), NCCL_ALGO=value)) is None


def test_before_2_24_unknown_words_are_skipped_and_told() -> None:
    old = changed(replace(H200, version="2.23.4"), NCCL_ALGO="ring,rong")
    assert [(name, value) for name, value, _ in ignored(old)] == [("NCCL_ALGO", "ring,rong")]
    assert picked(old, "AllReduce", MIB).startswith("RING")


def test_without_an_algorithm_the_call_fails_since_2_24() -> None:
    comm = changed(H200, NCCL_ALGO="tree")
    table = tuning(comm)
    assert choose(comm, table, 24, "AllGather", MIB) is None
    assert estimate_us(comm, table, 24, "AllGather", MIB) is None
    assert len(failures(comm, table)) == 4
    old = changed(replace(H200, version="2.23.4"), NCCL_ALGO="tree")
    assert failures(old, tuning(old)) == ()
    assert picked(old, "AllGather", MIB).startswith("RING")


def test_nvls_without_multicast_leaves_nothing() -> None:
    comm = changed(H200, NCCL_ALGO="NVLS")
    assert any("AllReduce" in sentence for sentence in failures(comm, tuning(comm)))


def test_nvls_uses_its_own_channels() -> None:
    assert coll_channels(H100) == 24
    assert nvls_channels(H100) == 16
    assert picked(H100, "AllReduce", 4 * MIB) == "NVLS SIMPLE 0..15"
    fewer = changed(H100, NCCL_NVLS_NCHANNELS="8")
    assert picked(fewer, "AllReduce", 4 * MIB) == "NVLS SIMPLE 0..7"
    off = changed(H100, NCCL_NVLS_ENABLE="0")
    assert nvls_channels(off) == 0
    assert picked(off, "AllReduce", 4 * MIB) == "RING LL128 0..23"


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, 24),
        ({"NCCL_MAX_NCHANNELS": "8"}, 8),
        ({"NCCL_MIN_NCHANNELS": "32"}, 32),
        ({"NCCL_MIN_NCHANNELS": "100"}, 64),
        ({"NCCL_MAX_NCHANNELS": "0"}, 1),
        ({"NCCL_MAX_NRINGS": "4"}, 4),
        ({"NCCL_MAX_NRINGS": "4", "NCCL_MAX_NCHANNELS": "6"}, 6),
        ({"NCCL_MAX_CTAS": "16"}, 16),
        ({"NCCL_MIN_CTAS": "48"}, 48),
        ({"NCCL_MIN_CTAS": "48", "NCCL_MAX_CTAS": "16"}, 16),
        ({"NCCL_MAX_CTAS": "-3"}, 24),
        ({"NCCL_MAX_NCHANNELS": "4", "NCCL_MIN_NCHANNELS": "12"}, 12),
    ],
)
def test_channel_limits(environment: dict[str, str], wanted: int) -> None:
    assert coll_channels(changed(H200, **environment)) == wanted


def test_fast_rings_across_nodes_get_four_channels_each() -> None:
    fast = Graphs(ring=graph(4, 48), tree=graph(4, 48, pattern=2))
    assert coll_channels(replace(H200, graphs=fast, ranks=8, nodes=2)) == 16
    assert coll_channels(replace(H200, graphs=fast)) == 8


def test_until_2_27_nvls_raises_the_channels() -> None:
    few = Graphs(ring=graph(4, 30), tree=graph(4, 30, pattern=1), nvls=graph(8, 40, 60, pattern=5))
    assert coll_channels(replace(H100, graphs=few, version="2.27.7")) == 16
    assert coll_channels(replace(H100, graphs=few)) == 8


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, 512),
        ({"NCCL_NTHREADS": "256"}, 256),
        ({"NCCL_NTHREADS": "100"}, 512),
        ({"NCCL_NTHREADS": "32"}, 64),
        ({"NCCL_NTHREADS": "9999999"}, 512),
        ({"NCCL_NTHREADS": "-1"}, 512),
    ],
)
def test_thread_counts(environment: dict[str, str], wanted: int) -> None:
    assert most_threads(changed(H200, **environment), "RING", "SIMPLE") == wanted


def test_a_slow_ring_gets_fewer_threads() -> None:
    slow = replace(H200, graphs=Graphs(ring=graph(1, 12, kind="PHB"), tree=graph(1, 12)))
    assert most_threads(slow, "RING", "SIMPLE") == 256
    assert most_threads(slow, "TREE", "SIMPLE") == 512


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("1 2 3 4 5 6", 4), ("1 2 3", 32), ("1 2 3 -1", 32), ("1 2 x 4", 32), ("1 2 3 0x9", 0)],
)
def test_thread_thresholds_are_read_like_sscanf(text: str, wanted: int) -> None:
    assert threshold(changed(H200, NCCL_THREAD_THRESHOLDS=text), "RING", "LL") == wanted


def test_small_calls_use_fewer_channels() -> None:
    assert picked(H200, "AllReduce", 64 * KIB) == "RING LL 0..3"
    wider = changed(H200, NCCL_THREAD_THRESHOLDS="8 8 64 8")
    assert picked(wider, "AllReduce", 64 * KIB) == "RING LL 0..15"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_NTHREADS", "100"),
        ("NCCL_LL128_NTHREADS", "64"),
        ("NCCL_THREAD_THRESHOLDS", "many"),
        ("NCCL_MIN_CTAS", "0"),
        ("NCCL_MAX_NCHANNELS", "0"),
        ("NCCL_MIN_NCHANNELS", "100"),
        ("NCCL_MAX_CTAS", "100"),
        ("NCCL_COLLNET_NODE_THRESHOLD", "4"),
        ("NCCL_PAT_ENABLE", "yes"),
        ("NCCL_COLLNET_ENABLE", "1"),
        ("NCCL_NVLS_NCHANNELS", "8"),
        ("NCCL_ALGO", "allreduce:ring:tree"),
    ],
)
def test_what_has_no_effect_is_told(name: str, value: str) -> None:
    found = ignored(changed(H200, **{name: value}))
    assert [(one, text) for one, text, _ in found] == [(name, value)]
    assert all(why for _, _, why in found)


def test_what_has_its_effect_is_not_told() -> None:
    fine = {
        "NCCL_MIN_NCHANNELS": "8",
        "NCCL_MAX_NCHANNELS": "16",
        "NCCL_MIN_CTAS": "2",
        "NCCL_MAX_CTAS": "16",
        "NCCL_NTHREADS": "256",
        "NCCL_LL128_NTHREADS": "320",
        "NCCL_THREAD_THRESHOLDS": "8 8 64",
        "NCCL_COLLNET_ENABLE": "0",
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_ALGO": "ring",
        "NCCL_PROTO": "^LL",
    }
    assert ignored(changed(H200, **fine)) == ()
    both = changed(H200, NCCL_MIN_CTAS="32", NCCL_MAX_CTAS="16", NCCL_MAX_NRINGS="8")
    assert [name for name, _, _ in ignored(both)] == ["NCCL_MIN_CTAS"]
    twice = changed(H200, NCCL_MAX_NCHANNELS="16", NCCL_MAX_NRINGS="8")
    assert [name for name, _, _ in ignored(twice)] == ["NCCL_MAX_NRINGS"]


def test_variables_of_later_versions_are_told() -> None:
    old = changed(replace(H200, version="2.20.5"), NCCL_PAT_ENABLE="1", NCCL_LL128_C2C="0")
    assert {name for name, _, _ in ignored(old)} == {"NCCL_PAT_ENABLE", "NCCL_LL128_C2C"}


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
    assert tuning(replace(mixed, version="2.25.1"))["AllReduce"]["TREE"]["SIMPLE"][1] == balanced


def test_versions_find_their_rules() -> None:
    def since(version: str) -> str:
        found = tuning_rules.rules_of("nccl", version)
        assert found is not None
        return found.since

    assert since("2.28.9+cuda13.0") == "2.28.9"
    assert since("2.27.5") == "2.27.3"
    assert since("2.18.1") == "2.20.3"
    assert since("9.9.9") == tuning_rules.steps()[-1].since
    assert tuning_rules.assumption("nccl", "2.28.9+cuda13.0") is None
    assert "untested" in (tuning_rules.assumption("nccl", "2.26.2") or "")
    assert "newest" in (tuning_rules.assumption("nccl", "9.9.9") or "")
    assert "oldest" in (tuning_rules.assumption("nccl", "2.18.1") or "")
    with pytest.raises(ValueError, match="no version"):
        tuning_rules.rules_of("nccl", "next")


def test_rccl_is_not_guessed() -> None:
    assert tuning_rules.rules_of("rccl", "2.21.5") is None
    assert "RCCL" in (tuning_rules.assumption("rccl", "2.21.5") or "")
    with pytest.raises(ValueError, match="RCCL"):
        tuning(replace(H200, library="rccl", version="2.21.5"))


def test_a_tuner_plugin_is_told() -> None:
    assert assumptions(H200) == ()
    assert "plugin" in assumptions(changed(H200, NCCL_TUNER_PLUGIN="libnccl-ofi-tuner.so"))[0]
    assert assumptions(changed(H200, NCCL_TUNER_PLUGIN="none")) == ()


def test_one_rank_has_nothing_to_choose() -> None:
    alone = replace(H200, ranks=1)
    assert choose(alone, tuning(alone), 2, "AllReduce", MIB) is None
    assert failures(alone, tuning(alone)) == ()


def test_the_log_prints_a_ranks_part_of_a_gather() -> None:
    assert logged_bytes("AllGather", 4 * MIB, 4) == MIB
    assert logged_bytes("AllReduce", 4 * MIB, 4) == 4 * MIB


@given(
    st.sampled_from(["NCCL_ALGO", "NCCL_PROTO", "NCCL_THREAD_THRESHOLDS", "NCCL_NTHREADS"]),
    st.text(max_size=40) | st.text(alphabet="^,;:ringteLlLSimple128 0-9+", max_size=40),
    st.sampled_from(["2.20.5", "2.23.4", "2.28.9"]),
)
def test_any_text_is_an_answer(name: str, value: str, version: str) -> None:
    comm = changed(replace(H200, version=version), **{name: value})
    table = tuning(comm)
    channels = coll_channels(comm)
    for collective in ("AllReduce", "AllGather"):
        choice = choose(comm, table, channels, collective, MIB)
        assert choice is None or 0 <= choice.channels[1] < channels
    said = failure(comm)
    assert said is None or said.isprintable()
    assert all(why for _, _, why in ignored(comm))
