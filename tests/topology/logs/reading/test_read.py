from __future__ import annotations

import gzip
import io
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from gputop.topology.logs.reading.read import Chunk, read_file, read_log
from gputop.topology.logs.report.report import LogReport
from gputop.topology.logs.report.settings import settings_from
from tests.support.nccl.logs import cases, lines_of, recorded
from tests.support.places import CAPTURES

FACES = {
    "transport": rb" via ",
    "ring order": rb"Channel \d+/\d+ :(?: +\d+)+ *$",
    "ring": rb"NCCL INFO Ring \d+ :",
    "tree": rb"NCCL INFO (?:Trees|Tree \d+)",
    "choice": rb"Bytes -> Algo",
    "environment": rb"set by environment to",
    "shape": rb"nRanks \d+ nNodes",
    "init": rb"- Init (?:START|COMPLETE)",
    "p2p type": rb"Check P2P Type",
    "channel counts": rb"coll channels",
    "path": rb"NCCL INFO \w{3}/\S+ :\w{3}/",
    "network": rb"Using network",
    "version": rb"NCCL version|cudaDriverVersion",
}
"""How one recognises the lines that carry a decision, by other means than the reader's."""

SAID = b"n1:2:3 [0] NCCL INFO Connected"
WARNED = b"n1:2:3 [0] init.cc:1 NCCL WARN it failed"
DULL = b"step 3"


def all_logs() -> list[Path]:
    captured = [*CAPTURES.glob("*/nccl-log-*.txt"), *CAPTURES.glob("*/logs/*.gz")]
    return sorted(captured) or recorded()


@pytest.mark.beside
def test_every_captured_log_is_read_whole() -> None:
    for path in all_logs():
        data = path.read_bytes()
        lines = (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()
        log = read_file(path)
        assert not log.unread, (path.name, log.unread)
        assert not log.unknown, (path.name, log.unknown)
        assert log.cut == 0, path.name
        assert not log.more, (path.name, log.more)
        assert sum(log.kinds.values()) == log.lines == len(lines), path.name
        for kind, face in FACES.items():
            seen = sum(1 for line in lines if re.search(face, line))
            assert log.kinds.get(kind, 0) == seen, (path.name, kind)


@pytest.mark.beside
def test_emulated_logs_hold_what_nccl_decided() -> None:
    for case, path in cases():
        log = read_file(path)
        comm = log.main
        assert comm is not None
        assert len(log.communicators) == 1
        name = case["case"]
        shown = {
            f"{transport.src}-{transport.dst}": sorted(
                set(comm.labels(transport.src, transport.dst))
            )
            for transport in comm.transports
        }
        assert shown, name
        for pair, labels in shown.items():
            assert set(labels) <= set(case["transports"][pair]), (name, pair)
        for pair, labels in case["transports"].items():
            if pair.startswith("0-"):
                assert shown.get(pair) == sorted(labels), (name, pair)
        system = comm.systems[0]
        gpus = {node.detail: node.name for node in system.nodes if node.name.startswith("GPU/")}
        for pair, cell in case["paths"].items():
            src, dst = pair.split("-")
            assert system.paths[gpus[src]][gpus[dst]] == tuple(cell), (name, pair)
        ring, tree = comm.graphs
        for graph, expected in ((ring, case["graphs"]["ring"]), (tree, case["graphs"]["tree"])):
            for key, value in expected.items():
                assert getattr(graph, key) == value, (name, key)
            assert len(graph.rows) == graph.channels
        (choice,) = comm.choices
        for expected in case["choices"]:
            assert choice.collective == expected["collective"]
            assert choice.bytes == expected["bytes"]
            assert choice.algorithm == expected["algorithm"]
            assert choice.protocol == expected["protocol"]
            assert choice.channels == tuple(expected["channels"])
        assert settings_from(log).items() >= (case["env"].items() - {("NCCL_P2P_LEVEL", "2")})


def h200(name: str = "default") -> LogReport:
    return read_log(lines_of(f"h200-{name}"), name=name)


def test_the_default_log() -> None:
    log = h200()
    assert log.versions.library == "nccl"
    assert log.versions.version == "2.28.9"
    assert log.versions.built_for == "cuda13.0"
    assert log.versions.driver == 13000
    comm = log.main
    assert comm is not None
    assert comm.ident == "35d4b485bebe0be1"
    assert (comm.nranks, comm.nodes, comm.local_ranks, comm.mnnvl) == (4, 1, 4, False)
    assert [rank.bus_id for rank in comm.ranks] == [f"0000:00:0{n}.0" for n in (6, 7, 8, 9)]
    assert [rank.state for rank in comm.ranks] == ["destroyed"] * 4
    assert comm.network == "Socket"
    assert comm.counts is not None
    assert (comm.counts.coll, comm.counts.p2p, comm.counts.p2p_per_peer) == (24, 32, 32)
    assert comm.tuning["AllReduce"]["RING"]["LL128"] == (25.4, 220.8)
    assert comm.tuning["AllGather"]["COLLNET_DIRECT"]["SIMPLE"] == (40.8, 0.0)
    assert comm.systems[0].ranks == (0, 1, 2, 3)
    assert [graph.pattern for graph in comm.graphs] == [4, 1]
    assert comm.rings[0].order == (0, 1, 2, 3)
    assert comm.rings[0].channels == tuple(range(24))
    assert comm.labels(0, 1) == ("P2P/CUMEM",)
    first = next(
        transport for transport in comm.transports if (transport.src, transport.dst) == (0, 1)
    )
    text = lines_of("h200-default")[first.line - 1]
    assert text.decode().endswith(first.text)


def test_split_domains_show_each_block() -> None:
    comm = h200("net").main
    assert comm is not None
    assert comm.nodes == 4
    assert len(comm.systems) == 4
    assert comm.labels(0, 1) == ("NET/Socket/0", "NET/Socket/0/Shared")
    assert {transport.direction for transport in comm.transports} == {"send", "receive"}


def dressed(prefix: bytes, suffix: bytes = b"") -> LogReport:
    lines = [prefix + line + suffix for line in lines_of("h200-p2pdis")]
    return read_log(lines)


@pytest.mark.parametrize(
    ("prefix", "suffix"),
    [
        (b"[rank0]:", b""),
        (b"0: ", b""),
        (b"12: ", b""),
        (b"node1: ", b""),
        (b"[1,0]<stdout>:", b""),
        (b"2026-11-21T05:32:14.611000123Z stdout F ", b""),
        (b"[2026-11-21 05:32:14] ", b""),
        (b"worker-0  | ", b""),
        (b"pod/trainer-0/main ", b""),
        (b"\x1b[36m(RayWorker pid=1753)\x1b[0m ", b"\x1b[0m"),
        (b"\x1b[2m\x1b[33m(pid=1, ip=192.0.2.7)\x1b[39m\x1b[22m ", b""),
        (b"", b"\r"),
        (b"05:32:14.611 ", b"\r"),
    ],
)
def test_what_launchers_put_before_a_line_changes_nothing(prefix: bytes, suffix: bytes) -> None:
    plain, clothed = h200("p2pdis"), dressed(prefix, suffix)
    assert clothed.main is not None
    assert plain.main is not None
    assert clothed.main.transports == plain.main.transports
    assert clothed.main.systems == plain.main.systems
    assert clothed.main.tuning == plain.main.tuning
    assert clothed.main.ranks == plain.main.ranks
    assert clothed.environment == plain.environment
    assert not clothed.unread
    assert not clothed.unknown


def test_rccl_and_old_brackets() -> None:
    head = b"mi:7:7 [0] NCCL INFO "
    log = read_log(
        [
            b"RCCL version : 2.21.5-HEAD:0cbce2a",
            b"HIP version  : 6.3.42131",
            head + b"ncclCommInitRank comm 0x55aa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId c1000 "
            b"commId 0xabc - Init START",
            head + b"Channel 00/0 : 0[c1000] -> 1[c6000] via P2P/IPC comm 0x55aa nRanks 02",
            head + b"Channel 01/0 : 0[c1000] -> 1[c6000] via P2P/direct pointer comm 0x55aa "
            b"nRanks 02",
            head + b"Channel 01/0 : 1[c6000] -> 0[c1000] [receive] via NET/IB/3(1)/GDRDMA "
            b"comm 0x55aa nRanks 02",
            head + b"Ring 0 : 1 -> 0 -> 1 comm 0x55aa nRanks 02 busId c1000",
            head + b"Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1 comm 0x55aa nRanks 02 busId c1000",
            head + b"1048576 Bytes -> Algo 1 proto 2 time 31.250000",
            head + b"ncclCommInitRank comm 0x55aa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId c1000 "
            b"commId 0xabc localSize 512 used 1000 bytes on core 3 - Init COMPLETE",
        ]
    )
    assert not log.unread
    assert log.versions.library == "rccl"
    assert log.versions.version == "2.21.5"
    comm = log.main
    assert comm is not None
    assert comm.labels(0, 1) == ("P2P/IPC", "P2P/direct pointer")
    assert comm.labels(1, 0) == ("NET/IB/3(1)/GDRDMA",)
    assert comm.ranks[0].bus_id == "0000:c1:00.0"
    assert comm.ranks[0].state == "ready"
    assert [(choice.algorithm, choice.protocol) for choice in comm.choices] == [("RING", "SIMPLE")]
    assert comm.trees[0].channels == (0, 1)


def test_lines_written_into_each_other() -> None:
    a = b"vm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"
    b = b"vm:2:2 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM"
    log = read_log([a, a + b, a[:-3] + b, b])
    comm = log.main
    assert comm is not None
    assert comm.labels(0, 1) == comm.labels(1, 0) == ("P2P/CUMEM",)
    assert log.hosts == ("vm",)
    assert log.cut == 1
    assert not log.unread
    assert read_log(io.BytesIO(a + b"\n" + b[:-3])).cut == 1


def test_what_is_not_understood_is_counted() -> None:
    head = b"vm:1:1 [0] NCCL INFO "
    log = read_log([head + b"Channel 00/0 : a new form", head + b"Something new 17", b"other"])
    assert [line.text for line in log.unread] == ["Channel 00/0 : a new form"]
    assert [line.text for line in log.unknown] == ["Something new 17"]
    assert log.kinds == {"unread": 1, "other": 1, "elsewhere": 1}


def test_several_communicators_in_one_process() -> None:
    lines = []
    for number, ranks in ((1, 4), (2, 2)):
        for rank in range(ranks):
            who = b"vm:%d:%d [%d] NCCL INFO " % (rank + 1, rank + 1, rank)
            lines.append(
                who + b"ncclCommInitRank comm 0x%d%d rank %d nranks %d cudaDev %d nvmlDev %d "
                b"busId %d0 commId 0x%d - Init START"
                % (number, rank, rank, ranks, rank, rank, rank + 6, number)
            )
    lines.append(b"vm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 3[3] via SHM/direct/direct")
    lines.append(b"vm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM")
    log = read_log(lines)
    big, small = log.communicators
    assert big.labels(0, 3) == ("SHM/direct/direct",)
    assert small.labels(0, 1) == ("P2P/CUMEM",)


def test_gzip_streams_joined_and_damaged() -> None:
    whole = b"\n".join(lines_of("h200-net")) + b"\n"
    joined = gzip.compress(whole[:20000]) + gzip.compress(whole[20000:])
    assert read_log(io.BytesIO(joined)).kinds == read_log(io.BytesIO(whole)).kinds
    half = read_log(io.BytesIO(gzip.compress(whole)[:3000]))
    assert 0 < half.lines < whole.count(b"\n")


class Large:
    """Communicators one after the other, megabytes of them."""

    def __init__(self, names: tuple[str, ...], size_bytes: int) -> None:
        self.block = b"\n".join(line for name in names for line in lines_of(name)) + b"\n"
        self.left = size_bytes // len(self.block)

    def read(self, size: int, /) -> bytes:
        self.left -= 1
        comm = b"%016x" % self.left
        return self.block.replace(b"35d4b485bebe0be1", comm) if self.left >= 0 else b""


def test_every_line_of_a_large_log_is_read() -> None:
    log = read_log(Large(("h200-default",), 20_000_000))
    assert log.bytes > 18_000_000
    assert Counter(log.kinds)["unread"] == 0


@pytest.mark.timing
def test_a_large_log_is_read_fast() -> None:
    stream = Large(("h200-default", "h200-cumem0", "h200-net"), 60_000_000)
    before = time.process_time()
    log = read_log(stream)
    seconds = time.process_time() - before
    assert log.bytes / seconds > 8e6, f"{log.bytes / seconds / 1e6:.1f} MB/s"


# What is asked of a whole chunk of lines is what each of its lines would answer.
@pytest.mark.parametrize(
    ("lines", "others", "glued"),
    [
        ([DULL, SAID, WARNED], [DULL, WARNED], False),
        ([SAID, SAID, DULL], [DULL], False),
        ([SAID, SAID + SAID], [], True),
        ([SAID + WARNED, DULL], [DULL], True),
        ([WARNED + WARNED, SAID], [WARNED + WARNED], False),
    ],
)
def test_lines_of_the_library_are_counted(
    lines: list[bytes], others: list[bytes], glued: bool
) -> None:
    chunk = Chunk(lines)
    assert (chunk.others, chunk.glued, chunk.unmarked) == (others, glued, False)


def test_a_chunk_of_other_programs_is_unmarked() -> None:
    chunk = Chunk([DULL, b"error"])
    assert (chunk.unmarked, chunk.blank) == (True, False)
    assert Chunk([b"", b" "]).blank


def test_colours_are_removed_and_lines_stay_lines() -> None:
    lines = [b"\x1b[1m" + DULL, b"\x1b]0;no end", b"", b"\x1b[31m" + SAID + b"\x1b[0m", b"\x1b"]
    chunk = Chunk(lines)
    assert chunk.lines == [DULL, b"0;no end", b"", SAID, b"\x1b"]
    assert chunk.others == [DULL, b"0;no end", b"", b"\x1b"]


def test_a_chunk_knows_whether_a_line_speaks_of_a_failure() -> None:
    assert Chunk([SAID, WARNED, DULL]).failing
    assert not Chunk([SAID, DULL]).failing


def test_other_levels_of_the_library_are_told_from_lines_about_it() -> None:
    about = b"[rank0]: DistBackendError: NCCL error in: x.cpp:3"
    assert Chunk([SAID, WARNED, WARNED, about, DULL]).other_levels == {WARNED}
