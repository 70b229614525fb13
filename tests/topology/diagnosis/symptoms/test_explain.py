from __future__ import annotations

import gzip

import pytest

from gputop.topology.diagnosis.symptoms.explain import (
    check_of,
    explain,
    known_signs,
    table,
    unexplained,
)
from gputop.topology.logs.reading.read import read_log
from tests.support.nccl.logs import lines_of, recorded
from tests.tables import hold
from tests.topology.diagnosis.symptoms.kernel_examples import KERNEL
from tests.topology.diagnosis.symptoms.log_examples import EXAMPLES
from tests.topology.diagnosis.symptoms.outside_examples import OUTSIDE
from tests.topology.diagnosis.symptoms.ranks_examples import DIFFERENT
from tests.topology.diagnosis.symptoms.system_examples import SYSTEM as AROUND

A = "node1:11:11 [0] NCCL INFO "
B = "node1:12:12 [1] NCCL INFO "
C = "node2:11:11 [0] NCCL INFO "
WARN = "node1:11:11 [0] file.cc:12 NCCL WARN "


def init(head: str, rank: int, bus: str = "", stage: str = "COMPLETE", nranks: int = 2) -> str:
    return (
        f"{head}ncclCommInitRank comm 0x{rank}a rank {rank} nranks {nranks} cudaDev {rank} "
        f"nvmlDev {rank} busId {bus or str(rank + 6) + '0'} commId 0xc - Init {stage}"
    )


ONE_HOST = [init(A, 0), init(B, 1)]
TWO_HOSTS = [init(A, 0), init(C, 1)]
IB = "NET/IB : GPU Direct RDMA {} for HCA 0 'mlx5_0'"
SYSTEM = [
    A + "=== System : maxBw 24.0 totalBw 24.0 ===",
    A + "CPU/0-0 (1/1/3)",
    A + "+ PCI[48.0] - NIC/0-a0",
    A + "              + NET[50.0] - NET/0-0 (0/0/0/50.000000)",
    A + "+ PCI[24.0] - GPU/0-60 (0)",
    A + "+ PCI[24.0] - GPU/0-70 (1)",
    A + "+ PCI[12.0] - GPU/0-80 (2)",
    A + "==========================================",
    A + "GPU/0-60 :GPU/0-60 (0/5000.0/LOC) GPU/0-70 (2/10.0/SYS) NET/0-0 (3/24.0/PXB) ",
    A + "GPU/0-70 :GPU/0-60 (2/10.0/SYS) GPU/0-70 (0/5000.0/LOC) NET/0-0 (3/24.0/PXB) ",
]

SHOWN = {
    "shm-full": [
        WARN + "Error: failed to extend /dev/shm/nccl-abcdef to 9637892 bytes, error: No space left"
    ],
    "shm-needs-peer-access": [
        WARN + "Cuda failure 217 'peer access is not supported between these two devices'"
    ],
    "shm-denied": [
        WARN + "Error: failed to create shared memory file /dev/shm/nccl-x, error Permission denied"
    ],
    "cumem-host-fallback": [A + "cuMem host allocations do not appear to be working; falling back"],
    "p2p-off-nvlink": [WARN + "P2P is disabled between NVLINK connected GPUs 0 and 1. This should"],
    "p2p-refused-by-driver": [A + "P2P is disabled between connected GPUs 0 and 1. You can"],
    "mnnvl-not-working": [
        WARN + "MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX"
    ],
    "nvls-multicast-failed": [
        "node1:1:1 [0] transport/nvls.cc:254 NCCL WARN Cuda failure 1 'invalid argument'"
    ],
    "cuda-401": [WARN + "Cuda failure 401 'the operation cannot be performed'"],
    "cuda-800": ["[rank3]: Cuda failure 800 'operation not permitted'"],
    "cuda-802": [WARN + "Cuda failure 802 'system not yet initialized'"],
    "cuda-out-of-memory": [WARN + "Cuda failure 2 'out of memory'"],
    "cuda-crashed": [WARN + "Cuda failure 700 'an illegal memory access was encountered'"],
    "driver-too-old": [WARN + "CUDA Driver version found is 11040. Minimum requirement is 12000"],
    "no-transport": [WARN + "No transport found for rank 0[60] -> rank 1[70]"],
    "no-interface": [WARN + "Bootstrap : no socket interface found"],
    "peer-unreachable": [
        WARN + "socketPollConnect: connect to 192.0.2.9<4> returned Connection timed out, "
        "exceeded error retry count after 35 attempts"
    ],
    "peer-gone": [WARN + "socketProgress: Connection closed by remote peer node2<4>"],
    "ib-completion-error": [
        WARN + "NET/IB: Got completion from peer 192.0.2.9<4> with status=IBV_WC_RETRY_EXC_ERR(12) "
        "opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 req_type=Send"
    ],
    "ib-async-error": [WARN + "NET/IB : mlx5_0:1 async fatal event: port error"],
    "ib-async-notice": [WARN + "NET/IB : mlx5_0:1 GID table changed"],
    "ib-memory-refused": [
        WARN + "NET/IB : Got completion from peer 192.0.2.9<4> with error 4, opcode 1, len 0"
    ],
    "ib-flushed": [
        WARN + "NET/IB : Got completion from peer 192.0.2.9<4> with error 5, opcode 0, len 0"
    ],
    "ib-no-route": [WARN + "Call to ibv_modify_qp failed with error Network is unreachable"],
    "gpu-hidden": [WARN + "nvmlDeviceGetHandleByPciBusId() failed: Not Found"],
    "gpu-unavailable": [WARN + "Cuda failure 101 'invalid device ordinal'"],
    "bootstrap-mismatch": [WARN + "Bootstrap Root : mismatch in rank count from procs 8 : 16"],
    "nets-differ": [
        A + "Detected mixed local Net device counts across ranks (min 7, max 8). Ignoring due to "
        "NCCL_IGNORE_NET_MISMATCH."
    ],
    "ofi-registration-refused": [
        WARN + "NET/OFI Unable to register memory (type = 2) for device 0. RC: -22, "
        "Error: Invalid argument"
    ],
    "peermem-not-loaded": ["nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err 0)"],
    "cuda-not-initialized": ["libcuda.so: cuda driver library init failure: 3"],
    "memlock": [WARN + "Call to ibv_reg_mr failed with error Cannot allocate memory"],
    "open-files": [WARN + "Call to socket failed: Too many open files"],
    "duplicate-gpu": [init(A, 0, "60"), init(B, 1, "60")],
    "version-mismatch": ["NCCL version 2.21.5+cuda12.4", A + "NCCL version 2.28.9+cuda13.0"],
    "collective-mismatch": [WARN + "Message truncated : received 2048 bytes instead of 1024"],
    "watchdog-timeout": [
        "[rank1]:[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE)"
    ],
    "no-algorithm": [WARN + "Error : no algorithm/protocol available for function AllGather"],
    "no-net-plugin": [WARN + "Failed to initialize any NET plugin"],
    "topology-file-missing": [A + "Could not open XML topology file /x.xml : No such file"],
    "dmabuf-registration-full": [
        WARN + "Call to ibv_reg_dmabuf_mr failed with error Cannot allocate memory"
    ],
    "graph-file-other": [WARN + "XML Import Channel : dev 1 not found."],
    "topology-file-bad": [WARN + "XML Topology has wrong version 2, 1 needed"],
    "topology-file-used": [A + "Loading topology file topo.xml"],
    "simple-order": [
        A + "Could not find a path for pattern 4, falling back to simple order",
    ],
    "tuner-plugin": [A + "TUNER/Plugin: Using Example (v4)"],
    "rccl-iommu": [WARN + 'Missing "iommu=pt" from kernel command line which can lead to'],
    "rccl-numa-balancing": [WARN + "NUMA auto balancing enabled which can lead to variability"],
    "rccl-fine-grain": [WARN + 'Missing "HSA_FORCE_FINE_GRAIN_PCIE=1" from environment which'],
    "shm-attach-empty": [
        WARN + "Error while attaching to shared memory segment /dev/shm/nccl-x (size 0), error: x"
    ],
    "ipc-open-failed": [WARN + "cudaIpcGetMemHandle failed : invalid argument"],
    "gdr-off-everywhere": [
        *TWO_HOSTS,
        A + IB.format("Disabled"),
        A + "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0",
    ],
    "gdr-not-used": [
        *TWO_HOSTS,
        A + IB.format("Enabled"),
        A + "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0",
    ],
    "socket-between-hosts": [
        *TWO_HOSTS,
        A + "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
    ],
    "net-inside-host": [*ONE_HOST, A + "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0"],
    "net-inside-host-by-flag": [
        *ONE_HOST,
        A + "NCCL_P2P_DISABLE set by environment to 1",
        A + "NCCL_SHM_DISABLE set by environment to 1.",
        A + "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0",
    ],
    "net-faster-than-gpu-path": [
        *ONE_HOST,
        init(A, 0),
        *SYSTEM,
        A + "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA",
    ],
    "nodes-exceed-hosts": [
        *ONE_HOST,
        A + "comm 0x0a rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0",
    ],
    "shm-by-policy": [
        *ONE_HOST,
        init(A, 0),
        A + "Check P2P Type isAllDirectP2p 0 directMode 0 isAllCudaP2p 1",
        A + "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
    ],
    "p2p-impossible": [
        *ONE_HOST,
        A + "Check P2P Type isAllDirectP2p 0 directMode 0 isAllCudaP2p 0",
    ],
    "nvls-not-available": [
        init(A, 0),
        A + "=== System : maxBw 370.8 totalBw 370.8 ===",
        A + "CPU/0-0 (1/1/3)",
        A + "+ PCI[48.0] - GPU/0-60 (0)",
        A + "              + NVL[370.8] - NVS/0-0",
        A + "NVLS multicast support is not available on dev 0 (NVLS_NCHANNELS 0)",
    ],
    "pci-crippled": [
        init(A, 0),
        A + "=== System : maxBw 0.2 totalBw 0.2 ===",
        A + "CPU/0-0 (1/1/3)",
        A + "+ PCI[0.2] - GPU/0-60 (0)",
    ],
    "pci-unequal": [init(A, 0), *SYSTEM],
    "environment-differs": [
        A + "NCCL_ALGO set by environment to RING",
        C + "NCCL_ALGO set by environment to TREE",
    ],
    "value-refused": [A + "Invalid value true for NCCL_SHM_DISABLE, using default 0."],
    "init-unfinished": [init(A, 0), init(B, 1, stage="START")],
    "nvlink-unused-by-flag": [line.decode() for line in lines_of("h200-p2pdis")],
    "nvlink-unused-unsaid": [
        line.decode() for line in lines_of("h200-p2pdis") if b"NCCL_P2P_DISABLE" not in line
    ],
    "library-hint": [A + "HINT: In many cases this error occurs when ACS is enabled which would"],
    "nvls-off-by-flag": [line.decode() for line in lines_of("h200-default")],
    "test-without-figures": [
        "# nThread 1 nGpus 2 minBytes 8 maxBytes 134217728 step: 2(factor)",
        "#   Rank  0 Pid      7 on node1 device  0 [0x21] NVIDIA RTX A6000",
        "#   Rank  1 Pid      7 on node1 device  1 [0x4a] NVIDIA RTX A6000",
        *ONE_HOST,
        "#       size         count      type   redop     time   algbw   busbw  error",
    ],
    **EXAMPLES,
    **OUTSIDE,
    **DIFFERENT,
    **AROUND,
    **KERNEL,
}


def test_a_symptom_is_found_and_proven() -> None:
    def proven(ident: str) -> None:
        lines = [line.encode() for line in SHOWN[ident]]
        log = read_log(lines, signs=known_signs(), outputs=True)
        found = {finding.id: finding for finding in explain(log)}
        assert ident in found
        assert found[ident].evidence
        for proof in found[ident].evidence:
            assert proof.line is not None
            assert 1 <= proof.line <= len(lines)
            assert proof.what == f"line {proof.line}"
        if len(lines) == 1:
            assert not unexplained(log)

    hold(proven, SHOWN)


def test_work_that_ended_before_a_timeout_is_not_blamed() -> None:
    loading, late = AROUND["long-work"]
    for between in ("step 40 loss 2.1", loading.replace("61%", "100%")):
        log = read_log([line.encode() for line in (loading, between, late)], signs=known_signs())
        assert [finding.id for finding in explain(log)] == ["watchdog-timeout"]


def test_every_row_has_a_test_and_its_parts() -> None:
    assert {row.id for row in table()} == set(SHOWN)
    for row in table():
        assert row.any or row.check, row.id
        assert row.cause
        assert row.look
        assert row.fix
        assert row.sources, row.id
        if row.check is not None:
            assert callable(check_of(row.check))


def test_nothing_is_alarming_about_a_healthy_log() -> None:
    for path in recorded():
        lines = gzip.decompress(path.read_bytes()).splitlines()
        log = read_log(lines, signs=known_signs())
        alarms = {finding.id for finding in explain(log) if finding.severity != "notice"}
        flagged = "P2P_DISABLE" in path.name or path.name in ("h200-p2pdis", "h200-net")
        if not (flagged or "p2pdis" in path.name or "net" in path.name):
            assert not alarms, path.name
        assert not unexplained(log)


@pytest.mark.parametrize(("gbs", "found"), [("0.2", True), ("24.0", False)])
def test_a_slow_link_above_a_bridge_is_found_and_one_without_gpus_is_not(
    gbs: str, found: bool
) -> None:
    lines = [
        init(A, 0),
        A + "=== System : maxBw 48.0 totalBw 48.0 ===",
        A + "CPU/0-0 (1/1/3)",
        A + f"+ PCI[{gbs}] - PCI/0-65000 (104c823200000000)",
        A + "             + PCI[48.0] - GPU/0-68000 (0)",
        A + "+ PCI[0.2] - NIC/0-6c000",
    ]
    (*said,) = explain(read_log([line.encode() for line in lines]))
    proofs = [proof.line for each in said if each.id == "pci-crippled" for proof in each.evidence]
    assert proofs == ([4] if found else [])


def test_worst_first_and_unknown_warnings_stay() -> None:
    log = read_log(
        [
            (A + "Loading topology file x").encode(),
            (WARN + "No transport found for rank 0 -> rank 1").encode(),
            (WARN + "Something that nobody knows").encode(),
        ]
    )
    assert [finding.severity for finding in explain(log)] == ["broken", "notice"]
    assert [note.text for note in unexplained(log)] == ["Something that nobody knows"]


def test_nvlink_without_use_is_not_put_down_to_distance() -> None:
    lines = [line for line in lines_of("h200-p2pdis") if b"NCCL_P2P_DISABLE" not in line]
    assert "shm-by-policy" not in {finding.id for finding in explain(read_log(lines))}
