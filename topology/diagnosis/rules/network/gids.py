"""The GID that NCCL_IB_GID_INDEX asks for, against those that the ports have."""

from __future__ import annotations

from ....model.severity import NOTICE
from ....model.surroundings import RdmaDevice, RdmaPort
from ...case import Case
from ...rule import Found, Proof, Rule

INDEX = "NCCL_IB_GID_INDEX"
_SHOWN = 4
_LISTED = "show_gids"


def _check(case: Case) -> Found:
    ports = [(nic, port) for nic in case.machine.rdma for port in nic.ports if port.gids]
    if not ports:
        return None
    value, source = case.variables.get(INDEX, ("", ""))
    if not value.strip().isdecimal():
        return []  # unset or -1: the library looks for one itself
    index = int(value)
    wrong = [(nic, port, why) for nic, port in ports if (why := _wrong(port, index))]
    if not wrong:
        return []
    names = ", ".join(dict.fromkeys(nic.name for nic, _, _ in wrong[:_SHOWN]))
    return GIDS.finding(
        NOTICE,
        f"{INDEX}={index} does not fit {names}",
        devices=[nic.address for nic, _, _ in wrong if nic.address],
        evidence=[
            (INDEX, value, source),
            *(_evidence(nic, port, why) for nic, port, why in wrong[:_SHOWN]),
        ],
        impact="A connection by a GID that is not there fails, and one by v1 or by an "
        "address of the link alone reaches only the same Ethernet segment: jobs over several "
        "nodes hang or end. Jobs inside this node do not need it.",
        fix=[
            f"Let the library look for a GID of RoCE v2 (from 2.21 on). $ unset {INDEX}",
            "Compare with the other hosts. $ show_gids",
        ],
    )


def _wrong(port: RdmaPort, index: int) -> str:
    """Why the index is no good for a port; "" where it is."""
    chosen = next((gid for gid in port.gids if gid.index == index), None)
    if chosen is None:
        return "no such index in the list"
    routed = [gid for gid in port.gids if gid.version == "v2" and not _local(gid.gid)]
    if not routed or chosen in routed:
        return ""  # nothing better is there
    return f"{chosen.version}, {chosen.gid}"


def _local(gid: str) -> bool:
    return gid.lower().startswith("fe80")


def _evidence(nic: RdmaDevice, port: RdmaPort, why: str) -> Proof:
    better = [str(gid.index) for gid in port.gids if gid.version == "v2" and not _local(gid.gid)]
    beside = f"; v2 with an address: {', '.join(better[:8])}" if better else ""
    return (f"port {port.port} of {nic.name}", why + beside, _LISTED)


GIDS = Rule(
    id="gid-index",
    title="an index of GIDs that does not fit the ports",
    evidence=f"{INDEX}, and the list of GIDs of each port",
    disproof="a line of `show_gids` for this index with v2 and an address",
    sources=("NVIDIA/nccl#426", "NCCL src/transport/net_ib: ncclIbGetGidIndex"),
    check=_check,
    without_gpus=True,
)
RULES = (GIDS,)
