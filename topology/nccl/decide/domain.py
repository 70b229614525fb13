"""The GPUs that reach each other, with what their transports need."""

from dataclasses import dataclass, field

from ..nodes import SystemNode
from ..prediction import SearchGraph
from ..system.compute import Computed
from ..system.nets import LocalNets
from .distances import Distances
from .labels import net_label, ring_uses, send_uses


@dataclass
class Domain:
    """One view with what its transports need."""

    computed: Computed
    ring: SearchGraph | None
    number: int
    distances: Distances
    local: LocalNets = field(init=False)

    def __post_init__(self) -> None:
        view = self.computed
        self.local = LocalNets(view.system, view.version, view.settings)

    def ends(self) -> tuple[set[int], set[int]]:
        """Ranks by which the ring enters and leaves the view."""
        orders = self.ring.orders if self.ring is not None else ()
        return {order[0] for order in orders}, {order[-1] for order in orders}

    def net_labels(
        self, src: SystemNode, peer_dev: int, plugin: str, *, ring: bool = False
    ) -> tuple[str, ...]:
        """Labels of the NICs to a GPU elsewhere; `ring`: it is the last of the ring."""
        view = self.computed
        uses = [(use, False) for use in ring_uses(view, self.ring, src)] if ring else []
        uses += [(use, True) for use in send_uses(view, self.local, src, peer_dev)]
        labels = [net_label(view, plugin, src, use, shared=shared) for use, shared in uses]
        return tuple(dict.fromkeys(labels))
