"""Variables that the ranks of one job must have in common."""

from collections.abc import Sequence

from ...model.gathered import gathered
from ...model.readings import ProcessReading

PREFIXES = ("NCCL_", "RCCL_")
HANGS = frozenset(
    {
        "NCCL_ALGO",
        "NCCL_BUFFSIZE",
        "NCCL_COLLNET_ENABLE",
        "NCCL_CUMEM_ENABLE",
        "NCCL_CUMEM_HOST_ENABLE",
        "NCCL_LL_BUFFSIZE",
        "NCCL_LL128_BUFFSIZE",
        "NCCL_MAX_CTAS",
        "NCCL_MAX_NCHANNELS",
        "NCCL_MIN_CTAS",
        "NCCL_MIN_NCHANNELS",
        "NCCL_NVLS_ENABLE",
        "NCCL_P2P_DISABLE",
        "NCCL_P2P_LEVEL",
        "NCCL_PROTO",
        "NCCL_SHM_DISABLE",
    }
)
"""A difference in the choice of transport, algorithm, protocol, channels or buffers can hang."""
OWN = (
    "NCCL_DEBUG",
    "NCCL_GRAPH_DUMP",
    "NCCL_HOSTID",
    "NCCL_IB_",
    "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_INSPECTOR",
    "NCCL_NET_MERGE",
    "NCCL_PROFILE",
    "NCCL_RAS_",
    "NCCL_SOCKET_IFNAME",
    "NCCL_TOPO_DUMP",
    "NCCL_VERSION",
    "NCCL_WARN",
)
"""Variables that may differ between ranks: logs and dumps, and the NIC next to a rank's GPU."""


def differing(ranks: Sequence[ProcessReading]) -> dict[str, dict[str | None, list[int]]]:
    """Name -> value (None: not set) -> ranks, of the variables that are not the same everywhere.

    Ranks whose variables may not be read do not count.
    """
    known = [(rank.rank, dict(rank.variables)) for rank in ranks if rank.variables is not None]
    names = {name for _, values in known for name in values if _common(name)}
    found: dict[str, dict[str | None, list[int]]] = {}
    for name in sorted(names):
        by = gathered((values.get(name), -1 if rank is None else rank) for rank, values in known)
        if len(by) > 1:
            found[name] = by
    return found


def _common(name: str) -> bool:
    return name.startswith(PREFIXES) and not name.startswith(OWN)
