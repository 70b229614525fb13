"""The node as a tree of text, like lstopo's: sockets, NUMA nodes, host bridges, ports, devices."""

from __future__ import annotations

from collections.abc import Iterator

from .machine import Gpu
from .report import Report
from .units import gbs, printable, size
from .wiring.graph import Graph
from .wiring.wires import Wire, nvlink_wire

_TREE_KINDS = ("pcie", "socket", "net", "c2c")
_RANK = {
    "socket": 0, "numa": 1, "root complex": 2, "root port": 3, "bridge": 4, "switch upstream": 4,
    "switch downstream": 5, "switch": 5,
}  # fmt: skip
"""A node hangs below a neighbour of lower rank; devices have the highest."""
_DEVICE = 9


def as_tree(report: Report) -> str:
    """Draw the tree, and the NVLinks or xGMI links of the GPUs below it."""
    graph = report.graph
    source = ", ".join(report.snapshot.source)
    lines = [printable(f"Node ({source}); GB/s is payload, one way")]
    tops = _tops(graph)
    seen: set[str] = set(tops)
    for index, top in enumerate(tops):
        lines += _branch(graph, top, "", index == len(tops) - 1, seen)
    links = list(_links(report))
    if links:
        lines += ["", "Links between GPUs:", *links]
    return "\n".join(lines) + "\n"


def _rank(graph: Graph, node: str) -> int:
    return _RANK.get(graph.nodes[node]["kind"], _DEVICE)


def _order(node: str) -> tuple[str, int, str]:
    kind, _, number = node.partition(":")
    simple = kind in ("numa", "socket") and number.isdecimal()
    return (kind, int(number), "") if simple else ("~", 0, node)


def _tops(graph: Graph) -> list[str]:
    """List the nodes that hang below nothing: sockets, or NUMA nodes where no socket is known."""
    return sorted(
        (
            node
            for node in graph
            if not any(_hangs(graph, node, above) for above in graph[node])
            and graph.nodes[node]["kind"] != "nvswitch"
        ),
        key=_order,
    )


def _hangs(graph: Graph, node: str, above: str) -> bool:
    wire: Wire = graph.edges[node, above]["wire"]
    if wire.kind not in _TREE_KINDS or (wire.assumed and wire.kind == "socket"):
        return False
    kind, upper = str(graph.nodes[node]["kind"]), str(graph.nodes[above]["kind"])
    if kind == upper == "switch":
        return bool(getattr(graph.nodes[node]["record"], "parent", None) == above)
    if kind == upper:
        return kind == "bridge" and above < node
    if {kind, upper} == {"switch upstream", "switch downstream"}:
        # A switch below a switch: its upper side hangs on a port that has a link.
        return wire.inside == (kind == "switch downstream")
    return _rank(graph, above) < _rank(graph, node)


def _branch(graph: Graph, node: str, indent: str, last: bool, seen: set[str]) -> Iterator[str]:
    yield printable(f"{indent}{'└─' if last else '├─'} {_text(graph, node)}")
    below = sorted((other for other in graph[node] if _hangs(graph, other, node)), key=_order)
    below = [other for other in below if other not in seen]
    seen.update(below)
    for index, other in enumerate(below):
        yield from _branch(
            graph, other, indent + ("   " if last else "│  "), index == len(below) - 1, seen
        )


def _text(graph: Graph, node: str) -> str:
    attributes = graph.nodes[node]
    label, record = str(attributes["label"]), attributes["record"]
    text = label if label == node or node.startswith(("numa:", "socket:")) else f"{label} {node}"
    if attributes["kind"] in (
        "root port",
        "switch upstream",
        "switch downstream",
        "bridge",
        "switch",
    ):
        text = label
    if isinstance(record, Gpu) and record.name is not None:
        text += f" · {record.name}"
    if attributes["kind"] == "numa" and getattr(record, "memory_bytes", None) is not None:
        text += f" · {size(record.memory_bytes)}, CPUs {record.cpus}"
    links = [
        graph.edges[node, other]["wire"]
        for other in graph[node]
        if _hangs(graph, node, other) and not graph.edges[node, other]["wire"].inside
    ]
    return text + "".join(f" · {_words(wire)}" for wire in links if wire.kind in ("pcie", "c2c"))


def _links(report: Report) -> Iterator[str]:
    graph = report.graph
    for gpu in report.snapshot.machine.gpus:
        if gpu.address not in graph:
            continue
        label = graph.nodes[gpu.address]["label"]
        switched = [link for link in gpu.nvlinks if link.active and link.remote_kind == "nvswitch"]
        if switched:
            wire = nvlink_wire(switched, len(gpu.nvlinks))
            yield printable(f"  {label}: {_words(wire)} to NVSwitches")
        peers = [
            f"{graph.nodes[other]['label']} {_words(wire)}"
            for other, edge in sorted(graph[gpu.address].items())
            if (wire := edge["wire"]).kind in ("nvlink", "xgmi")
            and graph.nodes[other]["kind"] == "gpu"
        ]
        if peers:
            yield printable(f"  {label}: " + "; ".join(peers))


def _words(wire: Wire) -> str:
    rate = "" if wire.payload_gbs is None else f", {gbs(wire.payload_gbs)}"
    return f"{wire.name()}{rate}"
