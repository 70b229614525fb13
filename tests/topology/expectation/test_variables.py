"""A low collective that a variable explains: named, and from the prediction with and without it."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.topology.expectation.judge import judge
from gputop.topology.expectation.judgement import Judgement
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.decide.predict import predict
from tests.support.expectation_made import GIB, collective, demo, h200, with_variables

ALL_THROUGH_SHM = "all 12 pairs go through shared memory (SHM)"


def judged(snapshot: NodeSnapshot, value: float, **facts: Any) -> Judgement:
    return judge(snapshot, [collective(value, **facts)])[0]


def test_p2p_switched_off_is_named_with_what_it_does() -> None:
    found = judged(h200(), 25.5, variables={"NCCL_P2P_DISABLE": "1"})
    assert (found.verdict, found.explained) == ("low", True)
    assert found.cause == f"NCCL_P2P_DISABLE=1 turns P2P off: {ALL_THROUGH_SHM}"


def test_a_variable_of_the_snapshot_counts_where_the_figure_says_nothing() -> None:
    found = judged(h200(NCCL_P2P_DISABLE="1"), 25.5)
    assert found.cause == f"NCCL_P2P_DISABLE=1 turns P2P off: {ALL_THROUGH_SHM}"


def test_what_the_ranks_had_beats_what_this_shell_has() -> None:
    found = judged(h200(NCCL_P2P_DISABLE="1"), 100.0, variables={})
    assert (found.verdict, found.cause) == ("low", "")


@pytest.mark.parametrize(
    ("variables", "cause"),
    [
        ({"NCCL_P2P_LEVEL": "LOC"}, f"NCCL_P2P_LEVEL=LOC turns P2P off: {ALL_THROUGH_SHM}"),
        (
            {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
            "NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1 turn P2P off: all 12 pairs go through the "
            "network (NET)",
        ),
        (
            {"NCCL_P2P_DISABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_DEBUG": "INFO"},
            f"NCCL_P2P_DISABLE=1 turns P2P off: {ALL_THROUGH_SHM}",
        ),
        ({"NCCL_MAX_NCHANNELS": "2"}, "NCCL_MAX_NCHANNELS=2 leaves 2 of 24 channels"),
        ({"NCCL_ALGO": "nonsense"}, ""),  # with that the library would not have started
        ({"NCCL_P2P_DISABLE": "0"}, ""),
        ({"NCCL_NVLS_ENABLE": "0"}, ""),  # four GPUs use Ring either way
        ({"NCCL_DEBUG": "INFO", "NCCL_SOCKET_IFNAME": "eth0"}, ""),
        ({"NCCL_P2P_LEVEL": "SYS"}, ""),
    ],
)
def test_each_variable_is_named_for_what_it_changes(variables: dict[str, str], cause: str) -> None:
    found = judged(h200(), 60.0, variables=variables)
    assert (found.verdict, found.cause, found.explained) == ("low", cause, bool(cause))


@pytest.mark.parametrize(
    ("variables", "words", "enough", "too_low"),
    [
        ({"NCCL_PROTO": "LL"}, "Ring LL instead of Ring Simple", 140.0, 20.0),
        ({"NCCL_ALGO": "Tree"}, "Tree Simple instead of Ring Simple", 250.0, 60.0),
    ],
)
def test_a_variable_explains_no_more_than_it_can_take(
    variables: dict[str, str], words: str, enough: float, too_low: float
) -> None:
    found = judged(h200(), enough, variables=variables)
    assert (found.verdict, found.explained) == ("low", True)
    assert found.cause.endswith(words)
    worse = judged(h200(), too_low, variables=variables)
    assert (worse.verdict, worse.explained) == ("low", False)
    assert worse.cause.endswith(f"{words}, but this is lower still")


@pytest.mark.parametrize("quantity", ["all_gather_busbw", "all_to_all_busbw", "send_receive_busbw"])
def test_other_collectives_are_explained_alike(quantity: str) -> None:
    found = judged(h200(), 25.0, quantity=quantity, variables={"NCCL_P2P_DISABLE": "1"})
    assert (found.verdict, found.cause) == (
        "low",
        f"NCCL_P2P_DISABLE=1 turns P2P off: {ALL_THROUGH_SHM}",
    )


def test_nvls_switched_off_where_eight_gpus_would_use_it() -> None:
    snapshot = demo("hgx-h100-8")
    off = judged(snapshot, 366.0, variables={"NCCL_NVLS_ENABLE": "0"})
    assert (off.verdict, off.explained) == ("low", True)
    assert off.cause == (
        "NCCL_NVLS_ENABLE=0 turns NVLS off: 1 GiB goes by Ring Simple instead of NVLS Simple"
    )
    assert judged(snapshot, 464.0).verdict == "healthy"
    unknown = judged(snapshot, 366.0)
    assert (unknown.verdict, unknown.explained) == ("low", False)
    assert "about what Ring gives (370 GB/s), and NVLS was expected" in unknown.cause


def test_a_healthy_figure_is_not_put_down_to_a_variable() -> None:
    found = judged(h200(), 356.0, variables={"NCCL_P2P_DISABLE": "1"})
    assert (found.verdict, found.cause) == ("healthy", "")


def test_a_node_without_a_table_entry_still_hears_of_the_variable() -> None:
    snapshot = demo("dgx-1v")
    found = judged(snapshot, 5.0, variables={"NCCL_P2P_DISABLE": "1"})
    assert found.band is not None
    assert (found.verdict, found.band.basis) == ("low", "estimate")
    assert found.cause == (
        "NCCL_P2P_DISABLE=1 turns P2P off: 32 of 56 pairs go through the network (NET), 24 of 56 "
        "pairs go through shared memory (SHM)"
    )


def test_a_prediction_that_is_passed_in_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = with_variables(demo("hgx-h100-8"), NCCL_DEBUG="INFO")
    made = predict(snapshot)
    monkeypatch.setattr(
        "gputop.topology.expectation.variables.predict",
        lambda *_, **__: pytest.fail("predicted again"),
    )
    found = judge(snapshot, [collective(464.0, ranks=8)], made)[0]
    assert found.verdict == "healthy"


def test_an_impossible_version_leaves_no_verdict_on_nvls(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError("no rules of this version")

    monkeypatch.setattr("gputop.topology.expectation.variables.predict", refuse)
    found = judged(demo("hgx-h100-8"), 100.0, bytes_per_copy=GIB)
    assert found.verdict == "no reference"


def test_a_variable_is_proof_enough_where_only_an_estimate_is_known() -> None:
    snapshot = demo("hgx-h100-8")
    on_three = {"ranks": 3, "variables": {"NCCL_P2P_DISABLE": "1"}}
    found = judged(snapshot, 25.0, **on_three)
    assert found.band is not None
    assert found.band.basis == "estimate"
    assert (found.verdict, found.explained) == ("low", True)
    assert found.cause.startswith("NCCL_P2P_DISABLE=1 turns P2P off: all 6 pairs")
    assert "of an estimate" in found.note
    assert judged(snapshot, 25.0, ranks=3, variables={}).verdict == "no reference"
    assert judged(snapshot, 0.6 * found.band.healthy, **on_three).verdict == "no reference"
    small = judged(snapshot, 0.5, bytes_per_copy=1 << 20, **on_three)
    assert small.verdict == "no reference"
