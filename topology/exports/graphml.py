"""The graph as GraphML, which networkx, Gephi and yEd read."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from ..model.units import printable
from ..report import Report
from ..wiring.graph import wires_of
from .json import wire_fields
from .written import Written

if TYPE_CHECKING:
    import networkx as nx


def write(report: Report) -> Written:
    """Write the graph as GraphML; every attribute is a plain value, unknown ones are left out."""
    import networkx as nx

    written = io.BytesIO()
    nx.write_graphml_xml(_plain(report), written, encoding="utf-8", prettyprint=True)
    return Written(written.getvalue().decode("utf-8") + "\n")


def _plain(report: Report) -> nx.Graph[str]:
    """Copy the graph with attributes that any format can hold."""
    import networkx as nx

    graph: nx.Graph[str] = nx.Graph()
    for node, attributes in report.graph.nodes(data=True):
        label = printable(str(attributes["label"]))
        graph.add_node(printable(node), kind=attributes["kind"], label=label)
    for a, b, wire in wires_of(report.graph):
        facts = {name: value for name, value in wire_fields(wire).items() if value is not None}
        graph.add_edge(printable(a), printable(b), **facts)
    return graph
