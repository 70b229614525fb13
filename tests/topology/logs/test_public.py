"""Logs of machines that nobody here has seen, beside what is predicted for them."""

from __future__ import annotations

import pytest

from gputop.answers.log import read_path
from gputop.reading import load_snapshot
from gputop.topology.diagnosis.symptoms.log import ReadLog, examine
from gputop.topology.logs.reading.read import read_log
from tests.support.places import RECORDINGS

PUBLIC = RECORDINGS / "nccl-public"
MACHINES = ("a100-2", "a100-2-one-link")


def examined(name: str, *, by_file: bool) -> ReadLog:
    node = None
    if by_file:
        node = load_snapshot((str(PUBLIC / f"{name}.xml"),))
    return examine(read_path(PUBLIC / f"{name}.log"), node)


@pytest.mark.parametrize("by_file", [False, True], ids=["from the log", "from the XML"])
@pytest.mark.parametrize("name", MACHINES)
def test_nccl_2_27_does_what_is_predicted(name: str, by_file: bool) -> None:
    read = examined(name, by_file=by_file)
    assert read.log.unread == ()
    assert not read.unexplained
    agreement = read.overlay.agreement
    assert agreement.library == "nccl-2.27.7"
    assert agreement.differing == ()
    topics = {item.topic for item in agreement.items}
    assert {"path", "graph", "rings", "trees", "channels", "nodes", "tuning", "choice"} <= topics
    assert [pair.agrees for pair in agreement.pairs] == [True, True]


def test_the_table_of_nccl_tests_runs_into_no_name() -> None:
    read = examined("a100-2", by_file=False)
    assert read.log.hosts == ("a1",)
    (comm,) = read.log.communicators
    assert {rank.host for rank in comm.ranks} == {"a1"}


def test_a_link_that_is_narrow_at_one_end_is_reported() -> None:
    found = {finding.id: finding for finding in examined("a100-2-one-link", by_file=False).findings}
    assert (
        "NVL[20.0] - GPU/0-65000, where others have 240.0"
        in found["nvlink-unequal"].evidence[0].value
    )
    assert found["topology-file-used"].severity == "notice"
    assert not examined("a100-2", by_file=False).findings


@pytest.mark.parametrize("name", ["1a1", "0a1", "03f", "10.03f"])
def test_a_number_before_a_host_is_taken_off_only_where_the_process_is_known(name: str) -> None:
    line = ":7:8 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC"
    bare = name[-2:]
    both = read_log([(bare + line).encode(), (name + line).encode()])
    assert both.hosts == (bare,)
    assert read_log([(name + line).encode()]).hosts == (name,)


def test_a_graph_without_channels_is_no_graph_on_either_side() -> None:
    # An A100 pair: the prediction has an NVLS graph of no channels, the log has no line for one.
    subjects = {item.subject for item in examined("a100-2", by_file=False).overlay.agreement.items}
    assert "nvls" not in subjects
