"""Lines of UCX, NIXL, NVSHMEM, DeepEP, Gloo and libfabric, as users posted or UCX printed them."""

from __future__ import annotations

import pytest

from gputop.topology.diagnosis.mechanism.decode import decode
from gputop.topology.diagnosis.symptoms.explain import known_signs
from gputop.topology.diagnosis.symptoms.log import ReadLog, examine
from gputop.topology.logs.reading.read import read_log

HEAD = "[1647516906.396315] [node1:82049:0]"
DECODED = [
    # ucx 8049, 8958, 9213, 4224; sglang 27894; nixl 177, 1983, 1628; DeepEP 55; nvshmem 33
    (
        f"{HEAD}  ib_md.c:349  UCX  ERROR ibv_reg_mr(address=0x7f, length=4096, access=0xf) "
        "failed: Bad address",
        *("UCX", "EFAULT", "register memory with the NIC"),
    ),
    (
        f"{HEAD}  ucp_mm.c:164  UCX  ERROR failed to register address 0x7f724fa00000 mem_type bit "
        "0x2 length 4096 on md[5]=mlx5_0: Input/output error (md reg_mem_types 0x3)",
        *("UCX", "UCS_ERR_IO_ERROR", "register memory with the NIC"),
    ),
    (
        "[node1:3549626:0:3549626]  cma_ep.c:84   process_vm_readv(pid=3549634 {0x24ed520,12480}-->"
        "{0x1bd42a0,12480}) returned -1: Operation not permitted",
        *("UCX", "EPERM", "copy from another process's memory (CMA of UCX)"),
    ),
    (
        "cma_ep.c:113  UCX  ERROR process_vm_readv(pid=7 {0x1,2}-->{0x3,2}) returned -1: No such "
        "process",
        *("UCX", "ESRCH", "copy from another process's memory (CMA of UCX)"),
    ),
    (
        f"{HEAD}  mm_posix.c:195  UCX  ERROR open(file_name=/proc/182871/fd/20 flags=0x0) failed: "
        "Permission denied",
        *("UCX", "EACCES", "map another process's shared memory"),
    ),
    (
        f"{HEAD}  mm_ep.c:155  UCX  ERROR mm ep failed to connect to remote FIFO id 0xc0000005: "
        "Shared memory error",
        *("UCX", "UCS_ERR_SHMEM_SEGMENT", "map another process's shared memory"),
    ),
    (
        f"{HEAD}  ib_mlx5_dv.c:452  UCX  ERROR   mlx5dv_devx_obj_create(CQ) failed on mlx5_1, "
        "syndrome 0x2aac7c: Remote I/O error",
        *("UCX", "EREMOTEIO", "make queues or other objects of the NIC"),
    ),
    (
        f"{HEAD}  cuda_ipc_cache.c:220  UCX  ERROR cuIpcOpenMemHandle() failed: invalid argument",
        *(
            "UCX",
            "cudaErrorInvalidValue",
            "map a neighbouring GPU's memory (cuda_ipc, rocm_ipc, smcuda)",
        ),
    ),
    (
        "[node1:82049] pml_ucx.c:860  Error: ucx send failed: Input/output error",
        *("UCX", "UCS_ERR_IO_ERROR", "carry a message"),
    ),
    (
        f"{HEAD}  ucp_ep.c:2100  UCX  ERROR endpoint 0x7f: Connection reset by remote peer",
        *("UCX", "UCS_ERR_CONNECTION_RESET", "carry a message"),
    ),
    (
        "W0717 07:30:06.719567  994396 ucx_enums.cpp:58] Unexpected UCX error: Out of memory",
        *("UCX", "UCS_ERR_NO_MEMORY", "carry a message"),
    ),
    ("nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND", "NIXL", "NIXL_ERR_BACKEND", ""),
    (
        "nixl_cu12._bindings.nixlRemoteDisconnectError: NIXL_ERR_REMOTE_DISCONNECT",
        *("NIXL", "NIXL_ERR_REMOTE_DISCONNECT", "move a KV cache"),
    ),
    (
        "E0717 07:30:06.719655  994396 nixl_agent.cpp:359] createBackend: backend 'UCX' "
        "encountered error during intra-agent transfer setup with status NIXL_ERR_BACKEND",
        *("NIXL", "NIXL_ERR_BACKEND", "move a KV cache"),
    ),
    (
        "/workspace/nvshmem_src/src/host/init/init.cu:989: non-zero status: 7 nvshmem detect topo "
        "failed",
        *("NVSHMEM", "NVSHMEMX_ERROR_INTERNAL", "set up NVSHMEM"),
    ),
    (
        "/dvs/p4/main_nvshmem/src/host/transport/transport.cpp:420: non-zero status: 7 connect EPS "
        "failed",
        *("NVSHMEM", "NVSHMEMX_ERROR_INTERNAL", "set up NVSHMEM"),
    ),
]


@pytest.mark.parametrize(("text", "layer", "code", "does"), DECODED)
def test_a_line_gives_layer_operation_and_code(text: str, layer: str, code: str, does: str) -> None:
    found = decode(text)
    assert found is not None
    assert found.operation is not None
    assert found.code is not None
    assert (found.operation.layer, found.code.name) == (layer, code)
    assert not does or found.operation.does == does
    assert len(found.token) < 60
    # The fix is the program's own: a variable of NCCL changes nothing here.
    assert all("NCCL" not in cause.fix for cause in found.operation.cause)


def read(*lines: str) -> ReadLog:
    return examine(read_log([line.encode() for line in lines], signs=known_signs()), None)


FOUND = [
    # openucx/ucx as it answers here; nixl src; DeepEP 137, internode_ll.cu; DeepEP 202; nvshmem 51
    (
        "[1795747887.800997] [vm:23963:0]  ucp_context.c:1276 UCX  ERROR no usable "
        "transports/devices (asked rc,foo on network:intra-node:accelerator:loopback:)",
        "ucx-nothing-left",
    ),
    (
        "[1795748213.328521] [vm:302  :0]  ucp_context.c:1492 UCX  WARN  network device 'mlx5_0:1' "
        "is not available, please use one or more of: 'eth0'(tcp), 'lo'(tcp)",
        "ucx-asked-missing",
    ),
    (
        "ucp_context.c:1492 UCX  WARN  transports 'rc','foo' are not available, please use one or "
        "more of: cma, mm, posix, self, shm, sm, sysv, tcp",
        "ucx-asked-missing",
    ),
    (
        "parser.c:1558 UCX  ERROR Invalid value for PROTO_ENABLE: 'maybe'. Expected: <y|n>",
        "ucx-value-refused",
    ),
    (
        "ucp_context.c:1577 UCX  ERROR The TLs list is empty. Please specify the transports you "
        "would like to allow/forbid or omit the UCX_TLS so that the default will be used.",
        "ucx-value-refused",
    ),
    (
        "parser.c:1908 UCX  WARN  unused env variables: UCX_TSL,UCX_FOO (set "
        "UCX_WARN_UNUSED_ENV_VARS=n to suppress this warning)",
        "ucx-unused-variable",
    ),
    (
        "DeepEP dispatch forwarder timeout (RDMA meta), channel: 6, RDMA: 1, nvl: 0, src RDMA "
        "lane: 0, dst NVL: 4, meta: 0, 0, 0, 0",
        "deepep-timeout",
    ),
    (
        "Warning: DeepEP timeout for combine receive, rank 3, local_expert_idx 2, src_rank 11",
        "deepep-timeout",
    ),
    ("RuntimeError: DeepEP error: CPU recv timeout", "deepep-timeout"),
    ("WARN: device erdma_0 is not enumerated as an mlx5 device. Skipping...", "nvshmem-not-mlx5"),
]


@pytest.mark.parametrize(("text", "row"), FOUND)
def test_a_line_is_kept_and_has_its_row(text: str, row: str) -> None:
    answer = read(text)
    assert [found.id for found in answer.findings] == [row]
    assert all("NCCL_" not in str(found.fix) for found in answer.findings)


REMARKS = (
    "libfabric:151205:1753871244::core:core:fi_getinfo_():1385<info> fi_getinfo: provider ofi_rxm "
    "returned -61 (No data available)",
    "node1:4073:4073 [0] NVSHMEM INFO [0] status 0 cudaErrorInvalidValue 1 cudaErrorInvalidSymbol "
    "13 cudaErrorInvalidMemcpyDirection 21 cudaErrorNoKernelImageForDevice 209",
    "[1744331142.02] [node1:28:3]  ucp_worker.c:1903 UCX  INFO  cfg#3 rma(rc_mlx5/mlx5_2:1) failed",
    "[1744331142.02] [node1:28:3]  cuda_ipc_md.c:19 UCX  DIAG  cuIpcGetMemHandle() failed: invalid "
    "argument",
    "I0801 15:40:04.429156    1049 nixl_agent.cpp:92] NIXL ETCD is disabled, could not find it",
)


def test_what_they_remark_of_their_work_is_no_failure() -> None:
    for text in REMARKS:
        answer = read(text, "NCCL version 2.28.9+cuda13.0")
        assert (answer.findings, answer.unexplained) == ((), ()) or not answer.findings, text
        assert not answer.unexplained, text


def test_errors_without_words_of_failure_are_quoted_too() -> None:
    text = "E0512 10:23:11.123456  1234 nixl_agent.cpp:613] no common backend to connect with 'd-0'"
    (found,) = read(text).findings
    assert "move a KV cache" in found.title
    assert found.evidence[0].line == 1
