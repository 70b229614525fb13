"""What explanations call a device, and where they say that a record was read."""

from __future__ import annotations

from ..model.element import NOT_IN_XML
from ..model.record import Record
from ..node import Node


def name(node: Node, vertex: str) -> str:
    """Name a node for a sentence: "GPU0", "mlx5_0", its id where it has no name."""
    attributes = node.graph.nodes.get(vertex)
    return vertex if attributes is None else str(attributes["label"])


def origin(record: Record, usual: str) -> str:
    """Where a record was read: from a topology XML when that is why its usual fields are empty."""
    from_xml = any(record.why(field) == NOT_IN_XML for field in ("uuid", "driver", "memory_bytes"))
    return "topology XML" if from_xml else usual
