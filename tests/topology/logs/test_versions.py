"""Logs as other versions, RCCL and other launchers write them, shortened to what they decide."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence

import pytest

from gputop.topology.diagnosis.symptoms.explain import explain, unexplained
from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.report import LogReport
from gputop.topology.logs.report.settings import settings_from
from tests.support.places import RECORDINGS


def read(lines: Sequence[str], prefix: str = "") -> LogReport:
    return read_log([(prefix + line).encode() for line in lines])


OLD = (
    "NCCL version 2.12.12+cuda11.7",
    "g6:60:64 [0] NCCL INFO Bootstrap : Using eno1:192.0.2.6<0>",
    "g6:60:64 [0] NCCL INFO Using network IB",
    "",
    "g6:61:69 [0] misc/nvmlwrap.cc:181 NCCL WARN nvmlDeviceGetHandleByPciBusId() failed: Not Found",
    "g6:60:64 [0] NCCL INFO Channel 00/02 :    0   1",
    "g6:60:64 [0] NCCL INFO Channel 01/02 :    0   1",
    "g6:61:69 [0] NCCL INFO Channel 00 : 1[ca000] -> 0[31000] via SHM/direct/direct",
    "g6:60:64 [0] NCCL INFO Channel 00 : 0[31000] -> 1[ca000] via SHM/direct/direct",
    "g6:60:64 [0] NCCL INFO comm 0x2c0 rank 0 nranks 2 cudaDev 0 busId 31000 - Init COMPLETE",
    "g6:61:69 [0] NCCL INFO comm 0x2d0 rank 1 nranks 2 cudaDev 0 busId ca000 - Init COMPLETE",
)


@pytest.mark.parametrize("prefix", ["", "[1,0]<stdout>: ", "[rank0]:", "0: "])
def test_a_version_that_names_its_communicator_last_gives_one(prefix: str) -> None:
    report = read(OLD, prefix)
    assert (report.versions.library, report.versions.version) == ("nccl", "2.12.12")
    (comm,) = report.communicators
    assert comm.nranks == 2
    assert [(rank.rank, rank.bus_id, rank.state) for rank in comm.ranks] == [
        (0, "0000:31:00.0", "ready"),
        (1, "0000:ca:00.0", "ready"),
    ]
    assert {(transport.src, transport.dst, transport.label) for transport in comm.transports} == {
        (0, 1, "SHM/direct/direct"),
        (1, 0, "SHM/direct/direct"),
    }
    assert [ring.order for ring in comm.rings] == [(0, 1)]
    assert [finding.id for finding in explain(report)] == ["gpu-hidden"]


def test_the_shared_memory_of_versions_before_2_13() -> None:
    line = "g6:60:64 [0] NCCL INFO Channel 00 : 0[31000] -> 1[ca000] via direct shared memory"
    (comm,) = read([line]).communicators
    assert [transport.label for transport in comm.transports] == ["SHM/direct/direct"]


def test_lines_that_ray_folded_are_read_and_counted() -> None:
    head = "(Worker pid=61) n1:61:69 [1] NCCL INFO "
    report = read(
        [
            head + "Channel 00/0 : 1[1] -> 0[0] via P2P/IPC [repeated 23x across cluster] "
            "(Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable it.)"
        ]
    )
    (comm,) = report.communicators
    assert [(transport.src, transport.label) for transport in comm.transports] == [(1, "P2P/IPC")]
    assert report.unread == ()
    assert report.more == {"lines that Ray folded into one": 23}


def test_two_communicators_without_names_stay_two() -> None:
    again = [line.replace("comm 0x2", "comm 0x9") for line in OLD if "Init COMPLETE" in line]
    report = read([*OLD, *again])
    ready = [[rank.rank for rank in comm.ranks] for comm in report.communicators]
    assert ready[0] == [0, 1]
    assert sum(len(ranks) for ranks in ready) == 4


def test_rccl_names_its_commit_behind_the_version() -> None:
    tail = "comm 0x95 nRanks 02"
    report = read(
        [
            "RCCL version 2.17.1+hip5.7 HEAD:cbbb3d8+",
            "g1:63:67 [0] NCCL INFO comm 0x95 rank 0 nranks 2 cudaDev 0 busId c1000 commId 0x5b "
            "- Init START",
            "g1:63:67 [0] NCCL INFO Channel 02/0 : 1[c6000] -> 0[c1000] [receive] "
            f"via NET/Socket/1 {tail}",
            f"g1:63:67 [0] NCCL INFO Channel 00/0 : 0[c1000] -> 1[c6000] via P2P/IPC {tail}",
        ]
    )
    assert (report.versions.library, report.versions.version) == ("rccl", "2.17.1")
    assert report.versions.built_for == "hip5.7"
    (comm,) = report.communicators
    assert {transport.label for transport in comm.transports} == {"NET/Socket/1", "P2P/IPC"}


def test_the_version_of_rccl_on_a_line_of_its_own() -> None:
    report = read(["RCCL version : 2.22.3-develop:1a2b3c4", "HIP version  : 6.4.43482"])
    assert (report.versions.library, report.versions.version) == ("rccl", "2.22.3")


HOSTS = tuple(
    f"n{host}:{pid}:{pid} [{device}] NCCL INFO ncclCommInitRankConfig comm 0x1{rank} rank {rank} "
    f"nranks 4 cudaDev {device} nvmlDev {device} busId {bus} commId 0xabc - Init {stage}"
    for stage in ("START", "COMPLETE")
    for rank, (host, pid, device, bus) in enumerate(
        [("a", 10, 0, 18000), ("a", 11, 1, "2a000"), ("b", 10, 0, 18000), ("b", 11, 1, "2a000")]
    )
)


def test_two_hosts_over_rdma_with_a_relay_are_nothing_to_warn_of() -> None:
    report = read(
        [
            "NCCL version 2.26.2+cuda12.2",
            *HOSTS[:4],
            "na:10:10 [0] NCCL INFO NVLS multicast support is available on dev 0",
            "na:10:10 [0] NCCL INFO NVLS Head  0:  0  2",
            "na:10:10 [0] NCCL INFO Channel 00 : 3[1] -> 0[0] [receive] via NET/IBext_v8/0/GDRDMA",
            "na:11:11 [1] NCCL INFO Channel 01 : 1[1] -> 2[0] [send] via NET/IBext_v8/1(0)/GDRDMA",
            "na:10:10 [0] NCCL INFO Connected NVLS tree",
            *HOSTS[4:],
        ]
    )
    (comm,) = report.communicators
    assert comm.hosts == ("na", "nb")
    assert {transport.label for transport in comm.transports} == {
        "NET/IBext_v8/0/GDRDMA",
        "NET/IBext_v8/1(0)/GDRDMA",
    }
    assert explain(report) == ()
    assert unexplained(report) == ()
    assert report.unread == ()


def test_warnings_are_counted_once_a_kind() -> None:
    warn = b"vm:1:9 [0] misc/shmutils.cc:87 NCCL WARN Error: failed to extend %s to 9637892 bytes"
    log = read_log([b"", warn % b"/dev/shm/nccl-abcdef", b"", warn % b"/dev/shm/nccl-uvwxyz"])
    (note,) = log.notes
    assert (note.count, note.line, note.where) == (2, 2, "misc/shmutils.cc:87")
    new = read_log([b"vm:1:9 [0] mnnvl.cc:9 (ncclMnnvlCheck) NCCL WARN text 5"]).notes[0]
    assert (new.where, new.text) == ("mnnvl.cc:9", "text 5")


def test_forms_of_other_versions() -> None:
    """2.30 names ranks, children and copies by engine; RCCL has its own remarks."""
    head = b"vm:1:1 [0] NCCL INFO "
    start = (
        b"[Rank 0] ncclCommInitRankConfig comm 0xa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 "
    )
    child = b"ncclCommSplit comm 0xb rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 60 parent 0xa "
    log = read_log(
        [
            head + start + b"commId 0x5 - Init START",
            head + child + b"childCount 1 color 3 key 0- Init START",
            head + b"AllGather [Copy Engine]: 1048576 Bytes -> cudaMemcpyBatchAsync",
            head
            + b"AllReduce [Symmetric]: 65536 Bytes -> Kernel AllReduce_RSxLD_AGxST nchannels 8 "
            b"nthreads 512 nWorks 1",
            head + b"HINT: In many cases this error occurs when ACS is enabled which would break",
            head + b"Ring 00 : 0 -> 1 failed to get link type and hop count",
            head
            + b"GDRDMA not enabled. Could not find memory_peers directory or peer_memory symbol",
            head + b"NCCL_NVLS_ENABLE set by environment to 0.",
            head + b"Comm config minCTAs reset to NCCL_MIN_CTAS=4",
            head + b"Connection to proxy localRank 0 -> connection 0x7f",
        ]
    )
    assert not log.unread
    assert not log.unknown
    parent, split = log.communicators
    assert parent.ident == "5"
    assert (split.ident, split.parent) == ("5/1/3", "5")
    assert {choice.algorithm for choice in (*parent.choices, *split.choices)} == {"CE", "SYMMETRIC"}
    assert settings_from(log) == {"NCCL_NVLS_ENABLE": "0", "NCCL_MIN_CTAS": "4"}
    assert any(note.text.startswith("HINT:") for note in log.notes)


def as_2_16(name: str) -> list[str]:
    """A recorded log in the order of versions before 2.17: a communicator is named when ready."""
    path = RECORDINGS / "nccl-logs" / f"{name}.log.gz"
    found: list[str] = []
    ready: list[str] = []
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        if " - Init START" in line or " nNodes " in line or "Init timings" in line:
            continue
        line = line.replace("2.28.9+cuda13.0", "2.16.5+cuda11.8")
        old = re.sub(r"\w+ (comm 0x.*) nvmlDev \d+ (busId .* - Init COMPLETE)", r"\1 \2", line)
        (ready if old != line else found).append(old)
    return found + ready


@pytest.mark.parametrize("name", ["h200-default", "h200-p2pdis"])
def test_a_version_that_names_its_communicator_last_keeps_all_graphs(name: str) -> None:
    path = RECORDINGS / "nccl-logs" / f"{name}.log.gz"
    (new,) = read_log(gzip.decompress(path.read_bytes()).splitlines(keepends=True)).communicators
    log = read(as_2_16(name))
    assert log.versions.version == "2.16.5"
    (comm,) = log.communicators
    assert comm.ident == new.ident
    assert [(g.pattern, g.ranks, g.rows) for g in comm.graphs] == [
        (g.pattern, g.ranks, g.rows) for g in new.graphs
    ]
    assert len(comm.graphs) == 2
    assert [system.ranks for system in comm.systems] == [system.ranks for system in new.systems]
    assert comm.trees == new.trees
