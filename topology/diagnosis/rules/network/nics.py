"""Ports of the NICs, and how far a NIC is from each GPU."""

from __future__ import annotations

import shlex
from collections import defaultdict

from ....model.finding import Finding
from ....model.machine import Gpu
from ....model.severity import NOTICE, SLOW
from ....model.surroundings import RdmaDevice, RdmaPort
from ....model.units import figure
from ...case import Case
from ...rule import Found, Rule, Step

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
    if not any(port.state == "ACTIVE" for _, port in ports):
        return _none_up(ports)
    findings = []
    for group in _groups(case):
        down = [(device, port) for device, port in group if port.state in DOWN]
        active = [(device, port) for device, port in group if port.state == "ACTIVE"]
        if not down or not active:
            continue
        known = all(_has_board(device) for device, _ in group)
        most = (
            known and len(active) > len(down) and all(_beside(case, device) for device, _ in down)
        )
        names = [device.name for device, _ in down]
        findings.append(
            PORT_DOWN.finding(
                SLOW if most else NOTICE,
                f"port of {_listed(names)} is down, and {len(active)} like it "
                f"{'is' if len(active) == 1 else 'are'} up",
                devices=[device.address for device, _ in down if device.address],
                evidence=[
                    (
                        f"port {port.port} of {device.name}",
                        f"{port.state}"
                        + (f", {port.physical_state}" if port.physical_state else ""),
                        RDMA_SOURCE,
                    )
                    for device, port in down
                ],
                impact=f"{case.words.library} leaves it out: jobs over several nodes have "
                f"{len(active)} of "
                f"{len(group)} such ports{_lost(active, group)}. Jobs inside this node do not "
                "need it.",
                fix=[_look(names[0])],
            )
        )
    return findings


def _nothing(case: Case) -> list[Finding] | None:
    """Without an RDMA device there is nothing to find; None if RDMA devices were not read."""
    return [] if case.machine.interfaces and not case.machine.rdma else None


def _none_up(ports: Group) -> Finding:
    return PORT_DOWN.finding(
        NOTICE,
        f"none of {len(ports)} RDMA port{'s' * (len(ports) != 1)} is up",
        devices=[device.address for device, _ in ports if device.address],
        evidence=[
            (
                f"port {port.port} of {device.name}",
                f"{port.state}" + (f", {port.physical_state}" if port.physical_state else ""),
                RDMA_SOURCE,
            )
            for device, port in ports
        ],
        impact="Jobs over several nodes go by TCP (NET/Socket). Jobs inside this node do not "
        "need RDMA.",
        fix=[_look(ports[0][0].name)],
    )


def _look(name: str) -> Step:
    return (
        "Polling means no signal: cable or switch. LinkUp without ACTIVE means no subnet manager. "
        "Disabled means switched off, or a virtual function without a GUID or without a subnet "
        f"manager that serves such. $ ibstat {shlex.quote(name)}"
    )


def _lost(active: Group, group: Group) -> str:
    rates = [port.rate_gbit for _, port in active if port.rate_gbit]
    if len(rates) < len(active):
        return ""
    return f", {figure(sum(rates) / 8)} of {figure(max(rates) * len(group) / 8)} GB/s one way"


def _slow(case: Case) -> Found:
    if not any(port.rate_gbit for nic in case.machine.rdma for port in nic.ports):
        return _nothing(case)
    findings = []
    for group in _groups(case):
        rated = [
            (device, port, port.rate_gbit)
            for device, port in group
            if port.state == "ACTIVE" and port.rate_gbit
        ]
        best = max((rate for _, _, rate in rated), default=0.0)
        slow = [entry for entry in rated if entry[2] < best]
        if not slow:
            continue
        few = 2 * len(slow) < len(rated) and all(_beside(case, device) for device, _, _ in slow)
        findings.append(
            PORT_SLOW.finding(
                SLOW if few else NOTICE,
                f"port of {_listed([device.name for device, _, _ in slow])} runs at "
                f"{slow[0][2]:g} Gbit/s, others of its kind at {best:g}",
                devices=[device.address for device, _, _ in slow if device.address],
                evidence=[
                    (
                        f"rate of {device.name}, port {port.port}",
                        port.rate or f"{rate:g} Gbit/s",
                        RDMA_SOURCE,
                    )
                    for device, port, rate in slow
                ],
                impact=f"{figure(slow[0][2] / 8)} instead of {figure(best / 8)} GB/s one way. "
                "A ring between nodes is as fast as its slowest NIC.",
                fix=[
                    "Look at cable, lanes and the port of the switch. "
                    f"# mlxlink -d {shlex.quote(slow[0][0].name)}"
                ],
            )
        )
    return findings


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


def _far(case: Case) -> Found:
    nics = [nic for nic in case.machine.rdma if nic.address and case.pci(nic.address)]
    # Inside a virtual machine the tree is not the real one (NVIDIA/nccl-tests#256).
    if not case.machine.rdma:
        return _nothing(case)
    if not nics or case.in_vm is not False or any(not case.pci(g.address) for g in case.gpus):
        return None
    near = {gpu.address: near_nics(case, gpu) for gpu in case.machine.gpus}
    have = [gpu for gpu in case.machine.gpus if near[gpu.address]]
    # No job runs over two vendors, so their boards are not compared.
    vendors = {gpu.vendor for gpu in have}
    without = [gpu for gpu in case.gpus if not near[gpu.address] and gpu.vendor in vendors]
    if not without or not have:
        return []
    skus = [case.sku(gpu) for gpu in without]
    board = all(sku is not None and sku.fabric in ("switched", "point_to_point") for sku in skus)
    whole = not case.in_container  # a container may have been given only some NICs; a job sees all
    verb, many = ("have", "their switches") if len(without) > 1 else ("has", "its switch")
    return NIC_FAR.finding(
        SLOW if board and whole and len(have) > len(without) else NOTICE,
        f"{case.names(without)} {verb} no NIC below {many}, {len(have)} other GPUs have one",
        devices=without,
        evidence=[
            (
                "NICs that a GPU reaches without the host bridge",
                (
                    f"{case.name(have[0].address)}: "
                    f"{_listed([nic.name for nic in near[have[0].address]])}; "
                    f"{case.names(without)}: none"
                ),
                "PCI tree of sysfs",
            )
        ],
        impact=f"Between nodes {case.words.library} sends its data through the host's "
        "memory, or lets "
        "another GPU relay it (PXN) and share that GPU's NIC.",
        fix=[
            "See whether a NIC is missing from the PCI bus or lost its driver. "
            "$ lspci -d ::0207; lspci -d ::0200"
        ],
    )


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


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

RULES = (PORT_DOWN, PORT_SLOW, NIC_FAR)
