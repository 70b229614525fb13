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

import re
import socket
from collections.abc import Callable, Mapping, Sequence

from ...model.part import PartialNode, Raw
from ...model.source import Source
from ...model.surroundings import Interface, RdmaDevice, RdmaKind, RdmaPort
from ..files.answers import (
    LEFT_OUT,
    FileAnswers,
    absent_text,
    cut_off,
    items_of,
    left_out,
    part,
    under,
    whole,
    words,
)
from ..files.tree import Tree, answers, live_tree
from .devices import ADDRESS, numa_node

NET = "sys/class/net"
RDMA = "sys/class/infiniband"
STATIC = ("address", "ifindex", "type", "uevent")
MOVING = ("flags", "mtu", "operstate", "speed")
DEVICE = ("node_guid", "fw_ver", "board_id", "node_type")
PORT = ("state", "phys_state", "rate", "link_layer", "lid")
LIMIT_INTERFACES = 512
LIMIT_DEVICES = 256
LIMIT_PORTS = 16
PODS = "virtual_left_out"
"""Key of the raw answer: virtual interfaces that are not read, on which no verdict rests."""
FULL_READS = 12
"""Files that hardly change are read once in so many reads, which is once a minute."""

# The raw answer of the source network becomes Interface and RdmaDevice records.
HARDWARE_TYPES = {1: "ethernet", 32: "infiniband", 772: "loopback"}
"""ARPHRD_ numbers of Linux if_arp.h."""
IFF_UP = RTF_UP = 1
ROUTES = "proc/net/route"
AMAZON = 0x1D0F
LIMIT_MBPS = 10_000_000
"""The fastest Ethernet has 1.6 Tbit/s; "unknown" is reported as -1 or 4294967295."""
_DEVTYPE = re.compile(r"^DEVTYPE=(\w{1,30})$", re.MULTILINE)
_RATE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) Gb/sec")
_STATE = re.compile(r"\d+: *(.{1,40})")


def parse(raw: Raw) -> PartialNode:
    """Turn the answer of the source network into interfaces and RDMA devices."""
    absent = absent_text(raw)
    addresses = part(raw, "addresses")
    routes = _default_routes(FileAnswers(raw, absent))
    return PartialNode(
        interfaces=tuple(
            _interface_record(name, FileAnswers(answer, absent), addresses.get(name), routes)
            for name, answer in sorted(part(raw, "interfaces").items())
        ),
        rdma=tuple(
            _rdma_record(name, FileAnswers(answer, absent))
            for name, answer in sorted(part(raw, "rdma").items())
        ),
        problems=cut_off(raw, "network"),
        assumptions=tuple(str(why) for why in items_of(under(raw, PODS))[:1]),
    )


def _interface_record(
    name: str, fields: FileAnswers, addresses: Raw, routes: frozenset[str] | str
) -> Interface:
    kind = _interface_kind(name, fields)
    address = _address(fields)
    if address is None:
        fields.gap("address", "no PCI device is behind it")
    virtual = address is None and "driver" not in fields.raw
    if isinstance(routes, str):
        fields.gap("default_route", routes)
    return Interface(
        name=name,
        address=address,
        index=fields.number("ifindex", "index"),
        kind=kind,
        driver=fields.text("driver", "driver", quiet=virtual),
        up=_up(fields),
        speed_mbps=_speed(fields),
        mtu=fields.number("mtu", "mtu"),
        mac=fields.text("address", "mac"),
        ips=words(addresses),
        numa_node=None if virtual else numa_node(fields),
        default_route=None if isinstance(routes, str) else name in routes,
        gaps=fields.gaps,
    )


def _default_routes(fields: FileAnswers) -> frozenset[str] | str:
    """Interfaces of the IPv4 default route, or why they are not known (proc_net(5))."""
    text = fields.text(ROUTES, "routes")
    if text is None:
        return fields.gaps[0].why
    rows = [line.split() for line in text.splitlines()[1:]]
    return frozenset(
        row[0] for row in rows if len(row) > 7 and row[1] == row[7] == "00000000" and _is_up(row[3])
    )


def _is_up(flags: str) -> bool:
    value = whole(flags, 16)
    return value is not None and bool(value & RTF_UP)


def _interface_kind(name: str, fields: FileAnswers) -> str | None:
    type_ = fields.number("type", "kind")
    kind = HARDWARE_TYPES.get(type_) if type_ is not None else None
    if kind in ("loopback", "infiniband"):
        return kind
    said = _DEVTYPE.search(fields.text("uevent") or "")
    if said is not None:
        return said.group(1)
    path = fields.text("path") or ""
    if path.startswith("virtual/"):
        return "veth" if name.startswith("veth") else "virtual"
    if kind is None and type_ is not None:
        fields.gap("kind", f"hardware type {type_}")
    return kind


def _address(fields: FileAnswers) -> str | None:
    """The PCI function nearest to the device in its resolved path."""
    path = fields.text("path") or ""
    return next((place for place in reversed(path.split("/")) if ADDRESS.fullmatch(place)), None)


def _up(fields: FileAnswers) -> bool | None:
    state = fields.text("operstate", "up")
    if state is None or state in ("up", "down", "lowerlayerdown", "notpresent", "dormant"):
        return None if state is None else state == "up"
    # A loopback or tunnel never says more than "unknown"; then the administrator's switch counts.
    flags = fields.number("flags", "up", base=16)
    return None if flags is None else bool(flags & IFF_UP)


def _speed(fields: FileAnswers) -> int | None:
    value = fields.number("speed", "speed_mbps")
    if value is not None and not 0 < value <= LIMIT_MBPS:
        fields.gap("speed_mbps", f"the driver says {value}: unknown, or the link is down")
        return None
    return value


def _rdma_record(name: str, fields: FileAnswers) -> RdmaDevice:
    address = _address(fields)
    if address is None:
        fields.gap("address", "no PCI device is behind it")
    ports = [
        _port(number, FileAnswers(answer, fields.absent))
        for text, answer in part(fields.raw, "ports").items()
        if (number := whole(text)) is not None and number >= 0
    ]
    driver = fields.text("driver", "driver")
    return RdmaDevice(
        name=name,
        address=address,
        kind=RdmaKind(_rdma_kind(driver, fields.raw, ports)),
        driver=driver,
        guid=fields.text("node_guid", "guid"),
        firmware=fields.text("fw_ver", "firmware"),
        board_id=fields.text("board_id", "board_id"),
        numa_node=numa_node(fields),
        interfaces=words(fields.raw.get("netdevs")),
        ports=tuple(sorted(ports, key=lambda port: port.port)),
        gaps=fields.gaps,
    )


def _rdma_kind(driver: str | None, raw: Mapping[str, Raw], ports: list[RdmaPort]) -> str:
    vendor = raw.get("vendor")
    if driver == "efa" or (isinstance(vendor, str) and whole(vendor, 16) == AMAZON):
        return "efa"
    layers = {port.link_layer for port in ports}
    if "InfiniBand" in layers:
        return "infiniband"
    return "roce" if "Ethernet" in layers else "rdma"


def _port(number: int, fields: FileAnswers) -> RdmaPort:
    rate = fields.text("rate", "rate")
    match = _RATE.match(rate or "")
    if match is None:
        fields.gap("rate_gbit", fields.absent if rate is None else f"no rate in {rate[:40]!r}")
    return RdmaPort(
        port=number,
        state=_word(fields.text("state", "state")),
        physical_state=_word(fields.text("phys_state", "physical_state")),
        rate_gbit=float(match.group(1)) if match else None,
        rate=rate,
        link_layer=fields.text("link_layer", "link_layer"),
        lid=fields.text("lid", "lid"),
        gaps=fields.gaps,
    )


def _word(text: str | None) -> str | None:
    """The word in "4: ACTIVE"."""
    match = _STATE.fullmatch(text or "")
    return match.group(1) if match else text


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
        names, virtual = _by_use(tree)
        most = max(0, LIMIT_INTERFACES - len(names))
        self._interfaces = {
            name: self._interfaces.get(name) or _interface(tree, name)
            for name in (*names[:LIMIT_INTERFACES], *virtual[:most])
        }
        listed = tree.names(RDMA)
        self._rdma = {
            name: self._rdma.get(name) or _device(tree, name) for name in listed[:LIMIT_DEVICES]
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
            LEFT_OUT: [
                *left_out("network interfaces", names, LIMIT_INTERFACES),
                *left_out("RDMA devices", listed, LIMIT_DEVICES),
                *(why for name in self._rdma for why in left_out(*_all_ports(tree, name))),
            ],
            PODS: left_out("virtual network interfaces", virtual, most),
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


def _by_use(tree: Tree) -> tuple[list[str], list[str]]:
    """The interfaces of devices, and those without, of which a host has one for each pod.

    bonding_masters, a plain file, is none.
    """
    links = {name: tree.link(f"{NET}/{name}") for name in tree.names(NET)}
    there = [name for name, link in links.items() if link is not None]
    virtual = [name for name in there if "/virtual/" in f"/{links[name]}"]
    return sorted({*there} - {*virtual}), virtual


def _all_ports(tree: Tree, name: str) -> tuple[str, Sequence[str], int]:
    return f"ports of {name}", tree.names(f"{RDMA}/{name}/ports"), LIMIT_PORTS


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
