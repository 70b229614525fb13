"""The reader for each kind of line, found by its first word: a line costs one look-up."""

import re
from collections.abc import Callable

from .building import Process
from .gathering import GatheredLog
from .graph_lines import (
    on_channel,
    on_node,
    on_number,
    on_pattern,
    on_ring,
    on_rule,
    on_tree,
    on_trees,
)
from .init_lines import on_check, on_comm, on_connected, on_init, on_timings
from .setting_lines import (
    on_bootstrap,
    on_config,
    on_driver,
    on_invalid,
    on_network,
    on_variable,
    on_version,
)
from .tuning_lines import on_algorithms, on_collective, on_old_columns

Reader = Callable[[GatheredLog, Process, bytes, int], "str | None"]
"""Returns the kind of the line; None when it cannot read a line that it should."""


def remark(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Keep the line unchanged."""
    log.note("INFO", process, text, line)
    return "remark"


def _p2p(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Keep `P2P is disabled between ..`; `P2P Chunksize ..` says nothing."""
    if text.startswith(b"P2P Chunksize"):
        return "communicator settings"
    return remark(log, process, text, line)


def _collnet(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `CollNet 00/0 : 0 [send] via COLLNET/..`."""
    return remark(log, process, text, line) and "collnet"


def _topology(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `Topology detection : ..` and `TOPO/NET : ..`: how the library got its topology."""
    log.note("INFO", process, text, line)
    return "detection"


def _mnnvl(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    log.note("INFO", process, text, line)
    return "mnnvl"


def _gdr(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    log.note("INFO", process, text, line)
    return "gdr"


def _nvls(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Keep lines about support and failures, but not those about single buffers."""
    if b"multicast support" in text or b"ailed" in text or b"NVLS comm" in text:
        log.note("INFO", process, text, line)
    return "nvls"


def _failed(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    log.note("INFO", process, text, line)
    return "failure"


def _git_or_version(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `NCCL version ..`; `NCCL git version ..` and similar lines add nothing."""
    if text.find(b"version") >= 0:
        return on_version(log, process, text, line) or "version"
    return remark(log, process, text, line)


def _rccl(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Keep a remark that only RCCL makes: it names the library where no line has the version."""
    if text.find(b"initialized") < 0 or b"rsmi" in text:
        log.is_rccl()
    log.note("INFO", process, text, line)
    return "remark"


def _plugin(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    """Read `NET/Plugin : No plugin found (librccl-net.so)` and similar lines."""
    if text.find(b"librccl") >= 0:
        log.is_rccl()
    return remark(log, process, text, line)


def _could_not(log: GatheredLog, process: Process, text: bytes, line: int) -> str | None:
    log.note("INFO", process, text, line)
    return "failure" if b"P2P" in text or b"path for pattern" in text else "detection"


WORDS: dict[bytes, str | Reader] = {
    **dict.fromkeys((b"Connected",), on_connected),
    **dict.fromkeys((b"New", b"Queuing", b"ProxyCall", b"ncclPollProxyResponse"), "proxy"),
    **dict.fromkeys((b"recvConnect", b"sendConnect", b"proxyProgressAsync", b"Received"), "proxy"),
    **dict.fromkeys((b"proxyUDSRecvReq::ncclProxyMsgGetFd", b"resp.opId"), "proxy"),
    **dict.fromkeys((b"UDS", b"UDS:", b"[Proxy", b"[Service", b"[Progress"), "proxy"),
    **dict.fromkeys((b"Imported", b"Allocated", b"CUMEM", b"MMAP", b"unlink"), "memory"),
    **dict.fromkeys((b"Mem", b"MemManager:", b"Cleanup", b"Symmetric"), "memory"),
    **dict.fromkeys((b"register", b"Skipping", b"Proxy", b"rank"), "registration"),
    **dict.fromkeys((b"RAS", b"Continuing"), "ras"),
    **dict.fromkeys((b"Diagnostics", b"Diagnostics:"), "diagnostics"),
    **dict.fromkeys((b"threadThresholds", b"CC", b"ncclP2pSchedule:"), "communicator settings"),
    **dict.fromkeys((b"minCTAs", b"maxCTAs", b"nvlsCTAs", b"splitShare"), "communicator settings"),
    **dict.fromkeys((b"collnetEnable", b"CTAPolicy", b"Rank", b"Local"), "communicator settings"),
    **dict.fromkeys((b"Launch", b"Min", b"nranks", b"bootstrapSplit:"), "communicator settings"),
    **dict.fromkeys((b"DEBUG", b"Duplicating", b"Limiting", b"LSA"), "communicator settings"),
    **dict.fromkeys((b"Protocol", b"Max", b"Threads", b"latencyinter"), "tuning"),
    **dict.fromkeys((b"ncclTopoGetCpuAffinity:", b"Setting", b"Affinity"), "affinity"),
    **dict.fromkeys((b"CommRevokeAsync", b"timings:", b"Hostname", b"Kernel", b"Librccl"), "end"),
    b"Channel": on_channel,
    b"Ring": on_ring,
    b"Tree": on_tree,
    b"Trees": on_trees,
    b"Pattern": on_pattern,
    b"===": on_rule,
    b"==========================================": on_rule,
    b"+": on_node,
    b"Paths": "path",
    b"comm": on_comm,
    b"Check": on_check,
    b"Init": on_timings,
    b"Comm": on_config,
    b"Invalid": on_invalid,
    b"Using": on_network,
    b"Bootstrap": on_bootstrap,
    b"NET": on_bootstrap,
    b"Bootstrap:": on_bootstrap,
    b"cudaDriverVersion": on_driver,
    b"hipDriverVersion": on_driver,
    b"NCCL": _git_or_version,
    b"RCCL": _git_or_version,
    b"HIP": _git_or_version,
    b"ROCm": _git_or_version,
    b"Algorithm": on_algorithms,
    b"Latency/AlgBw": on_old_columns,
    b"P2P": _p2p,
    b"CollNet": _collnet,
    b"MNNVL": _mnnvl,
    b"NVLS": _nvls,
    b"Binding": "nvls",
    **dict.fromkeys((b"Topology", b"TOPO/NET", b"ncclTopoPopulateNics", b"Loading"), _topology),
    **dict.fromkeys((b"GPU", b"GDR", b"DMA-BUF", b"GDRCOPY", b"PXN"), _gdr),
    **dict.fromkeys((b"Could", b"Unable", b"Did", b"KV", b"CPUs", b"Widening"), _could_not),
    **dict.fromkeys(
        (b"Failed", b"fallocate:", b"mkstemp:", b"Legacy", b"peer", b"ncclMaxSharedMem"), _failed
    ),
    **dict.fromkeys((b"Cuda", b"Call", b"cuMem", b"CUDA", b"HIP"), _failed),
    **dict.fromkeys((b"Initialized", b"Assigned", b"Successfully", b"External"), remark),
    **dict.fromkeys((b"Unloading", b"Disabling", b"Enabled", b"Net", b"Communicator"), remark),
    **dict.fromkeys((b"User", b"Unrecognized", b"No", b"Stack", b"Warning:", b"ENV:"), remark),
    **dict.fromkeys((b"Connection", b"Queing", b"proxyConnSetupConnect"), "proxy"),
    **dict.fromkeys((b"Set", b"SHM", b"Inserted", b"IPC", b"Unlinking"), "memory"),
    b"hsa_amd_portable_export_dmabuf": "memory",
    b"proxy": "proxy",
    **dict.fromkeys((b"SymCheck:", b"Intrusive", b"Buffer", b"Number", b"Peer"), "registration"),
    **dict.fromkeys((b"ncclCommGrow:", b"ncclCommSuspend:", b"ncclCommResume:"), "end"),
    **dict.fromkeys((b"Tuning", b"algo"), "communicator settings"),
    **dict.fromkeys((b"Cross-clique", b"Detected", b"Communicators"), _mnnvl),
    **dict.fromkeys((b"GDRDMA", b"Dmabuf", b"DMA_BUF", b"Current", b"ROCr", b"GIN"), _gdr),
    **dict.fromkeys(
        (b"NVLink", b"Retrieving", b"Marking", b"Found", b"XML", b"Ignoring"), _topology
    ),
    **dict.fromkeys((b"HINT:", b"Socket", b"Unknown", b"Parsed", b"PARAM:", b"Profiler"), remark),
    **dict.fromkeys((b"socketFinalizeAccept", b"socketFinalizeAccept:", b"Plugin"), remark),
    **dict.fromkeys(
        (b"Not", b"Compute", b"Collnet", b"Clique", b"Loaded", b"dlvsym", b"dlsym", b"Search"),
        remark,
    ),
    **dict.fromkeys((b"Tuner:", b"Opened", b"Closing", b"Assuming", b"Device", b"failed"), remark),
    b"SHARP": remark,
    **dict.fromkeys((b"Clique-based", b"Unexpected", b"latency", b"Coll", b"Enabling"), remark),
    **dict.fromkeys((b"socketProgressOpt:", b"ncclOsSocketProgressOpt:", b"Capping"), remark),
    **dict.fromkeys((b"DMA_BUF_SUPPORT", b"devCommCreate:", b"NET_IB:"), _gdr),
    **dict.fromkeys((b"rocm_smi_lib:", b"initialized", b"GFX9", b"MSCCL:", b"MSCCL++:"), _rccl),
    **dict.fromkeys((b"MSCCL", b"[RINGS]"), _rccl),
    **dict.fromkeys((b"pre-adjustment", b"post-adjustment"), "call"),
}

COLLECTIVES = (
    "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "SendRecv", "Send", "Recv",
    "AlltoAll", "AllToAll", "Gather", "Scatter", "AllToAllv",
)  # fmt: skip
for _name in COLLECTIVES:
    WORDS[_name.encode()] = WORDS[_name.encode() + b":"] = on_collective
WORDS[b"HIP"] = _git_or_version

_NODE = re.compile(rb"(?:GPU|NET|CPU|PCI|NIC|NVS|DEV|CXB|GIN|RMA)/(?:[0-9a-fA-F]+-)?[0-9a-fA-F]+$")
_PLUGIN = re.compile(rb"[\w+-]+/[\w+-]+:?$")
_SOURCE = re.compile(rb"[\w./-]+\.(?:cc|h|cu|cpp|c):\d+$")
_INIT = re.compile(rb"ncclComm\w+$|\[Rank$")
_VARIABLE = re.compile(rb"[NR]CCL_\w+$")


def family(word: bytes) -> str | Reader | None:
    """Find the reader for a first word that varies; None when there is none."""
    if word[:1].isdigit() and word.isdigit():
        return on_number
    if _NODE.match(word):
        return on_node
    if _VARIABLE.match(word):
        return on_variable
    if _INIT.match(word):
        return on_init
    if _SOURCE.match(word):
        return _failed
    if _PLUGIN.match(word):
        return _plugin
    if word.startswith(b"minNChannels:"):
        return "call"
    if word.startswith((b"nvml", b"ncclNvml", b"socket")):
        return remark
    if word.startswith((b"scheduleRma", b"ncclRma")):
        return "call"
    if word.startswith((b"comm:0x", b"[node_id", b"ringGraph->")):
        return "communicator settings"
    if word.startswith(b"==="):
        return on_rule
    if word.startswith((b"proxyConn", b"proxyUDS", b"proxyProgress", b"recvOpId=", b"msccl")):
        return "proxy"
    if word.startswith(b"ncclOsDlopen("):
        return remark
    if word.startswith(b"CONFIG_"):
        return _gdr
    if word.startswith(b"[") and word.endswith(b"]"):
        return "registration"
    return None
