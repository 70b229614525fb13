"""The graph as GraphML, which networkx, Gephi and yEd read."""

from __future__ import annotations

import io

import networkx as nx

from ..model.characters import printable
from ..node import Node
from ..wiring.graph import wires_of
from .json import wire_fields
from .written import Written


def write(node: Node) -> Written:
    """Write the graph as GraphML: attributes are plain values, and unknown ones are left out."""
    written = io.BytesIO()
    nx.write_graphml_xml(_plain(node), written, encoding="utf-8", prettyprint=True)
    return Written(written.getvalue().decode("utf-8") + "\n", document=True)


def _plain(node: Node) -> nx.Graph[str]:
    """Copy the graph, keeping the attributes that every format can hold."""
    graph: nx.Graph[str] = nx.Graph()
    for vertex, attributes in node.graph.nodes(data=True):
        kind, label = (printable(str(attributes[name])) for name in ("kind", "label"))
        graph.add_node(printable(vertex), kind=kind, label=label)
    for a, b, wire in wires_of(node.graph):
        facts = {
            name: printable(value) if isinstance(value, str) else value
            for name, value in wire_fields(wire).items()
            if value is not None
        }
        graph.add_edge(printable(a), printable(b), **facts)
    return graph
