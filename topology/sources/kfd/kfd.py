"""AMD GPUs as the kernel knows them, without ROCm's library: KFD's topology and amdgpu's files.

The raw answer, every key but "absent" optional:

- "absent": why a missing text is missing
- "generation": text of generation_id
- "nodes": {"2": {"gpu_id", "name", "properties": text, "io_links" | "p2p_links" | "mem_banks":
  {"0": text}}}, texts as in /sys/class/kfd/kfd/topology/nodes
- "devices": {PCI address: {file of the device: text}}, files as in amdgpu/files.py, and
  "hive": {"1": address} the members in the order of xgmi_num_hops, "hwmon": {file: text},
  "asleep": why it was not asked

A text may be {"error": why}. Nothing is written, nothing needs root.
"""

from __future__ import annotations

from collections.abc import Callable

from ...model.part import PartialNode, Raw
from ...model.source import Source, SourceAbsent
from ..amdgpu import files as amdgpu
from ..files.answers import LEFT_OUT, left_out
from ..files.tree import Tree, live_tree
from . import files as kfd

FULL_READS = 6
"""Links and devices are read again after so many reads, or when KFD's generation changes."""


class KfdReader:
    """Asks sysfs once per call; the thousands of files of links are kept while nothing changes."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._nodes: dict[str, Raw] = {}
        self._generation: Raw = None
        self._cut: list[str] = []
        self._reads = 0

    def __call__(self) -> Raw:
        """Ask once. Raises SourceAbsent when neither KFD nor amdgpu shows a GPU."""
        tree = self._tree
        place = kfd.root(tree)
        generation = None if place is None else kfd.generation(tree, place)
        fresh = self._reads % FULL_READS == 0 or generation != self._generation
        if fresh:
            self._nodes = {} if place is None else kfd.read_nodes(tree, place)
            self._cut = [] if place is None else kfd.cut(tree, place)
        self._generation = generation
        self._reads += 1
        listed = amdgpu.listed(tree)
        addresses = listed[: amdgpu.LIMIT_DEVICES]
        devices = {address: amdgpu.read_device(tree, address) for address in addresses}
        if not self._nodes and not devices:
            raise SourceAbsent("no GPU of AMD's driver amdgpu in /sys, and no KFD topology")
        return {
            "absent": tree.absent,
            "generation": generation,
            "nodes": self._nodes,
            "devices": devices,
            LEFT_OUT: [*self._cut, *left_out("GPUs of amdgpu", listed, amdgpu.LIMIT_DEVICES)],
        }


def read(tree: Tree) -> Raw:
    """Read a whole tree once. Raises SourceAbsent when it shows no AMD GPU."""
    return KfdReader(tree)()


def _reader() -> Callable[[], Raw]:
    return KfdReader(live_tree())


def parse(raw: Raw) -> PartialNode:
    """Turn an answer into a part, by what a node without AMD's GPUs has no use for."""
    from .gpus import parse as understand

    return understand(raw)


SOURCE = Source(
    id="kfd", interval_seconds=20.0, deadline_seconds=5.0, reader=_reader, opening=True, parse=parse
)
