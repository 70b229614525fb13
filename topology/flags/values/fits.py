"""Whether what a value names is there on this node: interfaces, RDMA devices, addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

import msgspec

from ...hardware.terms import terms_of
from ...model.machine import Machine
from ...model.snapshot import NodeSnapshot
from ..catalogue.catalogue import Flag, Here, Names

LIMIT_NAMED = 6
ALL = "all"
_PORTS = re.compile(r":\d+")
TITLES = {
    Names.INTERFACE: ("interface", "interfaces"),
    Names.DEVICE: ("RDMA device", "RDMA devices"),
    Names.PORT: ("network device", "network devices"),
    Names.ADDRESS: ("address", "addresses"),
}


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """What a value leaves of the devices of a node."""

    sentence: str
    """One sentence."""
    fatal: bool = False
    """Whether the library refuses to start because of it."""


def fit(flag: Flag, value: str, snapshot: NodeSnapshot) -> Fit | None:
    """Say what a value leaves here; None where the flag names nothing of a node, or none is known.

    misc/socket.cc:ncclFindInterfaces ends the start when no interface is left;
    transport/net_ib/init.cc:ncclIbInitDevices goes on without InfiniBand.
    """
    here = flag.here
    if here is None or not value or value == ALL:
        return None
    names = _names(here.names, snapshot.machine)
    if not names or (here.exact and not _comparable(here.names, value)):
        return None
    title, titles = TITLES[here.names]
    if here.names is Names.DEVICE and here.exact:
        value = _PORTS.sub("", value)
    left = (whole if here.exact else matching)(value, names)
    lost = _lost(here, value, names)
    if left and not lost:
        if here.names is Names.ADDRESS:
            return Fit(sentence="This node has that address.")
        what = f"On this node it leaves {_named(left)} of {len(names)} {titles}"
        return Fit(sentence=f"{what}{_without_port(here, value, left)}.")
    missing = terms_of(snapshot.machine.gpus).fill(here.missing)
    what = f"names no {title}" if here.exact else f"matches no {title}"
    if lost and left:
        what = f"names {_named(lost)}, which is no {title}"
    sentence = f"It {what} of this node ({_named(names)}): {missing}."
    return Fit(sentence=sentence, fatal=here.fatal)


def _names(names: Names, machine: Machine) -> list[str]:
    """What there is of the kind that a value names."""
    up = [interface for interface in machine.interfaces if interface.up is not False]
    if names is Names.DEVICE:
        return [device.name for device in machine.rdma]
    if names is Names.ADDRESS:
        ips = (ip.split("/")[0] for interface in up for ip in interface.ips)
        return [ip for ip in ips if not ip.startswith(("127.", "::1", "fe80"))]
    found = [interface.name for interface in up]
    if names is Names.PORT:
        ports = ((device, [port.port for port in device.ports] or [1]) for device in machine.rdma)
        found = [f"{device.name}:{number}" for device, all_ in ports for number in all_] + found
    return found


def _comparable(names: Names, value: str) -> bool:
    """Whether whole names say enough: no subnet, no range, no name of a host."""
    if names is Names.ADDRESS:
        try:
            return not ipaddress.ip_address(value).is_unspecified
        except ValueError:
            return False
    return not any(sign in value for sign in "/[")


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


def whole(value: str, names: Iterable[str]) -> list[str]:
    """List the names that a list of whole names leaves: [^]name,...

    A device without its port, mlx5_0, stands for its ports, mlx5_0:1.
    """
    wanted = value.removeprefix("^").split(",")
    without = value.startswith("^")
    return [name for name in names if (name in wanted or _bare(name) in wanted) != without]


def _bare(name: str) -> str:
    """A port's device."""
    return name if "::" in name else name.split(":")[0]


def _lost(here: Here, value: str, names: list[str]) -> list[str]:
    """The words that name nothing, where each must."""
    if not here.every:
        return []
    return [part for part in value.split(",") if not whole(part, names)]


def _without_port(here: Here, value: str, left: Iterable[str]) -> str:
    """Say of a device without its port who understands it."""
    if here.names is not Names.PORT:
        return ""
    bare = [name for name in left if _bare(name) != name and name not in value]
    return f"; before UCX 1.21 it must be written {bare[0]}" if bare else ""


def _named(names: list[str]) -> str:
    more = f" and {len(names) - LIMIT_NAMED} more" if len(names) > LIMIT_NAMED else ""
    return ", ".join(names[:LIMIT_NAMED]) + more
