"""A system that is made once, and is had again as it was however its paths were diverted since."""

from ...model.element import Element
from ..nodes import System
from ..settings import Settings
from ..versions import Version
from .build import build_system
from .paths import set_all_paths
from .ranks import Place


class PreparedSystem:
    """The system of a topology XML with its paths, before any is diverted."""

    def __init__(
        self, root: Element, version: Version, settings: Settings, ranks: dict[Place, int] | None
    ) -> None:
        self._root, self._rest = root, (version, ranks, _relays(version, settings))
        self._system = build_system(root, version, ranks)
        set_all_paths(self._system, version, settings)
        every = [node for nodes in self._system.nodes.values() for node in nodes]
        self._nodes = {kind: tuple(nodes) for kind, nodes in self._system.nodes.items()}
        self._state = [
            (node, node.index, tuple(node.links), {k: tuple(p) for k, p in node.paths.items()})
            for node in every
        ]
        self._refusals = tuple(self._system.refusals)

    def is_for(
        self, root: Element, version: Version, settings: Settings, ranks: dict[Place, int] | None
    ) -> bool:
        """Whether the system made for these is the same."""
        return root is self._root and self._rest == (version, ranks, _relays(version, settings))

    def is_made(self, system: System) -> bool:
        """Whether it is the system that was made here."""
        return system is self._system

    def system(self) -> System:
        """The system as it was made; whoever had it before has it no longer."""
        system = self._system
        system.nodes = {kind: [*nodes] for kind, nodes in self._nodes.items()}
        system.inter, system.refusals = False, [*self._refusals]
        system.max_bandwidth_gbs = system.total_bandwidth_gbs = 0.0
        for node, index, links, paths in self._state:
            node.index, node.local_gpu, node.links = index, -1, [*links]
            node.paths = {kind: [*ways] for kind, ways in paths.items()}
        return system


def _relays(version: Version, settings: Settings) -> bool:
    """All that the paths of a system ask of the variables."""
    return version.relays and not settings.integer("NCCL_NVB_DISABLE", 0)
