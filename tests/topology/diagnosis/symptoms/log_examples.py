"""One line, or a few, for rows of the table of symptoms: as NCCL, RCCL and plugins print them."""

from __future__ import annotations

N = "n1:11:11 [0] "

LIBRARY = {
    "shm-attach-missing": "misc/shmutils.cc:129 NCCL WARN Error while attaching to shared memory "
    "segment /dev/shm/nccl-glnlGK (size 14156128), error: No such file or directory (2)",
    "shm-failed": "misc/shmutils.cc:114 NCCL WARN Error while creating shared memory segment "
    "/dev/shm/nccl-NzwJ7O (size 9637888)",
    "cuda-alloc-failed": "include/alloc.h:57 NCCL WARN Failed to CUDA calloc async 608 bytes",
    "no-kernel-image": "init.cc:57 NCCL WARN Cuda failure 'no kernel image is available for "
    "execution on the device'",
    "cuda-ecc": "init.cc:57 NCCL WARN Cuda failure 214 'uncorrectable ECC error encountered'",
    "cuda-compat": "init.cc:57 NCCL WARN Cuda failure 804 'forward compatibility was attempted on "
    "non supported HW'",
    "driver-mismatch": "misc/nvmlwrap.cc:57 NCCL WARN nvmlInit_v2() failed: Driver/library version "
    "mismatch",
    "nvml-missing": "misc/nvmlwrap.cc:57 NCCL WARN Failed to open libnvidia-ml.so.1",
    "cuda-library-missing": "misc/cudawrap.cc:57 NCCL WARN Failed to find CUDA library "
    "(NCCL_CUDA_PATH='') : libcuda.so.1: cannot open shared object file",
    "comm-id-bad": "bootstrap.cc:57 NCCL WARN Invalid NCCL_COMM_ID, please use format: "
    "<ipv4>:<port> or [<ipv6>]:<port> or <hostname>:<port>",
    "listen-failed": "misc/socket.cc:57 NCCL WARN Call to bind failed : Address already in use",
    "bootstrap-rank-twice": "bootstrap.cc:131 NCCL WARN Bootstrap Root : rank 1 of 8 ranks has "
    "already checked in",
    "too-many-threads": "proxy.cc:57 NCCL WARN Call to pthread_create failed: Resource temporarily "
    "unavailable",
    "host-memory": "include/alloc.h:57 NCCL WARN Failed to malloc 4096 bytes",
    "ib-registration-refused": "misc/ibvwrap.cc:57 NCCL WARN Call to ibv_reg_mr_iova2 failed with "
    "error Bad address",
    "ib-device-denied": "transport/net_ib.cc:57 NCCL WARN NET/IB : Unable to open device mlx5_3",
    "ofi-device-failed": "create_nccl_ofi_component:459 NCCL WARN NET/OFI Couldn't open AV. "
    "RC: -22, ERROR: Invalid argument",
    "ofi-request-failed": "ofi_process_cq:1025 NCCL WARN NET/OFI Request 0x7f completed with "
    "error. RC: 21. Error: unknown error",
    "buffer-on-other-gpu": "enqueue.cc:57 NCCL WARN AllReduce : sendbuff allocated on device 1 "
    "mismatchs with NCCL device 0",
    "call-refused": "misc/argcheck.cc:57 NCCL WARN Broadcast : invalid root 9 (root should be in "
    "the 0..8 range)",
    "comm-misused": "misc/argcheck.cc:57 NCCL WARN Error: corrupted comm object detected",
    "topology-unreadable": "graph/xml.cc:332 NCCL WARN Could not find real path of "
    "/sys/class/pci_bus/0000:01/../../0000:01:00.0",
    "link-one-way": "graph/paths.cc:88 NCCL WARN Failed to find reverse path from remNode "
    "0/200000 nlinks 3 to node 0/700000",
    "no-verbs": "misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
    "collnet-unavailable": "transport/coll_net.cc:57 NCCL WARN Cannot initialize CollNet, using "
    "point-to-point network instead",
    "collnet-types": "sharp_plugin.c:382 NCCL WARN SHARP int8,uint8,bfloat16 Datatypes not "
    "supported",
    "rccl-amd-smi-unused": "/long/path/src/misc/amdsmi_wrap.cc:214 NCCL WARN RCCL_USE_AMD_SMI_LIB "
    "not set, but HIP_FABRIC_API is defined.",
    "rccl-gpus-hidden": "/long/path/src/misc/alt_rsmi.cc:653 NCCL WARN Could not read node # 4",
    "proxy-echo": "proxy.cc:1519 NCCL WARN [Proxy Service 0] Failed to execute operation Connect "
    "from rank 0, retcode 2",
}

EXAMPLES: dict[str, list[str]] = {
    **{ident: [N + line] for ident, line in LIBRARY.items()},
    "taken-down": [
        "[rank4]:[E602 ProcessGroupNCCL.cpp:698] [Rank 4] To avoid data inconsistency, we are "
        "taking the entire process down."
    ],
    "nvlink-unequal": [
        N + "NCCL INFO ncclCommInitRank comm 0xa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 "
        "commId 0xc - Init START",
        N + "NCCL INFO === System : maxBw 370.8 totalBw 370.8 ===",
        N + "NCCL INFO CPU/0-0 (1/1/3)",
        N + "NCCL INFO + PCI[48.0] - GPU/0-60 (0)",
        N + "NCCL INFO               + NVL[370.8] - NVS/0-0",
        N + "NCCL INFO + PCI[48.0] - GPU/0-70 (1)",
        N + "NCCL INFO               + NVL[185.4] - NVS/0-0",
        N + "NCCL INFO ==========================================",
    ],
    "init-stuck": [
        N + "NCCL INFO ncclCommInitRank comm 0xa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 "
        "commId 0xc - Init START",
        "n2:7:8 [0] NCCL INFO ncclCommInitRank comm 0xb rank 1 nranks 2 cudaDev 0 nvmlDev 0 "
        "busId 60 commId 0xc - Init START",
    ],
    "reported-by-framework": [
        "RuntimeError: NCCL error in: /pytorch/c10d/ProcessGroupNCCL.cpp:410, unhandled cuda "
        "error, NCCL version 2.4.8"
    ],
}

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
