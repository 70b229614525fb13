"""Names outside the catalogue that some program reads, and that deserve no warning.

Gathered from every release of NCCL from 2.3.5 to 2.30.7 and from RCCL 2.21.5 (all NCCL_PARAM,
RCCL_PARAM, ncclGetEnv and getenv), and from the guides of the plugins named here.
"""

from __future__ import annotations

PLUGINS = {
    "NCCL_CHECKPOINT_": "NCCL's checkpoint library",
    "NCCL_EP_": "NCCL's expert-parallel library",
    "NCCL_FASTRAK_": "Google's TCPXO network plugin",
    "NCCL_GPUDIRECTTCPX_": "Google's TCPX network plugin",
    "NCCL_IBEXT_": "NVIDIA's RDMA and SHARP plugin",
    "NCCL_INSPECTOR_": "NCCL's inspector plugin",
    "NCCL_PLUGIN_": "NVIDIA's RDMA and SHARP plugin",
    "NCCL_PROFILER_CE_": "NCCL's example profiler plugin",
    "NCCL_PROFILE_": "NCCL's example profiler plugin",
    "NCCL_SHARP_": "NVIDIA's RDMA and SHARP plugin",
    "NCCL_SHIMNET_": "Google's network plugin",
    "NCCL_TESTS_": "the nccl-tests programs",
    "NCCL_TUNER_CONFIG_PATH": "Google's tuner plugin",
    "NCCL_UCX_": "NVIDIA's RDMA and SHARP plugin",
}
"""Beginning of a name -> the program that reads such names."""

_UNDOCUMENTED = """
    AGG_ALLOC_MODE AGG_CHANNEL_SIZE CHUNK_SIZE CUDA_PATH DEV_API_JIT ENABLE_VERSION_CHECK
    GDAKI_USE_RELIABLE_DB GDRCOPY_TAIL_ENABLE GIN_CONNECTION_RAIL GIN_COUNTER_POOL_SIZE
    GIN_ERROR_QUERY_SEC GIN_EXCLUSIVE_CONTEXTS GIN_GDAKI_MAX_DEST_RD_ATOMIC
    GIN_GDAKI_MAX_QP_RD_ATOMIC GIN_GDAKI_NIC_HANDLER GIN_GDAKI_QP_DEPTH GIN_IB_TC
    GIN_NCONNECTIONS GIN_NCONTEXTS GIN_PLUGIN_REF_COUNT GIN_PROXY_QUEUE_SIZE GIN_SIGNAL_POOL_SIZE
    IB_MQP_RETRY_ALL IB_MQP_RETRY_CNT IB_MQP_RETRY_SLEEP_MSEC IB_PREPOST_RECEIVE_WORK_REQUESTS
    IB_RECEIVER_SIDE_MATCHING_SCHEME IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS
    IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT
    IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL
    IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE
    IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE
    IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX
    IB_RESILIENCY_PORT_RECOVERY_START_DELAY LSA_TEAM_SIZE
    MLOPART_RDMA_ENABLE NUM_RMA_CTX PROXY_PROFILE RMA_DISABLE
    RMA_PLUGIN_REF_COUNT RMA_PROXY_DUMP_SIGNAL RMA_PROXY_QUEUE_SIZE SHADOW_MEMPOOL_MAX_SIZE
    SHARED_BUFF_COUNT SYM_NOWIN_ENABLE SYM_REUSE_SYSMEM_HANDLES SYM_RS_GIN_CHUNK_SIZE
    SYM_TMA_ENABLE WORK_FIFO_DEPTH
"""
INTERNAL = frozenset(f"NCCL_{name}" for name in _UNDOCUMENTED.split()) | {
    "RCCL_CLIQUE_ALLREDUCE_BYTE_LIMIT",
    "RCCL_CLIQUE_ALLREDUCE_NCHANNELS",
    "RCCL_MSCCL_FORCE_FULLOPS",
    "RCCL_MSCCL_WORK_FIFO_DEPTH",
}
"""Undocumented names that a release of the library reads, mostly for its own tests."""


def elsewhere(name: str) -> str:
    """Say in a clause who reads a name outside the catalogue; "" when no reader is known."""
    if name in INTERNAL:
        return "read by some releases of the library, which do not document it"
    reader = next((who for start, who in PLUGINS.items() if name.startswith(start)), "")
    return f"read by {reader}, not by the library itself" if reader else ""
