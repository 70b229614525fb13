"""Ranks of which a log tells little: a file for each rank, one GPU on each host."""

from __future__ import annotations

import re

import pytest

from gputop.topology.logs.comparing.overlay import Rebuilt, lay, rebuild, snapshot_of
from gputop.topology.logs.comparing.placing import INTRODUCED, completed
from gputop.topology.logs.reading.read import read_log
from gputop.topology.model.snapshot import NodeSnapshot
from tests.support.nccl.logs import lines_of
from tests.support.places import RECORDINGS

OF_GRAPH = re.compile(rb"NCCL INFO (?: |===|\+|CPU|PCI|GPU|NVS|NIC|NET/|Pattern)")
HIDDEN = (b"NCCL_SHM_DISABLE", b"NCCL_P2P_DISABLE", b"NCCL_HOSTID")
PAIR = RECORDINGS / "real-faults" / "hostid_differs.txt"
"""Two ranks of one machine that NCCL took for two hosts with a GPU each (NCCL_HOSTID)."""


@pytest.fixture(scope="module")
def node() -> NodeSnapshot:
    """The machine of the recorded logs."""
    built = rebuild(read_log(lines_of("h200-default")))
    assert isinstance(built, Rebuilt)
    return snapshot_of(built)


def of_rank(name: str, rank: int, *, graph: bool) -> list[bytes]:
    """What NCCL_DEBUG_FILE holds of one rank, with or without the lines of GRAPH."""
    mark = b"[%d] NCCL " % rank
    own = [line for line in lines_of(f"h200-{name}") if mark in line]
    return [line for line in own if graph or not OF_GRAPH.search(line)]


@pytest.mark.parametrize("name", ["default", "p2pdis", "cumem0", "lvlphb"])
@pytest.mark.parametrize("rank", range(4))
def test_the_file_of_one_rank_is_compared_as_far_as_it_goes(
    node: NodeSnapshot, name: str, rank: int
) -> None:
    log = read_log(of_rank(name, rank, graph=False))
    assert log.main is not None
    assert [seen.rank for seen in log.main.ranks] == [rank]
    assert not log.main.systems
    overlay = lay(log, node)
    agreement = overlay.agreement
    assert agreement.comparable
    assert not agreement.differing
    assert {item.topic for item in agreement.items} >= {"nodes", "channels", "trees"}
    assert {(pair.src, pair.dst) for pair in agreement.pairs if pair.agrees}
    assert INTRODUCED.format(known=1, count=4) in overlay.assumptions


def test_connections_name_gpus_where_not_all_take_part(node: NodeSnapshot) -> None:
    own = [
        re.sub(rb"(n[rR]anks|localRanks) 4", rb"\1 2", line)
        for line in of_rank("default", 0, graph=False)
        if b" : 0[0] -> 2[2]" not in line and b" : 0[0] -> 3[3]" not in line
    ]  # fmt: skip
    far = [line.replace(b"-> 1[1]", b"-> 1[3]") for line in own]
    log, said = completed(read_log(far), node.machine)
    assert said
    assert log.main is not None
    assert {seen.rank: seen.bus_id for seen in log.main.ranks} == {
        0: "0000:00:06.0",
        1: "0000:00:09.0",
    }
    silent = [line for line in own if b" via " not in line]
    assert completed(read_log(silent), node.machine)[1] == ()


def one_gpu_a_host(path_lines: list[bytes]) -> list[bytes]:
    """The recorded pair as two hosts print it, each of which counts its GPU from 0."""
    found = []
    for line in path_lines:
        if any(name in line for name in HIDDEN):
            continue
        if b" [1] NCCL" in line:
            line = line.replace(b"vm:", b"vn:").replace(b" [1] NCCL", b" [0] NCCL")
            line = line.replace(b"cudaDev 1 nvmlDev 1 busId 70", b"cudaDev 0 nvmlDev 0 busId 60")
        found.append(line.replace(b"1[1]", b"1[0]"))
    return found


@pytest.mark.parametrize("files", ["both hosts", "first host"])
def test_jobs_with_one_gpu_a_host_are_compared(node: NodeSnapshot, files: str) -> None:
    lines = one_gpu_a_host(PAIR.read_bytes().splitlines(keepends=True))
    shown = [line for line in lines if files == "both hosts" or not line.startswith(b"vn:")]
    overlay = lay(read_log(shown), node)
    agreement = overlay.agreement
    assert agreement.comparable
    assert not agreement.differing
    assert agreement.ranks == {"0": 0}
    assert overlay.prediction is not None
    assert (overlay.prediction.nodes, overlay.prediction.ranks) == (2, 2)
    assert {item.topic for item in agreement.items} == {"nodes", "channels"}


def test_gpus_that_nothing_joins_are_no_hosts() -> None:
    """Four GPUs without P2P and shared memory: each is a node to NCCL."""
    own = of_rank("net", 0, graph=True)
    assert "1 of 4 GPUs" in str(lay(read_log(own), None).agreement.why_not)
    hosts = [line for line in own if not any(name in line for name in HIDDEN)]
    agreement = lay(read_log(hosts), None).agreement
    assert agreement.comparable
    assert not agreement.differing
    assert {item.topic for item in agreement.items} >= {"graph", "nodes", "channels", "tuning"}


def test_a_log_whose_start_is_missing_is_compared_by_its_connections(node: NodeSnapshot) -> None:
    lines = lines_of("h200-p2pdis")
    start = next(number for number, line in enumerate(lines) if b" via " in line)
    log = read_log(lines[start:])
    assert log.main is not None
    assert not log.main.ranks
    agreement = lay(log, node, library="nccl-2.28.9").agreement
    assert agreement.ranks == {str(rank): rank for rank in range(4)}
    # The variables stood at the start: the prediction has P2P.
    assert {pair.logged for pair in agreement.differing if hasattr(pair, "src")} == {
        ("SHM/direct/direct",)
    }
    known = lay(read_log(lines_of("h200-default")[start:]), node, library="nccl-2.28.9").agreement
    assert known.comparable
    assert not [pair for pair in known.pairs if pair.agrees is False]
