"""Logs in short to try the screen Log with; made up, two ranks on a host named "demo"."""

from __future__ import annotations

_START = """\
demo:10{n}:10{n} [{n}] NCCL INFO NCCL version 2.28.9+cuda13.0
demo:10{n}:10{n} [{n}] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.2<0>
demo:10{n}:10{n} [{n}] NCCL INFO ncclCommInitRankConfig comm 0x1000{n}0 rank {n} nranks 2 \
cudaDev {n} nvmlDev {n} busId {n}9000 commId 0x8c3601851e19fe33 - Init START
"""
_GOES = """\
demo:10{n}:10{n} [{n}] NCCL INFO comm 0x1000{n}0 rank {n} nRanks 2 nNodes 1 localRanks 2 \
localRank {n} MNNVL 0
"""
_DONE = """\
demo:10{n}:10{n} [{n}] NCCL INFO Channel 00 : {n}[{n}] -> {m}[{m}] via SHM/direct/direct
demo:10{n}:10{n} [{n}] NCCL INFO ncclCommInitRankConfig comm 0x1000{n}0 rank {n} nranks 2 \
cudaDev {n} nvmlDev {n} busId {n}9000 commId 0x8c3601851e19fe33 - Init COMPLETE
"""
_OFF = "demo:10{n}:10{n} [{n}] NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n"
_FULL = """\
demo:10{n}:10{n} [{n}] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-Ab{n} \
to 33030532 bytes, error: No space left on device (28)
"""


def _ranks(*parts: str) -> str:
    return "".join(part.format(n=n, m=1 - n) for part in parts for n in (0, 1))


EXAMPLES = (
    ("P2P switched off by a variable", _ranks(_START, _OFF, _GOES, _DONE)),
    ("shared memory is full", _ranks(_START, _GOES, _FULL)),
    ("rank 1 is missing", _START.format(n=0)),
)
"""What each is about, and its text."""
