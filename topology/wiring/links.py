"""The fast wires of the graph: NVLink, xGMI and C2C."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..hardware.specs import sku_for
from ..model.machine import Gpu, Machine, NvLink, XgmiLink
from ..model.units import figure
from .devices import devices_of
from .reported import MOST_NVLINKS, of_one, reported_nvlinks, to_switches
from .wires import C2C_PAYLOAD_GBS, Wire, WireKind, nvlink_wire

if TYPE_CHECKING:
    import networkx as nx

FABRIC = "nvswitch fabric"
"""Node id of a plane of NVSwitches whose PCI addresses the driver hides."""
FAR = "xgmi over other gpus"
"""Attribute of the graph: pairs of GPUs that the driver joins by several xGMI hops."""
HOP_WEIGHT = 15
"""The driver's weight of one xGMI hop (amdkfd kfd_crat.c)."""


def add_links(graph: nx.Graph[str], machine: Machine) -> None:
    """Add the edges between GPUs, from GPUs to NVSwitches, and from GPUs to coherent CPUs."""
    gpus = devices_of(machine).gpus
    for gpu in machine.gpus:
        if gpu.partition is None:
            _nvlinks(graph, gpu)
            _c2c(graph, gpu)
        _xgmi(graph, gpu, gpus)
    if not any(gpu.nvlinks for gpu in machine.gpus):
        _reported(graph, machine)
    graph.graph[FAR] = frozenset(
        frozenset((pair.src, pair.dst))
        for pair in machine.pairs
        if pair.over_xgmi
        and (pair.weight or 0) > HOP_WEIGHT
        and not graph.has_edge(pair.src, pair.dst)
    )


def _nvlinks(graph: nx.Graph[str], gpu: Gpu) -> None:
    groups: dict[str, list[NvLink]] = {}
    for link in gpu.nvlinks_up:
        end = link_end(link)
        # A link to itself, or to a GPU that the node does not show, is none to a switch.
        if end is not None and (link.to_switch or (end in graph and end != gpu.address)):
            groups.setdefault(end, []).append(link)
    down = sum(1 for link in gpu.nvlinks if link.active is False)
    for end, links in groups.items():
        # A link that is down does not say where it would lead, unless all lead to one place.
        count_max = len(links) + down if len(groups) == 1 or not down else None
        if end not in graph:
            graph.add_node(end, kind="nvswitch", label=_label(end), record=None)
        wire = nvlink_wire(links, count_max)
        known = graph.get_edge_data(gpu.address, end)
        if known is None or _count(known["wire"]) > len(links):
            # Both ends describe a link between GPUs; the end that sees fewer is right.
            graph.add_edge(gpu.address, end, wire=wire)


def _label(end: str) -> str:
    return "NVSwitch fabric" if end == FABRIC else f"NVSwitch {end}"


def _count(wire: Wire) -> int:
    return (wire.count or 0) if wire.kind is WireKind.NVLINK else MOST_NVLINKS


def link_end(link: NvLink) -> str | None:
    """Give the node at the other end of a link; None when that end cannot be drawn."""
    if link.to_switch:
        return link.remote_address or FABRIC
    return link.remote_address if link.to_gpu else None


def _c2c(graph: nx.Graph[str], gpu: Gpu) -> None:
    if not gpu.c2c_enabled:
        return
    numa = f"numa:{gpu.numa_node}" if gpu.numa_node is not None else None
    if numa is None or numa not in graph:
        return
    if gpu.c2c_gbs is not None:
        source = "links and rate of one as the driver or a topology XML says"
        wire = Wire(kind=WireKind.C2C, payload_gbs=gpu.c2c_gbs, source=source)
    else:
        wire = Wire(
            kind=WireKind.C2C,
            payload_gbs=C2C_PAYLOAD_GBS,
            source="driver: C2C is on; the rate is the data sheet's, not read",
            assumed=True,
        )
    graph.add_edge(gpu.address, numa, wire=wire)


def _xgmi(graph: nx.Graph[str], gpu: Gpu, gpus: Mapping[str, Gpu]) -> None:
    for link in gpu.xgmi:
        if link.active is False or link.remote_address not in graph:
            continue
        if link.hops is not None and link.hops > 1:
            continue
        end = link.remote_address
        peer = gpus.get(end)
        package = None if peer is None else peer.parent or end
        same = gpu.partition is not None and package == gpu.parent
        graph.add_edge(gpu.address, end, wire=xgmi_wire(gpu, link, inside=same))


def xgmi_wire(gpu: Gpu, link: XgmiLink, *, inside: bool = False) -> Wire:
    """Make the wire to another GPU, or `inside` to another part of the same package.

    AMD subtracts no line code from the rate of xGMI: raw and payload are one figure.
    """
    if inside:
        why = link.why("raw_gbs")
        source = "inside one package: no xGMI link lies between its parts"
        return Wire(kind=WireKind.XGMI, source=f"{source}; {why}" if why else source, inside=True)
    if link.raw_gbs is not None:
        return Wire(
            kind=WireKind.XGMI,
            raw_gbs=link.raw_gbs,
            payload_gbs=link.raw_gbs,
            count=link.links,
            count_max=link.links,
            source="driver: links and rate of this pair",
        )
    sku = sku_for(gpu)
    each = sku.link_gbs if sku is not None else None
    count = link.links
    source = "driver: xGMI joins this pair; its rate was not read"
    if gpu.partition is not None and not count:
        count, source = 1, "driver: packages joined by xGMI; all their parts share that link"
    rate = each * count if each and count else None
    if rate is not None:
        source += f"; {figure(each or 0)} GB/s a link is the data sheet's"
    return Wire(
        kind=WireKind.XGMI,
        raw_gbs=rate,
        payload_gbs=rate,
        count=count,
        count_max=count,
        source=source,
        assumed=True,
    )


def _reported(graph: nx.Graph[str], machine: Machine) -> None:
    """Use NVLink counts that another tool printed, where no link was read."""
    counts = reported_nvlinks(machine)
    if to_switches(counts):
        graph.add_node(FABRIC, kind="nvswitch", label=_label(FABRIC), record=None)
        for end in dict.fromkeys(end for ends in counts for end in sorted(ends)):
            wire = Wire(
                kind=WireKind.NVLINK, count=max(of_one(counts, end).values()), assumed=True,
                source="nvidia-smi topo -m; more links than a GPU or a bridge has: switches",
            )  # fmt: skip
            graph.add_edge(end, FABRIC, wire=wire)
        return
    for ends, count in counts.items():
        wire = Wire(kind=WireKind.NVLINK, count=count, source="nvidia-smi topo -m; rate not in it")
        graph.add_edge(*sorted(ends), wire=wire)
