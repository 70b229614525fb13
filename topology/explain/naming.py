"""The name of a device in explanations, and the source that they give for a record."""

from __future__ import annotations

from ..model.element import NOT_IN_XML
from ..model.record import Record
from ..node import Node


def name(node: Node, vertex: str) -> str:
    """Name a node for a sentence: "GPU0", "mlx5_0", its id where it has no name."""
    attributes = node.graph.nodes.get(vertex)
    return vertex if attributes is None else str(attributes["label"])


def origin(record: Record, usual: str) -> str:
    """Name the source of a record: the topology XML where it leaves the usual fields empty."""
    from_xml = any(record.why(field) == NOT_IN_XML for field in ("uuid", "driver", "memory_bytes"))
    return "topology XML" if from_xml else usual
