"""One node for judging figures: devices by key, models, paths and relations, each found once."""

from __future__ import annotations

from functools import cached_property

from ..hardware.specs import Sku, sku_for
from ..model.machine import Gpu
from ..model.snapshot import Measurement, NodeSnapshot
from ..wiring.codes import UNKNOWN, Relations
from ..wiring.ends import switch_links
from ..wiring.gpu_names import gpu_label
from ..wiring.graph import Graph
from ..wiring.light import light_graph
from ..wiring.likeness import likeness
from ..wiring.paths import Path, Trees, path_between


class JudgedNode:
    """A snapshot with the facts that every figure needs."""

    def __init__(self, snapshot: NodeSnapshot) -> None:
        self.snapshot = snapshot
        self.machine = snapshot.machine
        self._gpus: dict[str, Gpu] = {}
        for gpu in reversed(self.machine.gpus):
            self._gpus[gpu.address.lower()] = gpu
            if gpu.uuid:
                self._gpus[gpu.uuid.lower()] = gpu
        self._paths: dict[tuple[str, str], Path | None] = {}
        self._trees: Trees = {}
        self._kinds: dict[tuple[str, str], str] = {}
        self._skus: dict[str, Sku | None] = {}
        self._relations = Relations(self.machine)

    @cached_property
    def _graph(self) -> Graph:
        return light_graph(self.machine)

    @property
    def virtual(self) -> bool:
        """Whether this is a virtual machine, whose PCI tree need not be the real one."""
        return self.machine.host is not None and self.machine.host.hypervisor is not None

    def gpu(self, key: str | None) -> Gpu | None:
        """Find a GPU by PCI address or UUID."""
        return self._gpus.get(key.lower()) if key else None

    def label(self, key: str | None) -> str:
        """The label of a device."""
        gpu = self.gpu(key)
        return (key or "?") if gpu is None else gpu_label(gpu)

    def sku(self, gpu: Gpu) -> Sku | None:
        """The model; None where it is not in the table or the GPU is a part of one."""
        if gpu.address not in self._skus:
            self._skus[gpu.address] = sku_for(gpu)
        return self._skus[gpu.address]

    def path(self, one: Gpu, other: Gpu) -> Path | None:
        """The best path between two GPUs."""
        ends = (one.address, other.address)
        if ends not in self._paths:
            self._paths[ends] = path_between(self._graph, *ends, trees=self._trees)
        return self._paths[ends]

    def kind(self, src: str | None, dst: str | None) -> str:
        """The letters of a pair's relation, and of xGMI what joins it; see `likeness`.

        All NVSwitch pairs are "NVSwitch", and all of a full mesh are "XGMI": a GPU with fewer links
        than its siblings is to be compared with them, not set apart.
        """
        one, other = self.gpu(src), self.gpu(dst)
        if one is None or other is None:
            return UNKNOWN
        ends = (one.address, other.address)
        if ends not in self._kinds:
            letters = self._relations.between(*ends).code
            both = switch_links(one) and switch_links(other)
            sku = self.sku(one)
            if both and letters.startswith("NV"):
                letters = "NVSwitch"
            elif sku is None or not sku.full_mesh:
                letters = likeness(letters, one, other)
            self._kinds[ends] = letters
        return self._kinds[ends]


def text_of(figure: Measurement, name: str) -> str:
    """A detail of a figure that should be text; "" where it is not."""
    value = figure.details.get(name)
    return value if isinstance(value, str) else ""


def number_of(figure: Measurement, name: str) -> float | None:
    """A detail of a figure that should be a positive number; None where it is not."""
    value = figure.details.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < float("inf") else None


def terms_of(figure: Measurement, name: str) -> tuple[str, ...]:
    """A detail of a figure that should be a list of words."""
    value = figure.details.get(name)
    if not isinstance(value, list | tuple):
        return ()
    return tuple(word for word in value if isinstance(word, str))
