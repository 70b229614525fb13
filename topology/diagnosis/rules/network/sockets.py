"""The interfaces that NCCL uses for its sockets."""

import ipaddress
import re

from ....model.finding import Finding
from ....model.severity import BROKEN, NOTICE
from ....model.surroundings import Interface
from ....nccl.settings import Settings
from ....nccl.xml.names import listed
from ....nccl.xml.ports import PLACES, network_ports
from ....wiring.relations import SLINGSHOT
from ... import vendors
from ...case import Case
from ...rule import Found, Rule, faulty, needed
from .rdma import UP, plugins

CHOICE = "NCCL_SOCKET_IFNAME"
_LOOPBACK = "loopback"
_VIRTUAL = ("bridge", "veth", "virtual", "tun", _LOOPBACK)


def _check(case: Case) -> Found:
    running = [interface for interface in case.machine.interfaces if interface.up and interface.ips]
    if not running or any(
        interface.index is None or interface.default_route is None for interface in running
    ):
        return None
    wanted, origin = case.variables.get(CHOICE, ("", ""))
    first = chosen(running, wanted)
    if first is None:
        return _nothing(case, running, (wanted, origin))
    odd = _odd(first)
    routed = next((nic for nic in running if nic.default_route and nic is not first), None)
    if first.default_route or not odd or routed is None or _odd(routed):
        return []
    cluster = any(port.state == UP for device in case.machine.rdma for port in device.ports)
    return INTERFACE.finding(
        BROKEN if cluster else NOTICE,
        f"{case.words.library} would take {first.name} for its sockets, {odd}",
        evidence=[
            (
                f"first interface of {case.words.library}'s order"
                + (f" by {CHOICE}" if wanted else ""),
                f"{first.name}, {', '.join(first.ips)}",
                origin if wanted else "/sys/class/net, misc/socket.cc",
            ),
            (
                "interface of the default route",
                f"{routed.name}, {', '.join(routed.ips)}",
                "/proc/net/route",
            ),
        ],
        impact="Ranks of a job over several nodes give each other an address that leads "
        "nowhere from outside: the start hangs. Jobs inside this node work.",
        fix=[(f"Name the interface. $ export {CHOICE}=={{:name}}", routed.name)],
    )


def chosen(running: list[Interface], wanted: str = "") -> Interface | None:
    """The interface that the bootstrap takes: the first place that matches, in getifaddrs's order.

    misc/socket.cc:ncclFindInterfaces: the user's list, else ib*, then all but docker, lo and
    virbr, then those. Addresses of IPv4 come before those of IPv6.
    """
    order = sorted(running, key=lambda interface: (not _v4(interface), interface.index or 0))
    places = ((wanted,),) if len(wanted) > 1 else PLACES
    for (names,) in places:
        for interface in order:
            if listed(names, interface.name):
                return interface
    return None


def _v4(interface: Interface) -> bool:
    return any("." in ip and ":" not in ip for ip in interface.ips)


def _odd(interface: Interface) -> str:
    """Why an interface is odd for a job over several nodes; "" where it is not."""
    if interface.kind in _VIRTUAL:
        return f"which is {'the loopback' if interface.kind == _LOOPBACK else 'virtual'}"
    if all(_link_local(ip) for ip in interface.ips):
        return "which has a link-local address alone"
    return ""


def _link_local(text: str) -> bool:
    try:
        return ipaddress.ip_interface(text).is_link_local
    except ValueError:
        return False


def _nothing(case: Case, running: list[Interface], wanted: tuple[str, str]) -> Finding:
    return INTERFACE.finding(
        BROKEN,
        f"{CHOICE}={wanted[0]} fits no interface of this machine",
        evidence=[
            (CHOICE, wanted[0], wanted[1]),
            (
                "interfaces that are up and have an address",
                ", ".join(interface.name for interface in running),
                "/sys/class/net",
            ),
        ],
        impact=f"{case.words.library} does not start: Bootstrap : no socket interface "
        "found. That holds for "
        "jobs inside this node too.",
        fix=[f"Take it away, or name one of these. $ unset {CHOICE}"],
    )


_NUMBER = re.compile(r"[0-9]{1,4}$")


def _check_slingshot(case: Case) -> Found:
    interfaces = needed(case.machine.interfaces)
    fabric = [nic for nic in interfaces if (nic.driver or "").startswith(SLINGSHOT)]
    fabric = faulty([nic for nic in fabric if nic.up is not False])
    found = plugins(case)
    if found or "NCCL_NET_PLUGIN" in case.variables:
        return []
    amd = vendors.amd(case.gpus)
    ports = network_ports(case.machine, Settings.of(case.snapshot), gdr=False, rccl=amd, notes=[])
    used, own = {port.name for port in ports}, {nic.name for nic in fabric}
    # Where RDMA adapters are used, or the fabric is not, sockets carry no traffic.
    beside = faulty([interface for interface in interfaces if interface.name in used - own])
    if own.isdisjoint(used):
        return []
    return _finding(case, fabric, beside, found is not None, amd=amd)


def _finding(
    case: Case, fabric: list[Interface], beside: list[Interface], looked: bool, *, amd: bool
) -> Finding:
    library, plugin = ("RCCL", "aws-ofi-rccl") if amd else ("NCCL", "aws-ofi-nccl")
    names = ", ".join(nic.name for nic in beside)
    return SHARED.finding(
        NOTICE,
        f"{library}'s sockets would use {names} beside the Slingshot NICs",
        devices=[nic.address for nic in fabric if nic.address],
        evidence=[
            (
                "interfaces that sockets would use",
                ", ".join(_rate(nic) for nic in (*fabric, *beside)),
                "/sys/class/net, misc/socket.cc",
            ),
            (
                f"network plugin, as {plugin}",
                "none where the loader looks" if looked else "not looked for",
                "LD_LIBRARY_PATH, /etc/ld.so.conf.d, usual folders",
            ),
        ],
        impact=f"Without {plugin} the NICs are plain interfaces, and a job over several nodes "
        f"sends a part of its data over {names} too"
        + (", and RCCL may not recognise a node that it has rings ready for." if amd else ".")
        + " Jobs inside this node do not care.",
        fix=[
            (f"Name the Slingshot NICs alone. $ export {CHOICE}={{:name,}}", _prefix(fabric)),
            f"Better: put the folder of {plugin} on the loader's path.",
        ],
    )


def _rate(nic: Interface) -> str:
    if nic.speed_mbps is None:
        return f"{nic.name} at an unknown rate"
    return f"{nic.name} {nic.speed_mbps / 1000:g} Gbit/s"


def _prefix(fabric: list[Interface]) -> list[str]:
    """The common beginning of the names, "hsn"; all names where they have none."""
    stems = {_NUMBER.sub("", nic.name) for nic in fabric}
    stem = stems.pop()
    return [stem] if not stems and stem else [nic.name for nic in fabric]


INTERFACE = Rule(
    id="socket-interface",
    family="D10",
    title="a wrong interface for {library}'s sockets",
    evidence="interfaces that are up with their addresses and numbers, default route, "
    "NCCL_SOCKET_IFNAME",
    disproof='the line "Bootstrap: Using" of NCCL_DEBUG=INFO names the right interface',
    sources=("NVIDIA/nccl#913", "NVIDIA/nccl#286", "horovod/horovod#310", "uccl-project/uccl#1034"),
    check=_check,
)
SHARED = Rule(
    id="slingshot-sockets",
    family="",
    title="another network beside the Slingshot NICs",
    evidence="interfaces with their drivers and rates, NCCL_SOCKET_IFNAME, network plugins",
    disproof="NET/OFI in the library's log, or NET/Socket with the Slingshot NICs alone",
    sources=("ROCm/rccl src/misc/socket.cc", "ROCm/rccl src/graph/rome_models.cc"),
    check=_check_slingshot,
)
RULES = (INTERFACE, SHARED)
