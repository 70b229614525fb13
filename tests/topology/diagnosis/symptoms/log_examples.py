"""One line, or a few, for rows of the table of symptoms: as NCCL, RCCL and plugins print them."""

from __future__ import annotations

OTHER_FORMS = {
    "peer-unreachable": (
        "include/socket.h:390 NCCL WARN Connect to 192.0.2.1<21724> failed : Connection refused",
        "misc/socket.cc:57 NCCL WARN Net : Connect to 192.0.2.1<4> failed : No route to host",
        "misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to fe80::1%ib1<17943> failed : "
        "Software caused connection abort",
        "misc/socket.cc:57 NCCL WARN socketPollConnect: Connect to 192.0.2.1<4> returned "
        "111(Connection refused) errno 115(Operation now in progress)",
    ),
    "peer-gone": (
        "include/socket.h:409 NCCL WARN Net : Call to recv from 192.0.2.1<4> failed : Connection "
        "reset by peer",
        "misc/socket.cc:57 NCCL WARN socketProgressOpt: Call to send 192.0.2.1<4> failed : Broken "
        "pipe",
    ),
    "no-interface": (
        "bootstrap.cc:57 NCCL WARN no device found matching eth9, verify NCCL_OOB_NET_IFNAME",
    ),
    "shm-full": (
        "include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
    ),
    "mnnvl-not-working": (
        "mnnvl.cc:57 NCCL WARN MNNVL (cliqueSize 8) is available but not supported on this system. "
        "Check the IMEX configuration.",
    ),
    "ipc-open-failed": (
        "transport/p2p.cu:548 NCCL WARN failed to open CUDA IPC handle : 11 invalid argument",
        "/build/src/transport/p2p.cc:239 NCCL WARN hipIpcGetMemHandle failed : invalid argument",
        "transport/p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'",
    ),
    "cuda-out-of-memory": ("enqueue.cc:57 NCCL WARN HIP failure 'out of memory'",),
    "driver-too-old": (
        "init.cc:57 NCCL WARN Cuda failure 'the provided PTX was compiled with an unsupported "
        "toolchain.'",
    ),
    "no-net-plugin": ("net.cc:57 NCCL WARN Error: network AWS Libfabric not found.",),
    "collective-mismatch": (
        "init.cc:57 NCCL WARN Mismatched collective detected, please check your collective calls "
        "at and around rank 3.",
    ),
}
"""What other versions print for rows that have an example already."""
