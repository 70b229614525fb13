"""Lines without the head of a debug log, one or a few for each row of outside.toml."""

from __future__ import annotations

XID = "[ 9181.2] NVRM: Xid (PCI:0000:9b:00): "

OUTSIDE: dict[str, list[str]] = {
    "xid-bus": [XID + "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."],
    "xid-nvlink": [XID + "145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008)"],
    "xid-memory": [XID + "94, pid=1234, name=python3, Contained ECC error"],
    "xid-remap": [XID + "63, pid=1, name=python, Row Remapper: New row marked for remapping"],
    "xid-gsp": [XID + "119, pid=10200, name=NvmlTaskRunner, Timeout after 45s of waiting for RPC"],
    "xid-program": [XID + "31, pid=77, name=python, Ch 00000008, MMU Fault: ENGINE GRAPHICS"],
    "xid-access": [XID + "137, RLW_RXPIPE interrupt hit on link 11 on GPU0: PRIV Error"],
    "xid-stream": [XID + "32, pid=9, name=python, Channel ID 0000001a intr0 00040000"],
    "xid-other": [XID + "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset)"],
    "xid-cleanup": [XID + "45, pid=1818990, name=python3, Ch 00000001"],
    "diag-p2p": ["NCCL DIAG [INFO] p2p: only 52/56 GPU-to-GPU peer accesses passed verification"],
    "diag-nvlink": ["[INFO] NVLink: inactive link(s) on rank(s) {2} across 4 ranks in comm 0x5fa3"],
    "diag-ecc": [
        "[INFO] ECC: uncorrected volatile errors on rank(s) {1} (worst=3) across 8 ranks in comm "
        "0x5fa3"
    ],
    "diag-differs": [
        "[INFO] NCCL environment: mismatch across 8 ranks in comm 0x5fa3 for NCCL_ALGO"
    ],
    "diag-pci": [
        "n1:24 NCCL DIAG [INFO] rdma_topo check: failed on rank(s) {0,1} across 2/2 ranks in comm "
        "0x5fa3; first rank 0 exit 1: ACS"
    ],
    "diag-net": [
        "node0:24563 NCCL DIAG [INFO] net bw: cross-nic rank 3 (node0): 265.1 Gbit/s, >30% off "
        "median 391.5 Gbit/s in comm 0x7a3f9b2c41d05e88"
    ],
    "analysis-not-joined": ["missing ranks: {3, 4}"],
    "analysis-differs": ["Collective sequence number: 12 has errors"],
    "analysis-entry": ["collective: nccl:all_reduce"],
    "analysis-without-dumps": ["AssertionError: Missing dump files from ranks {3}"],
    "symbol-missing": ["ImportError: libtorch_cuda.so: undefined symbol: ncclCommRegister"],
    "nccl-library-missing": [
        "ImportError: libnccl.so.2: cannot open shared object file: No such file or directory"
    ],
    "master-address-garbled": [
        "[W socket.cpp:601] [c10d] The IPv6 network addresses of (/root/a.bashrc, 45458) cannot be "
        "retrieved (gai error: -3 - Temporary failure in name resolution)."
    ],
    "remote-error-unsaid": [
        "RuntimeError: NCCL error in: ../ProcessGroupNCCL.cpp:1333, remote process exited or there "
        "was a network error, NCCL version 2.18.6"
    ],
    "bus-error": ["  traceback : Signal 7 (SIGBUS) received by PID 986"],
    "semaphore-refused": ["    sl = self._semlock = _multiprocessing.SemLock("],
    "disk-full": ["OSError: [Errno 28] No space left on device"],
    "cuda-205": ["RuntimeError: CUDA error: mapping of buffer object failed"],
    "cuda-500": ["n1: failed call to cuInit: CUDA_ERROR_NOT_FOUND: named symbol not found"],
    "nvlink-uncorrectable": [
        "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution"
    ],
    "program-out-of-memory": [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"
    ],
    "store-timeout": [
        "torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving "
        "ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: "
        "Socket Timeout"
    ],
    "rendezvous-failed": [
        "[E socket.cpp:957] [c10d] The client socket has timed out after 60s while trying to "
        "connect to (10.0.0.1, 29500)."
    ],
    "rendezvous-port-taken": [
        "[W socket.cpp:426] [c10d] The server socket has failed to listen on any local network "
        "address."
    ],
    "barrier-device-unknown": [
        "[rank0]:[W ProcessGroupNCCL.cpp:1850] [PG 0 Rank 0] using GPU 0 to perform barrier as "
        "devices used by this process are currently unknown."
    ],
    "socket-wrong-type": ["misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3"],
    "hip-no-code": ["hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"],
    "hip-crashed": [
        "Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f. Reason: Unknown."
    ],
    "cuda-unknown": ["Test CUDA failure common.cu:730 'unknown error'"],
    "cuda-invalid-argument": [
        "n1:1:2 [0] transport.cc:154 NCCL WARN Cuda failure 'invalid argument'"
    ],
    "imex-session-taken": ["Failed to allocate Imex session on GPU 0: NV_ERR_IN_USE"],
    "fabric-manager-version": [
        "n1 nv-fabricmanager[4230]: fabric manager NVIDIA GPU driver interface version 550.127.05 "
        "don't match with driver version 550.120. Please update with matching NVIDIA driver."
    ],
    "fabric-manager-idle": [
        "request to query NVSwitch device information from NVSwitch driver failed with error:"
        "WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"
    ],
    "loader-shm-full": [
        "RuntimeError: DataLoader worker (pid(s) 325) is killed by signal: Bus error. It is "
        "possible that dataloader's workers are out of shared memory."
    ],
    "loader-killed": ["RuntimeError: DataLoader worker (pid 8439) is killed by signal: Killed."],
    "gloo-unreachable": [
        "RuntimeError: Gloo connectFullMesh failed with [transport/tcp/pair.cc:144] no error"
    ],
    "peer-access-missing": [
        "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:307 'peer access is not "
        "supported between these two devices'"
    ],
    "kernel-needs-too-much": [
        "n1:1:2 [0] NCCL INFO ncclMaxSharedMem 82240 exceeds device/fn maxSharedMem 79856"
    ],
}
