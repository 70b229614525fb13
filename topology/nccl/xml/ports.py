"""The network devices that NCCL would use: ports of RDMA adapters, else interfaces.

As transport/net_ib.cc and transport/net_socket.cc of NCCL 2.28.9. External network plugins are
not looked for, save that EFA adapters count as usable by aws-ofi-nccl, without which they are not.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ...model.machine import Machine
from ...model.surroundings import Interface, RdmaDevice, RdmaPort
from ...wiring.relations import SLINGSHOT
from ..order import leading
from ..settings import Settings
from .names import listed, natural

PLAIN_MBPS = 10_000
"""The speed that NCCL assumes for an interface that does not report one."""
MOST_GBIT = 100_000.0
"""Of a port; more is no rate."""
SOCKET_CONNECTIONS, RDMA_CONNECTIONS = 65_536, 131_072
"""Most connections; an adapter's is its number of queue pairs, 131072 on ConnectX-6 and later."""
VIRTUAL_DRIVERS = ("virtio", "hv_", "xen", "veth", "usb", "cdc_", "r8152")
"""Drivers whose devices are no PCI functions to /sys, though one may lie above them."""
PLACES = (("ib",), ("^docker,lo,virbr",), ("docker",), ("lo",), ("virbr",))
"""Which interfaces are tried in turn; RCCL 2.21.5 knows no virbr (misc/socket.cc)."""


@dataclass(frozen=True)
class Port:
    """One `net` element: its attributes from `name` on, and the PCI function it hangs on."""

    name: str
    address: str | None
    speed: int
    port: int
    guid: int
    connections: int
    gdr: bool


def network_ports(
    machine: Machine, settings: Settings, *, gdr: bool, rccl: bool, notes: list[str]
) -> list[Port]:
    """List the devices of the network that NCCL would choose, numbered by their place."""
    wanted = (settings.text("NCCL_NET") or "").lower()
    rdma: list[Port] = []
    if wanted in ("", "ib") and settings.integer("NCCL_IB_DISABLE", 0) == 0:
        rdma = _verbs(machine, settings, gdr, notes)
    if not rdma and wanted != "socket" and settings.text("NCCL_NET_PLUGIN") != "none":
        rdma = _efa(machine, gdr, notes)
    if wanted not in ("", "ib", "socket"):
        notes.append(f"NCCL_NET={wanted}: what that plugin offers is not known.")
    return rdma or _sockets(machine, settings, rccl, notes)


def _verbs(machine: Machine, settings: Settings, gdr: bool, notes: list[str]) -> list[Port]:
    """InfiniBand and RoCE ports that are active (net_ib.cc:ncclIbInitDevices)."""
    wanted = settings.text("NCCL_IB_HCA") or ""
    merges = settings.integer("NCCL_IB_MERGE_VFS", 1) != 0
    found: list[Port] = []
    of_card: Counter[str] = Counter()
    guids = _Guids(machine)
    for adapter, port in _active(machine, ("InfiniBand", "Ethernet")):
        if not listed(wanted, adapter.name, port.port):
            continue
        address = _card(adapter.address, merges)
        same = 0 if address is None else of_card[address]
        of_card[address or ""] += 1
        guid = guids.image(adapter, address)
        found.append(_rdma_port(machine, adapter, port, address, same, guid, gdr, notes))
    return found


def _efa(machine: Machine, gdr: bool, notes: list[str]) -> list[Port]:
    guids = _Guids(machine)
    found = [
        _rdma_port(
            machine,
            adapter,
            port,
            adapter.address,
            0,
            guids.image(adapter, adapter.address),
            gdr,
            notes,
        )
        for adapter, port in _active(machine, None)
        if adapter.kind == "efa"
    ]
    if found:
        notes.append("EFA adapters are taken to be used through the plugin aws-ofi-nccl.")
    return found


def _active(machine: Machine, layers: tuple[str, ...] | None) -> list[tuple[RdmaDevice, RdmaPort]]:
    """Ports in the state ACTIVE; an unknown state counts, an EFA adapter has no link layer."""
    return [
        (adapter, port)
        for adapter in sorted(machine.rdma, key=lambda adapter: natural(adapter.name))
        for port in adapter.ports
        if port.state in ("ACTIVE", None)
        and (layers is None or (adapter.kind != "efa" and port.link_layer in (*layers, None)))
    ]


def _rdma_port(
    machine: Machine,
    adapter: RdmaDevice,
    port: RdmaPort,
    address: str | None,
    same: int,
    guid: int,
    gdr: bool,
    notes: list[str],
) -> Port:
    if port.rate_gbit is None:
        library = leading(machine.gpus).library
        notes.append(f"The rate of {adapter.name} is not known: {library}'s 10 Gb/s are used.")
    if port.state is None:
        notes.append(f"The state of {adapter.name} is not known: ACTIVE is assumed.")
    return Port(
        name=adapter.name,
        address=address,
        speed=_mbps(port.rate_gbit),
        port=port.port + same,
        guid=guid,
        connections=RDMA_CONNECTIONS,
        gdr=gdr,
    )


def _card(address: str | None, merges: bool) -> str | None:
    """The first function of a card, which stands for all its ports and virtual functions."""
    if address is None or len(address) < 12:
        return address
    return f"{address[:-4]}00.0" if merges else f"{address[:-1]}0"


class _Guids:
    """The numbers of the cards of a machine."""

    def __init__(self, machine: Machine) -> None:
        self._first: dict[str | None, RdmaDevice] = {}
        """The first adapter by name of each card."""
        for device in sorted(machine.rdma, key=lambda device: natural(device.name)):
            self._first.setdefault(_card(device.address, merges=True), device)
        names = sorted(device.name for device in machine.rdma)
        self._place = {name: place for place, name in reversed([*enumerate(names)])}

    def image(self, adapter: RdmaDevice, address: str | None) -> int:
        """The number that all ports of a card share; NCCL prints its bytes in reverse."""
        first = self._first.get(address, adapter) if address else adapter
        first = min(first, adapter, key=lambda device: natural(device.name))
        digits = (first.guid or adapter.guid or "").replace(":", "").removeprefix("0x")
        try:
            return int.from_bytes(int(digits, 16).to_bytes(8, "big"), "little")
        except (ValueError, OverflowError):
            # NCCL compares these alone; an adapter without one is its own card.
            return 0x100 + self._place[adapter.name]


_NO_INTERFACE = "No network interface is known: one of 10 Gb/s is assumed."
_UNPLACED = (
    "Neither rate nor PCI address of the NICs is known: one socket interface of 10 Gb/s is "
    "assumed in their place."
)


def _sockets(machine: Machine, settings: Settings, rccl: bool, notes: list[str]) -> list[Port]:
    """Interfaces that are up (misc/socket.cc:ncclFindInterfaces)."""
    running = _running(machine)
    wanted = settings.text("NCCL_SOCKET_IFNAME") or ""
    chosen = _listed_first(
        running, ((wanted,),) if len(wanted) > 1 else PLACES[: 4 if rccl else None]
    )
    if len(wanted) > 1 and not chosen and running:
        library = leading(machine.gpus).library
        notes.append(f"NCCL_SOCKET_IFNAME={wanted} matches no interface: {library} would fail.")
    if not running:
        nowhere = machine.rdma and all(device.address is None for device in machine.rdma)
        notes.append(_UNPLACED if nowhere else _NO_INTERFACE)
        return [Port("eth0", None, PLAIN_MBPS, 0, 0, SOCKET_CONNECTIONS, gdr=False)]
    if rccl and any((interface.driver or "").startswith(SLINGSHOT) for interface in chosen):
        notes.append(_slingshot(machine))
    return [_socket_port(interface, number) for number, interface in enumerate(chosen)]


def _listed_first(running: list[Interface], lists: Iterable[tuple[str]]) -> list[Interface]:
    """The interfaces of the first list that names any."""
    for (names,) in lists:
        found = [interface for interface in running if listed(names, interface.name)]
        if found:
            return found
    return []


def _socket_port(interface: Interface, number: int) -> Port:
    virtual = (interface.driver or "").startswith(VIRTUAL_DRIVERS)
    return Port(
        name=interface.name,
        address=None if virtual else interface.address,
        speed=interface.speed_mbps or PLAIN_MBPS,
        port=0,
        guid=number,
        connections=SOCKET_CONNECTIONS,
        gdr=False,
    )


def _slingshot(machine: Machine) -> str:
    """The assumption about Slingshot NICs, which only a plugin uses at full speed."""
    found = machine.software.nccl_plugins if machine.software is not None else None
    if found is None:
        why = "whether the plugin aws-ofi-rccl is installed, which uses them better, is not known"
    elif found:
        name = found[0].rpartition("/")[2]
        why = f"what a plugin makes of them is not predicted, and {name} is installed"
    else:
        why = "no plugin such as aws-ofi-rccl, which uses them better, is where the loader looks"
    return f"Slingshot NICs are taken to be used by sockets: {why}."


def _running(machine: Machine) -> list[Interface]:
    """Interfaces that are up and have an address; all that are up where no address is recorded."""
    up = sorted(
        (interface for interface in machine.interfaces if interface.up is not False),
        key=lambda interface: natural(interface.name),
    )
    return [interface for interface in up if interface.ips] or up


def _mbps(rate_gbit: float | None) -> int:
    """The `speed` that NCCL writes; a rate beyond every link, as in a damaged file, is none."""
    if rate_gbit is None or not 0 < rate_gbit < MOST_GBIT:
        return PLAIN_MBPS
    return round(rate_gbit * 1000)
