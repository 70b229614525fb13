"""Any bytes give an answer: cut, shuffled, spliced and hostile logs."""

from __future__ import annotations

import gzip
import io
from contextlib import suppress

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gputop.answers.log import answer_about
from gputop.pages.log import log_page
from gputop.printing.render import texts
from gputop.screens.log.entries import entries
from gputop.topology.diagnosis.symptoms.explain import known_signs
from gputop.topology.diagnosis.symptoms.log import examine
from gputop.topology.logs.reading.lines import LogUnreadable
from gputop.topology.logs.reading.read import read_log
from tests.support.nccl.logs import lines_of

LINES = lines_of("h200-net") + lines_of("mesh_a100_amd__P2P_DISABLE=1_SHM_DISABLE=1")
HEAD = b"vm:1:1 [0] NCCL INFO "
WORDS = [
    b"Channel ",
    b"00/0 : ",
    b"0[0] -> 1[1]",
    b" via ",
    b"P2P/CUMEM",
    b"NET/IB/0",
    b"[send]",
    b"Ring ",
    b"Trees ",
    b"[0] 1/-1/-1->0->-1",
    b"Tree 0 : ",
    b"Pattern ",
    b"=== System : maxBw 1.2 totalBw 3 ===",
    b"+ PCI[12.0] - GPU/0-60 (0)",
    b"CPU/0-0 (1/1/3)",
    b"GPU/0-60 :GPU/0-60 (0/5000.0/LOC)",
    b"=====",
    b"comm 0x1 rank 0 nRanks 4 nNodes 1 localRanks 4 localRank 0 MNNVL 0",
    b"AllReduce |",
    b"    1.0/  2.0 |",
    b"Algorithm | Tree |",
    b"99999999999999999999",
    b"-1",
    b"|",
    b" 0 : GPU/0-60",
    b"\x1b[31m",
    b"\r",
    b"\x00",
    b"\xff\xfe",
    b"[/red]",
    b"NCCL_X set by environment to ",
    b".",
    b"1e999",
    b"ncclCommInitRank comm 0x1 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId ffffffffffffffff "
    b"commId 0x1 - Init START",
    b" - Init START",
    b"24 coll channels, 0 collnet channels, 0 nvls channels, 3 p2p channels, 1 p2p"
    b" channels per peer",
    b"NCCL WARN ",
    b"NCCL version 2.",
    b"cudaDriverVersion ",
    b"Init timings",
]


def check(data: bytes) -> None:
    log = read_log(io.BytesIO(data), signs=known_signs())
    msgspec.json.encode(log)
    assert sum(log.kinds.values()) >= log.library_lines
    for note in (*log.notes, *log.unread, *log.unknown):
        assert len(note.text) <= 400
        assert note.text.isprintable() or "�" in note.text
    read = examine(log, None)
    msgspec.json.encode(answer_about(read).document())
    for width in (20, 78):
        assert "".join(texts(log_page(read).blocks, width)).isprintable()
    assert len(entries(read)) >= 1


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(b"".join), max_size=12))
def test_lines_of_any_parts(texts: list[bytes]) -> None:
    check(b"\n".join(HEAD + text for text in texts))


@given(
    st.lists(
        st.tuples(st.integers(0, len(LINES) - 1), st.integers(0, 200), st.booleans()), max_size=60
    )
)
def test_cut_and_spliced_lines(picks: list[tuple[int, int, bool]]) -> None:
    data = b""
    for index, length, whole in picks:
        data += (LINES[index] + b"\n") if whole else LINES[index][:length]
    check(data)


@given(st.integers(0, 40_000), st.integers(0, 40_000))
def test_a_log_cut_anywhere(first: int, last: int) -> None:
    check(b"\n".join(LINES)[first : first + last])


@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    check(data)
    with suppress(LogUnreadable):
        check(b"\x1f\x8b" + data)


def test_endless_lines_and_bombs_stay_small() -> None:
    check(b"x" * 3_000_000)
    check(HEAD + b"Channel " + b"0" * 3_000_000 + b"\n" + LINES[10])
    check(gzip.compress(HEAD + b"GPU/0-60 :" + b"GPU/0-60 (0/1.0/LOC) " * 500_000))
    check(b"".join(HEAD + b"NCCL_%d set by environment to 1.\n" % n for n in range(10_000)))
    check(b"".join(HEAD + b"unknownword%d\n" % n for n in range(60_000)))


SYSTEM = [
    b"CPU/0-0 (1/1/3)", b"CPU/0-1 (1/2/-1)", b"CPU/0-ffffffffffffff (1/1/4)",
    b"+ PCI[48.0] - GPU/0-60 (0)", b"+ PCI[24.0] - GPU/0-70 (1)", b"+ PCI[0.0] - GPU/0-60 (0)",
    b"+ PCI[48.0] - PCI/0-a0000 (1000c0301000ffff)", b"              + PCI[48.0] - GPU/0-80 (2)",
    b"              + NVL[370.8] - NVS/0-0", b"              + NVL[40.0] - GPU/0-70",
    b"              + NVL[0.0] - CPU/0-0", b"+ PCI[5000.0] - NIC/0-0",
    b"                + NET[1.2] - NET/0-0 (0/0/0/1.250000)", b"+ SYS[22.0] - CPU/0-1",
    b"+ C2C[300.0] - CPU/0-0", b"+ PCI[48.0] - DEV/0-90 (2330)",
    b"              + LOC[5000.0] - GPU/0-90", b"+ PCI[99999999.9] - NIC/0-ffffffffffffffff",
    b"+ PCI[12.0] - GPU/0-60 (99999)", b"+ XGMI[48.0] - GPU/0-70",
    b"              + XGMI[48.0] - GPU/0-70", b"GPU/0-60 :GPU/0-70 (2/48.0/PHB)",
]  # fmt: skip
START = b"ncclCommInitRank comm 0x1 rank 0 nranks %d cudaDev 0 nvmlDev 0 busId 60 commId 0x1"


@given(st.lists(st.sampled_from(SYSTEM), max_size=14), st.integers(1, 4), st.integers(0, 3))
def test_any_system_block_is_compared_or_refused(
    block: list[bytes], nranks: int, environment: int
) -> None:
    wild = (b"", b"NCCL_P2P_LEVEL set by environment to LOC", b"NCCL_ALGO set by environment to x",
            b"NCCL_MAX_NCHANNELS set by environment to -7.")  # fmt: skip
    lines = [
        START % nranks + b" - Init START",
        wild[environment],
        b"=== System : maxBw 48.0 totalBw 48.0 ===",
        *block,
        b"==========================================",
        b"Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
    ]
    check(b"\n".join(HEAD + line for line in lines))
