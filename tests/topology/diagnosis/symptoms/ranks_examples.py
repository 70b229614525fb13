"""Lines in which ranks or hosts differ, and lines that look alike and are innocent."""

from __future__ import annotations

A = "node1:11:11 [0] NCCL INFO "
B = "node1:12:12 [1] NCCL INFO "
C = "node2:11:11 [0] NCCL INFO "
START = "Bootstrap: Using eth0:192.0.2.2<0>"
TREES = "Trees [0] -1/-1/-1->{rank}->-1"
WATCHDOG = (
    "[rank{rank}]:[E1122 ProcessGroupNCCL.cpp:2303] [PG ID 0 PG GUID {group}(pg) Rank {rank}]  "
)
STATUS = WATCHDOG + (
    "failure detected by watchdog at work sequence id: {last} PG status: last enqueued work: "
    "{last}, last completed work: {done}"
)
WORK = (
    "[rank{rank}]:[E1122 ProcessGroupNCCL.cpp:689] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum={last}, OpType={op}, NumelIn={size}, NumelOut={size}, "
    "Timeout(ms)=600000) ran for 600011 milliseconds before timing out."
)
GDR = "NET/IB : GPU Direct RDMA {} for HCA {} 'mlx5_{}'"
FAILED = "node1:12:12 [1] proxy.cc:1470 NCCL WARN Cuda failure 1 'invalid argument'"


def init(head: str, rank: int, stage: str = "COMPLETE") -> str:
    return (
        f"{head}ncclCommInitRank comm 0x{rank}a rank {rank} nranks 2 cudaDev {rank} "
        f"nvmlDev {rank} busId {rank + 6}0 commId 0xc - Init {stage}"
    )


def whole(*extra: str, second: str = B) -> list[str]:
    """Two ranks from their first line to the last of initialisation, with more lines between."""
    ranks = ((A, 0), (second, 1))
    return [
        *(head + START for head, _ in ranks),
        *(init(head, rank, "START") for head, rank in ranks),
        *extra,
        *(head + TREES.format(rank=rank) for head, rank in ranks),
        *(init(head, rank) for head, rank in ranks),
    ]


def status(rank: int, last: int, done: int, group: int = 0) -> str:
    return STATUS.format(rank=rank, last=last, done=done, group=group)


def work(rank: int, last: int, op: str = "ALLREDUCE", size: int = 8) -> str:
    return WORK.format(rank=rank, last=last, op=op, size=size)


"""Row -> lines that prove it."""

INNOCENT: dict[str, tuple[str, list[str]]] = {
    "a variable that both ranks have": (
        "ranks-disagree",
        [
            *whole(
                A + "NCCL_P2P_DISABLE set by environment to 1",
                B + "NCCL_P2P_DISABLE set by environment to 1",
            ),
            FAILED,
        ],
    ),
    "a rank whose first lines are not in the text": (
        "ranks-disagree",
        [
            B + START,
            init(A, 0),
            B + "NCCL_P2P_DISABLE set by environment to 1",
            A + TREES.format(rank=0),
            B + TREES.format(rank=1),
            init(B, 1),
            FAILED,
        ],
    ),
    "a rank that came not so far": (
        "ranks-disagree",
        [
            A + START,
            B + START,
            init(A, 0, "START"),
            init(B, 1, "START"),
            B + "NCCL_P2P_DISABLE set by environment to 1",
            B + TREES.format(rank=1),
            FAILED,
        ],
    ),
    "two devices of one process": (
        "environment-differs",
        [
            line.replace("node1:12:12", "node1:11:11")
            for line in whole(A + "NCCL_ALGO set by environment to Ring")
        ],
    ),
    "an interface that one host names": (
        "environment-differs",
        whole(A + "NCCL_SOCKET_IFNAME set by environment to ib0", second=C),
    ),
    "a script that tries both": ("environment-differs", ["NCCL_ALGO=Ring", "NCCL_ALGO=Tree"]),
    "groups that are not equally far": (
        "rank-behind",
        [status(0, 7, 6, group=1), status(1, 3, 2, group=2)],
    ),
    "ranks that are equally far": ("rank-behind", [status(0, 7, 6), status(1, 7, 6)]),
    "collectives with other numbers": ("collectives-differ", [work(0, 7), work(1, 8, "BROADCAST")]),
    "a scatter of unequal parts with one operation": (
        "collectives-differ",
        [work(0, 7), work(1, 7)],
    ),
    "all ranks destroy their communicator": (
        "rank-left",
        [
            *whole(),
            A + "comm 0x0a rank 0 nranks 2 cudaDev 0 busId 60 - Destroy COMPLETE",
            B + "comm 0x1a rank 1 nranks 2 cudaDev 1 busId 70 - Destroy COMPLETE",
        ],
    ),
    "a second port without GPUDirect on the same host": (
        "gdr-on-some-hosts",
        [
            A + GDR.format("Enabled", 0, 0),
            A + GDR.format("Disabled", 1, 1),
            C + GDR.format("Enabled", 0, 0),
        ],
    ),
    "a connection that both hosts use with GPUDirect": (
        "gdr-on-some-hosts",
        [
            A + "Channel 00 : 0[7000] -> 8[7000] [send] via NET/IB/1/GDRDMA",
            C + "Channel 00 : 0[7000] -> 8[7000] [receive] via NET/IB/0/GDRDMA",
        ],
    ),
    "a receiver with GPUDirect and a sender without it, as GPUs before Ampere are": (
        "gdr-on-some-hosts",
        [
            "9[1a000] -> 2[6b000] [send] via NET/IB/0",
            "9[1a000] -> 2[6b000] [receive] via NET/IB/1/GDRDMA",
        ],
    ),
    "a job that uses no adapter": (
        "gdr-disabled",
        [A + GDR.format("Disabled", 0, 0), A + "Channel 00 : 0[0] -> 1[1] via P2P/CUMEM"],
    ),
    "one network everywhere": ("networks-differ", [A + "Using network IB", C + "Using network IB"]),
    "two networks on both hosts": (
        "networks-differ",
        [
            head + text
            for head in (A, C)
            for text in ("Using network IB", "Using network AWS Libfabric")
        ],
    ),
    "a host id for each host": (
        "host-ids-split",
        [A + "NCCL_HOSTID set by environment to one", C + "NCCL_HOSTID set by environment to two"],
    ),
    "one host id on one host": (
        "host-id-shared",
        [A + "NCCL_HOSTID set by environment to one", B + "NCCL_HOSTID set by environment to one"],
    ),
    "a launcher that ends ranks": (
        "rank-killed",
        ["torch/distributed/elastic/multiprocessing/api.py:1012] Sending process 7 SIGTERM"],
    ),
    "an exception that the program catches": (
        "program-failed",
        ["step 12: ValueError: bad batch, skipped (torch)"],
    ),
}
"""What it is -> the row that it must not prove, and the lines."""
