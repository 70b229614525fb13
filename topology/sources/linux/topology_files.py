"""Topology XML for NCCL that clouds install on their machines, found by path.

The raw answer: a list of paths with a leading slash. Where they lie: NCCL's own default is
/var/run/nvidia-topologyd/virtualTopology.xml (src/graph/topo.cc); Azure's images have
/opt/microsoft/*-topo.xml, AWS's plugin .../aws-ofi-nccl/xml/*.xml, Crusoe /etc/crusoe/nccl_topo.
"""

from __future__ import annotations

from ...model.part import Raw
from ..files.answers import Fields
from ..files.tree import Tree, clean

FOLDERS = (
    ("var/run/nvidia-topologyd", "virtualTopology.xml"),
    ("opt/microsoft", "topo.xml"),
    ("opt/amazon/ofi-nccl/share/aws-ofi-nccl/xml", ".xml"),
    ("opt/aws-ofi-nccl/share/aws-ofi-nccl/xml", ".xml"),
    ("etc/crusoe/nccl_topo", ".xml"),
)
"""Folder, and how the file's name ends."""
LIMIT_FILES = 32
LIMIT_PATH = 300


def read(tree: Tree) -> Raw:
    """List the files that exist; None where a copy holds none, which proves nothing."""
    found = [
        f"/{folder}/{name}"
        for folder, ending in FOLDERS
        for name in tree.names(folder)
        if name.endswith(ending) and tree.size(f"{folder}/{name}") is not None
    ]
    return found[:LIMIT_FILES] if found or tree.live else None


def parse(raw: Raw, fields: Fields) -> tuple[str, ...] | None:
    """The paths; None, with a gap, where nothing was looked up."""
    value = raw.get("topology_files") if isinstance(raw, dict) else None
    if not isinstance(value, list):
        fields.miss("topology_files", fields.absent)
        return None
    paths = (clean(path[:LIMIT_PATH]) for path in value[:LIMIT_FILES] if isinstance(path, str))
    return tuple(path for path in paths if path.startswith("/") and path.isprintable())
