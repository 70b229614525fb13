"""A snapshot as the text of a topology XML."""

from __future__ import annotations

from ..model.snapshot import NodeSnapshot
from ..nccl.settings import Settings
from ..nccl.xml.base import base_topology
from ..nccl.xml.detect import detect
from ..nccl.xml.write import write_topology
from ..node import Node
from .written import Written


def write(node: Node) -> Written:
    """Write the file that NCCL_TOPO_FILE takes."""
    return as_nccl_xml(node.snapshot)


def as_nccl_xml(snapshot: NodeSnapshot) -> Written:
    """Return the topology XML behind the snapshot, else the one that NCCL would detect."""
    own = snapshot.machine.nccl_topology
    if own is not None:
        return Written(write_topology(own), document=True)
    settings = Settings.of(snapshot)
    base = base_topology(snapshot, settings)
    found = detect(snapshot.machine, settings, base.element)
    remarks = () if base.remark is None else (base.remark,)
    text = write_topology(found.element)
    return Written(text, (*remarks, *found.assumptions), document=True)
