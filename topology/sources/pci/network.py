"""Network interfaces and RDMA devices from /sys/class/net and /sys/class/infiniband.

The raw answer: {"absent": why a missing text is missing, "interfaces": {name: interface},
"rdma": {name: device}, "addresses": {name: ["10.0.0.1/24"]}, "proc/net/route": its text},
texts as in sysfs. An interface holds "path" (below sys/devices), "address", "ifindex", "mtu",
"operstate", "flags", "speed", "type", "uevent", "driver" and "numa_node" of the device behind it.
A device holds "path", "driver", "vendor", "numa_node", "node_guid", "fw_ver", "board_id",
"node_type", "netdevs" (names) and "ports": {"1": {"state", "phys_state", "rate", "link_layer",
"lid"}}. A value is a text or {"error": why}; a key is missing when there is no such file.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from ...model.part import Raw
from ...model.source import Source
from ..files.tree import Tree, answers, live_tree
from .network_devices import parse

NET = "sys/class/net"
RDMA = "sys/class/infiniband"
ROUTES = "proc/net/route"
STATIC = ("address", "ifindex", "type", "uevent")
MOVING = ("flags", "mtu", "operstate", "speed")
DEVICE = ("node_guid", "fw_ver", "board_id", "node_type")
PORT = ("state", "phys_state", "rate", "link_layer", "lid")
LIMIT_INTERFACES = 512
LIMIT_DEVICES = 256
LIMIT_PORTS = 16
FULL_READS = 12
"""Files that hardly change are read once in so many reads, which is once a minute."""


class NetworkReader:
    """Reads states at each call, identities once a minute."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._interfaces: dict[str, dict[str, Raw]] = {}
        self._rdma: dict[str, dict[str, Raw]] = {}
        self._reads = 0

    def __call__(self) -> Raw:
        """Ask once."""
        tree = self._tree
        if self._reads % FULL_READS == 0:
            self._interfaces, self._rdma = {}, {}
        self._reads += 1
        self._interfaces = {
            name: self._interfaces.get(name) or _interface(tree, name)
            for name in tree.names(NET)[:LIMIT_INTERFACES]
            if tree.link(f"{NET}/{name}") is not None  # bonding_masters is a plain file
        }
        self._rdma = {
            name: self._rdma.get(name) or _device(tree, name)
            for name in tree.names(RDMA)[:LIMIT_DEVICES]
        }
        return {
            "absent": tree.absent,
            "interfaces": {
                name: static | answers(tree, f"{NET}/{name}", MOVING)
                for name, static in self._interfaces.items()
            },
            "rdma": {
                name: static | {"ports": _ports(tree, name)} for name, static in self._rdma.items()
            },
            "addresses": _addresses() if tree.live else {},
            **answers(tree, "", (ROUTES,)),
        }


def read(tree: Tree) -> Raw:
    """Read a whole tree once."""
    return NetworkReader(tree)()


def _interface(tree: Tree, name: str) -> dict[str, Raw]:
    return _place(tree, f"{NET}/{name}") | answers(tree, f"{NET}/{name}", STATIC)


def _device(tree: Tree, name: str) -> dict[str, Raw]:
    folder = f"{RDMA}/{name}"
    return (
        _place(tree, folder)
        | answers(tree, folder, DEVICE)
        | answers(tree, f"{folder}/device", ("vendor",))
        | {"netdevs": list(tree.names(f"{folder}/device/net"))}
    )


def _place(tree: Tree, folder: str) -> dict[str, Raw]:
    found: dict[str, Raw] = answers(tree, f"{folder}/device", ("numa_node",))
    path = tree.resolved(folder)
    if path is not None:
        found["path"] = path.removeprefix("sys/devices/")
    driver = tree.link(f"{folder}/device/driver")
    if driver is not None:
        found["driver"] = driver.rpartition("/")[2]
    return found


def _ports(tree: Tree, name: str) -> dict[str, Raw]:
    folder = f"{RDMA}/{name}/ports"
    return {
        port: answers(tree, f"{folder}/{port}", PORT) for port in tree.names(folder)[:LIMIT_PORTS]
    }


def _addresses() -> dict[str, Raw]:
    import psutil  # not before the first paint: it takes 15 ms to load

    found: dict[str, Raw] = {}
    for name, entries in psutil.net_if_addrs().items():
        found[name] = [
            _with_prefix(entry.address.partition("%")[0], entry.netmask)
            for entry in entries
            if entry.family in (socket.AF_INET, socket.AF_INET6)
        ]
    return found


def _with_prefix(address: str, netmask: str | None) -> str:
    if not netmask:
        return address
    family = socket.AF_INET6 if ":" in netmask else socket.AF_INET
    try:
        mask = socket.inet_pton(family, netmask)
    except OSError:
        return address  # a wording that the C library does not read back
    return f"{address}/{int.from_bytes(mask, 'big').bit_count()}"


def _reader() -> Callable[[], Raw]:
    return NetworkReader(live_tree())


SOURCE = Source(
    id="network", interval_seconds=5.0, deadline_seconds=3.0, reader=_reader, parse=parse
)
