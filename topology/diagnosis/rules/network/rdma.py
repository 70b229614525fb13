"""NICs for RDMA: their ports, their GIDs, and the way from a GPU to each."""

import re
from collections import defaultdict

from ....hardware.specs import WIRED
from ....hardware.vendors import NVIDIA, VENDORS
from ....model.english import listing, plural
from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.severity import NOTICE, SLOW
from ....model.surroundings import RdmaDevice, RdmaKind, RdmaPort
from ....model.units import figure
from ...case import Case
from ...rule import Found, Proof, Rule, Step, faulty, needed
from ...shared.near import some

UP = "ACTIVE"
DOWN = ("DOWN", "INIT", "ARMED")
"""States of an InfiniBand port that NCCL passes over (it wants ACTIVE)."""
RDMA_SOURCE = "/sys/class/infiniband/*/ports"
Group = list[tuple[RdmaDevice, RdmaPort]]


def _groups(case: Case) -> list[Group]:
    """Ports that should be alike: the same board, driver, PCI function and port number.

    The second port of a card is often left without a cable on purpose, on all cards alike.
    Where a text names no board at all, all ports of one kind of network are held together.
    """
    boards = any(map(_has_board, case.machine.rdma))
    found: dict[tuple[object, ...], Group] = defaultdict(list)
    for device in case.machine.rdma:
        pci = case.pci(device.address) if device.address else None
        if boards and not _has_board(device):
            continue
        if pci is not None and pci.physical_function is not None:
            continue  # a virtual function waits for a guest, which may never come
        place = (device.address or ".0").rpartition(".")[2]
        for port in device.ports:
            key: tuple[object, ...]
            key = (device.kind, device.driver, device.board_id, device.model, place, port.port)
            if not boards:
                key = (device.kind, port.link_layer, port.port)
            found[key].append((device, port))
    return list(found.values())


def _has_board(device: RdmaDevice) -> bool:
    return not (device.board_id is None and device.driver is None and device.model is None)


def _down(case: Case) -> Found:
    ports = [(nic, port) for nic in case.machine.rdma for port in nic.ports if port.state]
    if not ports:
        return _nothing(case)
    if not any(port.state == UP for _, port in ports):
        return _none_up(ports)
    return [found for group in _groups(case) if (found := _some_down(case, group)) is not None]


def _nothing(case: Case) -> list[Finding] | None:
    """Without an RDMA device there is nothing to find; None if RDMA devices were not read."""
    return [] if case.machine.interfaces and not case.machine.rdma else None


def _some_down(case: Case, group: Group) -> Finding | None:
    down = [(device, port) for device, port in group if port.state in DOWN]
    active = [(device, port) for device, port in group if port.state == UP]
    if not down or not active or _uncabled(group):
        return None
    known = all(_has_board(device) for device, _ in group)
    meant = all(_beside(case, device) for device, _ in down)
    names = [device.name for device, _ in down]
    return PORT_DOWN.finding(
        SLOW if known and meant and len(active) > len(down) else NOTICE,
        f"port of {listing(names)} is down, and {len(active)} like it "
        f"{'is' if len(active) == 1 else 'are'} up",
        devices=_addresses(down),
        evidence=_states(down),
        impact=f"{case.words.library} leaves it out: jobs over several nodes have {len(active)} of "
        f"{len(group)} such ports{_lost(active, group)}. Jobs inside this node do not need it.",
        fix=[_look(names[0])],
    )


_HALF = re.compile(r"roce(?:P\d{1,4})?p\d{1,3}s\d{1,3}f([01])")


def _uncabled(group: Group) -> bool:
    """Whether the ports are those of GB10's two cages, and a cage is down because it has no cable.

    Each cage is two RDMA devices, the halves of one connector: rocep1s0f0 and roceP2p1s0f0.
    """
    cages: dict[str, set[bool]] = defaultdict(set)
    halves = [(_HALF.fullmatch(device.name), port.state == UP) for device, port in group]
    for half, up in halves:
        if half is None:
            return False
        cages[half[1]].add(up)
    return len(halves) == 4 and {True} in cages.values() and {True, False} not in cages.values()


def _addresses(ports: Group) -> list[str]:
    return [device.address for device, _ in ports if device.address]


def _states(ports: Group) -> list[Proof]:
    return [
        (
            f"port {port.port} of {device.name}",
            ", ".join(filter(None, (port.state, port.physical_state))),
            RDMA_SOURCE,
        )
        for device, port in ports
    ]


def _none_up(ports: Group) -> Finding:
    alone = f"the only RDMA port, of {ports[0][0].name}, is not up"
    return PORT_DOWN.finding(
        NOTICE,
        f"none of {plural(len(ports), 'RDMA port')} is up" if len(ports) > 1 else alone,
        devices=_addresses(ports),
        evidence=_states(ports),
        impact=f"{_waits_for(ports)}Jobs over several nodes go by TCP (NET/Socket). Jobs inside "
        "this node do not need RDMA.",
        fix=[*_managed(ports), _look(ports[0][0].name)],
    )


PHYSICAL = {
    "linkup": "its link is up, and no subnet manager has made it active",
    "polling": "it has no signal: the link is down, by its cable, transceiver or switch port",
    "disabled": "it is switched off",
}
"""What the physical state of a port that is down says (InfiniBand specification, PortInfo)."""


def _waits_for(ports: Group) -> str:
    """What the first port's physical state says, as a sentence; "" where it says nothing."""
    device, port = ports[0]
    said = PHYSICAL.get(_physical(port))
    state = "Down" if port.state == DOWN[0] else port.state
    return f"{device.name} is {state}: {said}. " if said else ""


def _physical(port: RdmaPort) -> str:
    """The physical state as PHYSICAL has it; INIT and ARMED are states of a link that is up."""
    return (port.physical_state or "LinkUp" * (port.state in DOWN[1:])).replace("_", "").lower()


def _managed(ports: Group) -> list[Step]:
    """What brings up a port whose link is up already."""
    if _physical(ports[0][1]) != "linkup" or ports[0][1].link_layer == "Ethernet":
        return []
    return [
        "Start a subnet manager that reaches this port (opensm, or that of the switch). A virtual "
        "function needs a GUID and link state auto or follow, and a manager with virt_enabled 2. "
        "# sminfo"
    ]


def _look(name: str) -> Step:
    return (
        "Polling means no signal: cable or switch. LinkUp without ACTIVE means no subnet manager. "
        "Disabled means switched off, or a virtual function without a GUID or without a subnet "
        "manager that serves such. $ ibstat {:name}",
        name,
    )


def _lost(active: Group, group: Group) -> str:
    rates = [port.rate_gbit for _, port in active if port.rate_gbit]
    if len(rates) < len(active):
        return ""
    return f", {figure(sum(rates) / 8)} of {figure(max(rates) * len(group) / 8)} GB/s one way"


def _slow(case: Case) -> Found:
    if not any(port.rate_gbit for nic in case.machine.rdma for port in nic.ports):
        return _nothing(case)
    return [found for group in _groups(case) if (found := _slower(case, group)) is not None]


def near_nics(case: Case, gpu: Gpu) -> list[RdmaDevice]:
    """NICs that a GPU reaches without crossing a host bridge, by the PCI tree."""
    above = case.above(gpu.address)
    return [
        nic
        for nic in case.machine.rdma
        if nic.address and not above.isdisjoint(case.above(nic.address))
    ]


def _beside(case: Case, nic: RdmaDevice) -> bool:
    """Whether a NIC is meant for GPUs: below a switch with a GPU, or at an unknown place.

    A NIC at a port of its own may well be for storage.
    """
    if case.in_vm is not False or not nic.address or case.pci(nic.address) is None:
        return True
    above = case.above(nic.address)
    return any(not above.isdisjoint(case.above(gpu.address)) for gpu in case.machine.gpus)


def _slower(case: Case, group: Group) -> Finding | None:
    rates = [(entry, entry[1].rate_gbit or 0.0) for entry in group if entry[1].state == UP]
    rated = [(entry, rate) for entry, rate in rates if rate]
    best = max((rate for _, rate in rated), default=0.0)
    slow = [(entry, rate) for entry, rate in rated if rate < best]
    if not slow:
        return None
    ports = [entry for entry, _ in slow]
    few = 2 * len(slow) < len(rated) and all(_beside(case, device) for device, _ in ports)
    names = [device.name for device, _ in ports]
    return PORT_SLOW.finding(
        SLOW if few else NOTICE,
        f"port of {listing(names)} runs at {slow[0][1]:g} Gbit/s, others of its kind at {best:g}",
        devices=_addresses(ports),
        evidence=[
            (
                f"rate of {device.name}, port {port.port}",
                port.rate or f"{rate:g} Gbit/s",
                RDMA_SOURCE,
            )
            for (device, port), rate in slow
        ],
        impact=f"{figure(slow[0][1] / 8)} instead of {figure(best / 8)} GB/s one way. "
        "A ring between nodes is as fast as its slowest NIC.",
        fix=[("Look at cable, lanes and the port of the switch. # mlxlink -d {:name}", names[0])],
    )


def _far(case: Case) -> Found:
    if not case.machine.rdma:
        return _nothing(case)
    # Inside a virtual machine the tree is not the real one (NVIDIA/nccl-tests#256).
    if case.in_vm is not False or not _in_tree(case):
        return None
    have = [gpu for gpu in case.machine.gpus if near_nics(case, gpu)]
    # No job runs over two vendors, so their boards are not compared.
    makers = {gpu.vendor for gpu in have}
    without = faulty([gpu for gpu in case.gpus if gpu not in have and gpu.vendor in makers])
    skus = [*map(case.sku, without)]
    board = all(sku is not None and sku.fabric in WIRED for sku in skus)
    whole = not case.in_container  # a container may have been given only some NICs; a job sees all
    verb, many = ("have", "their switches") if len(without) > 1 else ("has", "its switch")
    near = listing([nic.name for nic in near_nics(case, have[0])])
    return NIC_FAR.finding(
        SLOW if board and whole and len(have) > len(without) else NOTICE,
        f"{case.names(without)} {verb} no NIC below {many}, {len(have)} other GPUs have one",
        devices=without,
        evidence=[
            (
                "NICs that a GPU reaches without the host bridge",
                f"{case.name(have[0])}: {near}; {case.names(without)}: none",
                "PCI tree of sysfs",
            )
        ],
        impact=f"Between nodes {case.words.library} sends its data through the host's memory, or "
        "lets another GPU relay it (PXN) and share that GPU's NIC.",
        fix=[
            "See whether a NIC is missing from the PCI bus or lost its driver. "
            "$ lspci -d ::0207; lspci -d ::0200"
        ],
    )


DMABUF_KERNEL = (5, 12)
CLIENTS = {vendor.id: vendor.memory_clients for vendor in VENDORS if vendor.memory_clients}
"""Names of GPU drivers in /sys/kernel/mm/memory_peers (NCCL transport/net_ib, gdr support)."""


def _peermem(case: Case) -> Found:
    pairs = [
        (gpu, nic)
        for gpu in case.gpus
        if gpu.vendor in CLIENTS
        for nic in near_nics(case, gpu)
        if _verbs(nic)
    ]
    if not pairs:
        # Beyond the host bridge NCCL leaves GDR off by choice (graph/paths.cc:ncclTopoCheckGdr).
        return [] if case.machine.pci else None
    vendor = pairs[0][0].vendor
    host = case.host
    registered = host.memory_peers
    if registered is not None and any(name in CLIENTS[vendor] for name in registered):
        return []
    kernel = _kernel(host.kernel)
    module = host.nvidia_module if vendor == NVIDIA.id else "open"
    if registered is None or kernel is None or module is None:
        return None
    if module == "open" and kernel >= DMABUF_KERNEL:
        return []
    return _refused(case, pairs, registered, module)


def _refused(
    case: Case, pairs: list[tuple[Gpu, RdmaDevice]], registered: tuple[str, ...], module: str
) -> Finding:
    host = case.host
    addresses = sorted({gpu.address for gpu, _ in pairs})
    names = sorted({nic.name for _, nic in pairs})
    why = "the closed kernel module" if module != "open" else f"Linux {host.kernel}"
    modules = [module.name for module in host.modules]
    return PEERMEM.finding(
        SLOW,
        f"{names[0]}{' and others' if len(names) > 1 else ''} cannot reach the memory of "
        f"{some(case, addresses)}",
        devices=addresses,
        evidence=[
            (
                "clients of the kernel's peer memory",
                ", ".join(registered) or "none",
                "/sys/kernel/mm/memory_peers",
            ),
            (
                "DMA-BUF",
                f"not with {why}",
                "/proc/driver/nvidia/version, /proc/sys/kernel/osrelease",
            ),
            (
                "module nvidia_peermem",
                "loaded" if "nvidia_peermem" in modules else "not loaded",
                "/proc/modules",
            ),
        ],
        impact="GPUDirect RDMA is off: between nodes every byte goes through the host's "
        "memory. Jobs inside this node do not need it.",
        fix=[
            "Load the module. # modprobe nvidia-peermem",
            (
                "If it loads and does not register, install the driver again after the RDMA "
                "drivers, or use the open kernel module, which has DMA-BUF. # "
            ),
        ]
        if pairs[0][0].vendor == NVIDIA.id
        else ["Use a newer kernel or amdgpu driver. # "],
    )


def _verbs(nic: RdmaDevice) -> bool:
    states = [port.state for port in nic.ports]
    return nic.kind in (RdmaKind.INFINIBAND, RdmaKind.ROCE) and (UP in states or None in states)


def _kernel(text: str | None) -> tuple[int, int] | None:
    match = re.match(r"(\d{1,4})\.(\d{1,4})", text or "", re.ASCII)
    return (int(match[1]), int(match[2])) if match else None


def _in_tree(case: Case) -> bool:
    """Whether the PCI tree has an RDMA device and all GPUs."""
    nics = any(nic.address and case.pci(nic.address) for nic in case.machine.rdma)
    return nics and all(case.pci(gpu.address) for gpu in case.gpus)


def _efa(case: Case) -> Found:
    needed(case.machine.interfaces or case.machine.rdma)
    efa = faulty([nic for nic in case.machine.rdma if nic.kind == RdmaKind.EFA])
    found = plugins(case)
    if found is None:
        return None
    if found or "NCCL_NET_PLUGIN" in case.variables:
        return []
    # Jobs bring the plugin with them in their containers: what the host has is not what they have.
    return EFA.finding(
        SLOW if case.may_hide_devices else NOTICE,
        f"{plural(len(efa), 'EFA device')}, and no plugin for {case.words.library}",
        devices=[nic.address for nic in efa if nic.address],
        evidence=[
            ("EFA devices", ", ".join(nic.name for nic in efa), "/sys/class/infiniband"),
            (
                "libnccl-net*.so where the loader looks",
                "none",
                "LD_LIBRARY_PATH, /etc/ld.so.conf.d, usual folders",
            ),
        ],
        impact=f"{case.words.library} speaks to EFA through a plugin alone: jobs over several "
        "nodes that do not bring one go by TCP (NET/Socket).",
        fix=[
            "Put the folder of aws-ofi-nccl on the loader's path. "
            "$ export LD_LIBRARY_PATH=/opt/amazon/ofi-nccl/lib:$LD_LIBRARY_PATH",
            "Let a job without the plugin fail at once. $ export NCCL_NET=Libfabric",
        ],
    )


def plugins(case: Case) -> tuple[str, ...] | None:
    """The network plugins that the loader would find; None where nobody looked."""
    software = case.machine.software
    return software.nccl_plugins if software is not None else None


INDEX = "NCCL_IB_GID_INDEX"
_SHOWN = 4
_LISTED = "show_gids"


def _check(case: Case) -> Found:
    ports = needed([(nic, port) for nic in case.machine.rdma for port in nic.ports if port.gids])
    value, source = case.variables.get(INDEX, ("", ""))
    if not value.strip().isdecimal():
        return []  # unset or -1: the library looks for one itself
    index = int(value)
    wrong = faulty([(nic, port, why) for nic, port in ports if (why := _wrong(port, index))])
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
    routed = [gid for gid in port.gids if gid.useful]
    if not routed or chosen in routed:
        return ""  # nothing better is there
    return f"{chosen.version}, {chosen.gid}"


def _evidence(nic: RdmaDevice, port: RdmaPort, why: str) -> Proof:
    better = [str(gid.index) for gid in port.gids if gid.useful]
    beside = f"; v2 with an address: {', '.join(better[:8])}" if better else ""
    return (f"port {port.port} of {nic.name}", why + beside, _LISTED)


PORT_DOWN = Rule(
    id="nic-port-down",
    family="D20",
    title="ports of NICs that are down while others like them are up",
    evidence="state of each RDMA port, board and driver of its device",
    disproof="state 4: ACTIVE in the port's folder of sysfs",
    sources=("NVIDIA/nccl#719", "NCCL transport/net_ib/init.cc"),
    check=_down,
    without_gpus=True,
)
PORT_SLOW = Rule(
    id="nic-port-slow",
    family="D20",
    title="ports of NICs slower than others like them",
    evidence="rate of each active RDMA port, board and driver of its device",
    disproof="the same rate in every port's folder of sysfs",
    sources=("NVIDIA/nccl#366", "NVIDIA/nccl#1405"),
    check=_slow,
    without_gpus=True,
)
NIC_FAR = Rule(
    id="nic-far",
    family="D20",
    title="GPUs without a NIC below their PCIe switch, where others have one",
    evidence="PCI tree of bare metal, RDMA devices",
    disproof="a drawing of this board on which these GPUs have no NIC",
    sources=("NVIDIA/nccl#366", "NCCL graph/topo.cc:ncclTopoGetLocalNet"),
    check=_far,
)
PEERMEM = Rule(
    id="rdma-without-peermem",
    family="D05",
    title="NICs beside a GPU that cannot reach its memory",
    evidence="NIC and GPU below one PCIe switch, memory_peers, kernel, kind of kernel module",
    disproof="/GDRDMA in the lines of NCCL_DEBUG=INFO of a job over two nodes",
    sources=("NVIDIA/nccl#1343", "NVIDIA/nccl#1537", "NVIDIA/nccl#1939", "NCCL user guide"),
    check=_peermem,
)
EFA = Rule(
    id="efa-without-plugin",
    title="EFA without its plugin for {library}",
    evidence="EFA devices and the network plugins that the loader would find",
    disproof='"Using network AWS Libfabric" in the lines of NCCL_DEBUG=INFO',
    sources=("NVIDIA-NeMo/RL#2359", "aws/aws-ofi-nccl documents"),
    check=_efa,
)
GIDS = Rule(
    id="gid-index",
    title="an index of GIDs that does not fit the ports",
    evidence=f"{INDEX}, and the list of GIDs of each port",
    disproof="a line of `show_gids` for this index with v2 and an address",
    sources=("NVIDIA/nccl#426", "NCCL src/transport/net_ib: ncclIbGetGidIndex"),
    check=_check,
    without_gpus=True,
)
RULES = (PORT_DOWN, PORT_SLOW, NIC_FAR, PEERMEM, EFA, GIDS)
