"""The graph in the language of Graphviz."""

from __future__ import annotations

from ..model.characters import printable
from ..node import Node
from ..wiring.graph import wires_of
from .written import Written

SHAPES = {"gpu": "box3d", "nic": "component", "nvswitch": "hexagon", "numa": "folder"}
STYLES = {"nvlink": "bold", "xgmi": "bold", "c2c": "bold", "socket": "dashed", "net": "dotted"}


def write(node: Node) -> Written:
    """Write the graph in the language of Graphviz."""
    lines = ["graph node {", "  node [shape=box];"]
    for vertex, attributes in node.graph.nodes(data=True):
        shape = SHAPES.get(attributes["kind"], "box")
        lines.append(f"  {_quoted(vertex)} [label={_quoted(attributes['label'])}, shape={shape}];")
    for a, b, wire in wires_of(node.graph):
        label = "" if wire.inside else wire.words()
        style = STYLES.get(wire.kind, "solid")
        lines.append(f"  {_quoted(a)} -- {_quoted(b)} [label={_quoted(label)}, style={style}];")
    return Written("\n".join([*lines, "}", "", ""]), document=True)


def _quoted(text: str) -> str:
    """Quote a string for Graphviz, where a backslash begins an escape."""
    plain = printable(str(text)).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'
