"""The explanation of a device, a pair or an edge, step by step."""

from __future__ import annotations

from ..model.machine import Gpu
from ..model.page import Page
from ..node import Node
from .edge import why_edge
from .gpu import explain_gpu
from .node import explain_node
from .pair import why_pair

__all__ = ["why_device", "why_edge", "why_pair"]


def why_device(node: Node, node_id: str) -> Page:
    """Explain one device or node of the graph; says so when there is no such node."""
    attributes = node.graph.nodes.get(node_id)
    if attributes is None:
        return Page.why(title=node_id, claim=f"{node_id} is not part of this node any more.")
    record = attributes["record"]
    if isinstance(record, Gpu):
        return explain_gpu(node, record)
    return explain_node(node, node_id, attributes["kind"], attributes["label"], record)
