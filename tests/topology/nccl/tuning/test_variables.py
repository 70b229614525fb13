"""What variables make of the choice of algorithm and protocol."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.nccl.prediction import Graphs
from gputop.topology.nccl.tuning.channels import coll_channels
from gputop.topology.nccl.tuning.choices import choose
from gputop.topology.nccl.tuning.model import tuning
from gputop.topology.nccl.tuning.remarks import assumptions, failure, ignored
from tests.topology.nccl.tuning.made import H200, MIB, changed, graph, picked


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
    assert failure(changed(replace(H200, number="2.23.4"), NCCL_ALGO=value)) is None


def test_before_2_24_unknown_words_are_skipped_and_told() -> None:
    old = changed(replace(H200, number="2.23.4"), NCCL_ALGO="ring,rong")
    assert [(name, value) for name, value, _ in ignored(old)] == [("NCCL_ALGO", "ring,rong")]
    assert picked(old, "AllReduce", MIB).startswith("RING")


def test_without_an_algorithm_the_call_fails_since_2_24() -> None:
    comm = changed(H200, NCCL_ALGO="tree")
    table = tuning(comm)
    assert choose(comm, table, 24, "AllGather", MIB) is None
    assert choose(comm, table, 24, "AllReduce", MIB) is not None
    old = changed(replace(H200, number="2.23.4"), NCCL_ALGO="tree")
    assert picked(old, "AllGather", MIB).startswith("RING")


def test_nvls_without_multicast_leaves_nothing() -> None:
    comm = changed(H200, NCCL_ALGO="NVLS")
    assert choose(comm, tuning(comm), 24, "AllReduce", MIB) is None


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
def test_what_has_no_effect_is_reported(name: str, value: str) -> None:
    found = ignored(changed(H200, **{name: value}))
    assert [(one, text) for one, text, _ in found] == [(name, value)]
    assert all(why for _, _, why in found)


def test_what_has_its_effect_is_not_reported() -> None:
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


def test_variables_of_later_versions_are_reported() -> None:
    old = changed(replace(H200, number="2.20.5"), NCCL_PAT_ENABLE="1", NCCL_LL128_C2C="0")
    assert {name for name, _, _ in ignored(old)} == {"NCCL_PAT_ENABLE", "NCCL_LL128_C2C"}


def test_a_tuner_plugin_is_reported() -> None:
    assert assumptions(H200) == ()
    assert "plugin" in assumptions(changed(H200, NCCL_TUNER_PLUGIN="libnccl-ofi-tuner.so"))[0]
    assert assumptions(changed(H200, NCCL_TUNER_PLUGIN="none")) == ()


@given(
    st.sampled_from(["NCCL_ALGO", "NCCL_PROTO", "NCCL_THREAD_THRESHOLDS", "NCCL_NTHREADS"]),
    st.text(max_size=40) | st.text(alphabet="^,;:ringteLlLSimple128 0-9+", max_size=40),
    st.sampled_from(["2.20.5", "2.23.4", "2.28.9"]),
)
def test_any_text_is_an_answer(name: str, value: str, version: str) -> None:
    comm = changed(replace(H200, number=version), **{name: value})
    table = tuning(comm)
    channels = coll_channels(comm)
    for collective in ("AllReduce", "AllGather"):
        choice = choose(comm, table, channels, collective, MIB)
        assert choice is None or 0 <= choice.channels[1] < channels
    said = failure(comm)
    assert said is None or said.isprintable()
    assert all(why for _, _, why in ignored(comm))
