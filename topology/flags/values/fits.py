"""Whether a filter of devices matches anything on this node."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...hardware.terms import terms_of
from ...model.snapshot import NodeSnapshot

LIMIT_NAMED = 6


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """What a filter leaves of the devices of a node."""

    sentence: str
    """One sentence."""
    fatal: bool = False
    """Whether the library refuses to start because of it."""


def fit(name: str, value: str, snapshot: NodeSnapshot) -> Fit | None:
    """Say what NCCL_SOCKET_IFNAME or NCCL_IB_HCA leaves here; None for other flags or no devices.

    misc/socket.cc:ncclFindInterfaces ends the start when no interface is left;
    transport/net_ib/init.cc:ncclIbInitDevices goes on without InfiniBand.
    """
    if name == "NCCL_SOCKET_IFNAME":
        return _fit(
            value,
            [
                interface.name
                for interface in snapshot.machine.interfaces
                if interface.up is not False
            ],
            "interface",
            "the start fails with no socket interface found",
            fatal=True,
        )
    if name == "NCCL_IB_HCA":
        return _fit(
            value,
            [device.name for device in snapshot.machine.rdma],
            "RDMA device",
            terms_of(snapshot.machine.gpus).fill("{library} goes on without InfiniBand"),
            fatal=False,
        )
    return None


def matching(value: str, names: Iterable[str]) -> list[str]:
    """List the names that a filter leaves: [^][=]name[:port],... (misc/utils.cc:matchIfList)."""
    without = value.startswith("^")
    body = value.removeprefix("^")
    exact = body.startswith("=")
    wanted = [part.split(":")[0] for part in body.removeprefix("=").split(",")]
    wanted = [part for part in wanted if part]

    def hit(name: str) -> bool:
        return any(name == part if exact else name.startswith(part) for part in wanted)

    return [name for name in names if hit(name) != without]


def _fit(value: str, names: list[str], what: str, otherwise: str, *, fatal: bool) -> Fit | None:
    if not names or not value:
        return None
    left = matching(value, names)
    if left:
        return Fit(sentence=f"On this node it leaves {_named(left)} of {len(names)} {what}s.")
    return Fit(
        sentence=f"It matches no {what} of this node ({_named(names)}): {otherwise}.", fatal=fatal
    )


def _named(names: list[str]) -> str:
    more = f" and {len(names) - LIMIT_NAMED} more" if len(names) > LIMIT_NAMED else ""
    return ", ".join(names[:LIMIT_NAMED]) + more
