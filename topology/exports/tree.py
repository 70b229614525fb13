"""The node as a tree of text like lstopo's: sockets, NUMA nodes, host bridges, ports, devices.

Parts of an AMD package stand below their package, which has the PCIe link and the xGMI links.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..model.characters import printable
from ..model.gathered import gathered_by
from ..model.machine import Gpu
from ..model.units import gbs, size
from ..node import Node
from ..wiring.graph import Graph, gpu_id
from ..wiring.packages import Package, packages
from ..wiring.wires import Wire, WireKind, nvlink_wire
from .written import Written

_TREE_KINDS = ("pcie", "socket", "net", "c2c")
_RANK = {
    "socket": 0, "numa": 1, "root complex": 2, "root port": 3, "bridge": 4, "switch upstream": 4,
    "switch downstream": 5, "switch": 5,
}  # fmt: skip
"""Kind -> rank: a node hangs below a neighbour of lower rank; all other kinds are devices."""
_DEVICE = 9


def write(node: Node) -> Written:
    """Draw the tree, and the NVLinks or xGMI links of the GPUs below it."""
    graph = node.graph
    source = ", ".join(node.snapshot.source)
    lines = [printable(f"Node ({source}); GB/s is payload, one way")]
    split = [package for package in packages(graph) if package.shared]
    homes = {vertex: package for package in split for vertex in package.members}
    tops = _tops(graph)
    seen: set[str] = set(tops)
    for index, top in enumerate(tops):
        lines += _branch(graph, top, "", homes, seen, last=index == len(tops) - 1)
    links = [*_package_links(graph, split, homes), *_links(node, homes)]
    if links:
        shared = "; all parts of a package share its links" if split else ""
        lines += ["", f"Links between GPUs{shared}:", *links]
    return Written("\n".join([*lines, "", ""]))


def _rank(graph: Graph, vertex: str) -> int:
    return _RANK.get(graph.nodes[vertex]["kind"], _DEVICE)


def _order(vertex: str) -> tuple[str, int, str]:
    kind, _, number = vertex.partition(":")
    simple = kind in ("numa", "socket") and number.isdecimal()
    return (kind, int(number), "") if simple else ("~", 0, vertex)


def _tops(graph: Graph) -> list[str]:
    """List the nodes that hang below nothing: sockets, or NUMA nodes where no socket is known."""
    return sorted(
        (
            vertex
            for vertex in graph
            if not any(_hangs(graph, vertex, above) for above in graph[vertex])
            and graph.nodes[vertex]["kind"] != "nvswitch"
        ),
        key=_order,
    )


def _hangs(graph: Graph, vertex: str, above: str) -> bool:
    wire: Wire = graph.edges[vertex, above]["wire"]
    if wire.kind not in _TREE_KINDS or (wire.assumed and wire.kind is WireKind.SOCKET):
        return False
    kind, upper = str(graph.nodes[vertex]["kind"]), str(graph.nodes[above]["kind"])
    if kind == upper == "switch":
        return bool(getattr(graph.nodes[vertex]["record"], "parent", None) == above)
    if kind == upper:
        return kind == "bridge" and above < vertex
    if {kind, upper} == {"switch upstream", "switch downstream"}:
        # Where a switch is below a switch, its upper side hangs on a port that has a link.
        return wire.inside == (kind == "switch downstream")
    return _rank(graph, above) < _rank(graph, vertex)


def _branch(
    graph: Graph,
    vertex: str,
    indent: str,
    homes: Mapping[str, Package],
    seen: set[str],
    *,
    last: bool,
) -> Iterator[str]:
    yield _line(indent, _text(graph, vertex, part=vertex in homes), last=last)
    below = sorted((other for other in graph[vertex] if _hangs(graph, other, vertex)), key=_order)
    below = [other for other in below if other not in seen]
    seen.update(below)
    groups = gathered_by(below, lambda other: homes[other].id if other in homes else other)
    inner = indent + ("   " if last else "│  ")
    for index, (name, members) in enumerate(groups.items()):
        end = index == len(groups) - 1
        if members == [name]:
            yield from _branch(graph, name, inner, homes, seen, last=end)
            continue
        yield _line(inner, _package_text(graph, name, members), last=end)
        for place, other in enumerate(members, start=1):
            deeper = inner + ("   " if end else "│  ")
            yield from _branch(graph, other, deeper, homes, seen, last=place == len(members))


def _line(indent: str, text: str, *, last: bool) -> str:
    return printable(f"{indent}{'└─' if last else '├─'} {text}")


def _package_text(graph: Graph, name: str, members: Sequence[str]) -> str:
    """Describe a package: its model, its partitions, and the PCIe link that they share."""
    gpu = graph.nodes[members[0]]["record"]
    modes = " ".join(mode for mode in (gpu.compute_partition, gpu.memory_partition) if mode)
    count = f"{len(members)} part{'s' * (len(members) != 1)}"
    parts = (name, gpu.name, f"{modes}, {count}" if modes else count)
    return " · ".join(text for text in parts if text) + _upwards(graph, members[0])


def _text(graph: Graph, vertex: str, *, part: bool = False) -> str:
    attributes = graph.nodes[vertex]
    label, record = str(attributes["label"]), attributes["record"]
    text = (
        label if label == vertex or vertex.startswith(("numa:", "socket:")) else f"{label} {vertex}"
    )
    if attributes["kind"] in (
        "root port",
        "switch upstream",
        "switch downstream",
        "bridge",
        "switch",
    ):
        text = label
    if part:
        return text
    if isinstance(record, Gpu) and record.name is not None:
        text += f" · {record.name}"
    if attributes["kind"] == "numa" and getattr(record, "memory_bytes", None) is not None:
        # A NUMA node of a GPU's memory has no CPUs, and the kernel of a guest may not list them.
        cpus = {"": "no CPUs", None: "CPUs unknown"}.get(record.cpus, f"CPUs {record.cpus}")
        text += f" · {size(record.memory_bytes)}, {cpus}"
    return text + _upwards(graph, vertex)


def _upwards(graph: Graph, vertex: str) -> str:
    links = [
        graph.edges[vertex, other]["wire"]
        for other in graph[vertex]
        if _hangs(graph, vertex, other) and not graph.edges[vertex, other]["wire"].inside
    ]
    return "".join(
        f" · {_words(wire)}" for wire in links if wire.kind in (WireKind.PCIE, WireKind.C2C)
    )


def _package_links(
    graph: Graph, split: Sequence[Package], homes: Mapping[str, Package]
) -> Iterator[str]:
    """List the links of a package to other packages and to GPUs without partitions."""
    for package in split:
        ends: dict[str, Wire] = {}
        for vertex in package.members:
            for other, edge in graph[vertex].items():
                wire: Wire = edge["wire"]
                if (
                    wire.kind is not WireKind.XGMI
                    or wire.inside
                    or graph.nodes[other]["kind"] != "gpu"
                ):
                    continue
                far = homes[other].id if other in homes else graph.nodes[other]["label"]
                known = ends.get(far)
                if known is None or known.payload_gbs is None:
                    ends[far] = wire
        labels = [str(graph.nodes[vertex]["label"]) for vertex in package.members]
        between = " and " if len(labels) == 2 else " to "
        who = labels[0] if len(labels) == 1 else f"{labels[0]}{between}{labels[-1]}"
        peers = "; ".join(f"{far} {_words(wire)}" for far, wire in sorted(ends.items()))
        if peers:
            yield printable(f"  {package.id} ({who}): {peers}")


def _links(node: Node, homes: Mapping[str, Package]) -> Iterator[str]:
    graph = node.graph
    for gpu in node.snapshot.machine.gpus:
        if gpu.address not in graph or gpu_id(gpu) in homes:
            continue
        label = graph.nodes[gpu.address]["label"]
        switched = [link for link in gpu.nvlinks if link.active and link.to_switch]
        if switched:
            wire = nvlink_wire(switched, len(gpu.nvlinks))
            yield printable(f"  {label}: {_words(wire)} to NVSwitches")
        peers = [
            f"{graph.nodes[other]['label']} {_words(wire)}"
            for other, edge in sorted(graph[gpu.address].items())
            if (wire := edge["wire"]).kind in (WireKind.NVLINK, WireKind.XGMI)
            and graph.nodes[other]["kind"] == "gpu"
        ]
        if peers:
            yield printable(f"  {label}: " + "; ".join(peers))


def _words(wire: Wire) -> str:
    if wire.payload_gbs is None:
        return wire.name()
    return f"{wire.name()}, {gbs(wire.payload_gbs)}{' assumed' * wire.assumed}"
