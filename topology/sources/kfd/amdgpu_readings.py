"""Readings of AMD GPUs from sysfs: utilisation, memory, power, temperatures, processes.

The raw answer: {"absent": why a missing text is missing, "devices": {PCI address: {file of the
device: text, "hwmon": {file: text}, "asleep": why it was not asked}}, "processes": {pid: {PCI
address: text of the bytes that KFD counts}} or {"error": why}}. Files are those of
amdgpu/files.py; a text may be {"error": why}.
"""

from __future__ import annotations

from collections.abc import Callable

from ...model.part import PartialNode, Raw
from ...model.source import Source
from ..amdgpu import files as amdgpu
from ..files.tree import Tree, answers, live_tree
from . import files as kfd

OTHER_PIDS = "the process numbers that KFD gives are not of this container"
FULL_READS = 20
LOOK_AGAIN_SECONDS = 10.0
LIMIT_PROCESSES = 4096


class AmdgpuReadingsReader:
    """Asks sysfs once per call; looks up now and then which GPUs there are."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._addresses: list[str] = []
        self._ids: dict[int, str] = {}
        self._reads = 0
        self.again_seconds: float | None = None

    def __call__(self) -> Raw:
        """Ask once. Without a GPU the answer is empty: the source `kfd` reports its absence."""
        tree = self._tree
        if self._reads % FULL_READS == 0 or not self._addresses:
            self._addresses = amdgpu.addresses(tree)
            self._ids = _ids(tree)
        self._reads += 1
        self.again_seconds = None if self._addresses else LOOK_AGAIN_SECONDS
        return {
            "absent": tree.absent,
            "devices": {name: amdgpu.read_moving(tree, name) for name in self._addresses},
            "processes": _processes(tree, self._ids),
        }


def read(tree: Tree) -> Raw:
    """Read a whole tree once."""
    return AmdgpuReadingsReader(tree)()


def _ids(tree: Tree) -> dict[int, str]:
    """KFD's numbers of GPUs -> their PCI addresses."""
    place = kfd.root(tree)
    if place is None:
        return {}
    from . import nodes as kfd_nodes

    raw = kfd.read_identities(tree, place)
    return {node.gpu_id: node.address for node in kfd_nodes.nodes({"nodes": raw}) if node.gpu_id}


def _processes(tree: Tree, ids: dict[int, str]) -> Raw:
    if not ids:
        return {"error": "KFD shows no GPU"}
    if not tree.exists("proc"):
        return {"error": tree.absent}
    found: dict[str, Raw] = {}
    for pid in tree.names(kfd.PROCESSES)[:LIMIT_PROCESSES]:
        if not (pid.isascii() and pid.isdigit() and len(pid) < 11):
            continue
        if not tree.exists(f"proc/{pid}"):
            if tree.exists(f"{kfd.PROCESSES}/{pid}"):
                # A process that ended would be gone from both: this number is of another namespace.
                return {"error": OTHER_PIDS}
            continue
        held = answers(tree, f"{kfd.PROCESSES}/{pid}", (f"vram_{number}" for number in ids))
        found[pid] = {ids[int(name[5:])]: text for name, text in held.items()}
    return found


def _reader() -> Callable[[], Raw]:
    return AmdgpuReadingsReader(live_tree())


def parse(raw: Raw) -> PartialNode:
    """Turn an answer into a part, by what a node without AMD's GPUs has no use for."""
    if isinstance(raw, dict) and raw.get("devices") == {}:
        return PartialNode(origin=amdgpu.ORIGIN)
    from ..amdgpu.parse_readings import parse as understand

    return understand(raw)


SOURCE = Source(
    id="amdgpu_readings",
    interval_seconds=1.0,
    deadline_seconds=2.0,
    reader=_reader,
    opening=True,
    parse=parse,
)
