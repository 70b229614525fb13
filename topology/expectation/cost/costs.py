"""The costs of one node: an all-reduce, the copies of its pairs, the links to its host."""

from __future__ import annotations

from ...model import quantities
from ...model.machine import Gpu
from ...model.severity import FigureBasis
from ...model.snapshot import Measurement
from ...nccl.prediction import Prediction
from ...node import Node
from ..judge import Judge
from ..judgement import ESTIMATE, TYPICAL
from ..kept import Kept
from ..links import LinkRates, link_of_pair, of_one_model
from .all_reduce import all_reduce_cost, sources_of
from .cost import Cost


class Costs:
    """The costs of one node; each is worked out when it is first asked for."""

    def __init__(self, node: Node, alike: Costs | None = None) -> None:
        """`alike`: those of the same machine under other variables, which spares predictions."""
        self._node = node
        known = None if alike is None else alike._judge
        self._judge: Judge = Judge(node.snapshot, node.prediction, known)
        self._known: dict[tuple[str, ...], Cost | None] = {}

    def know(self, prediction: Prediction) -> None:
        """Take over a prediction for this machine under more variables, made already."""
        self._judge.variables.know(prediction)

    def fits(self, node: Node) -> bool:
        """Whether these are the costs of a node as it is now."""
        mine, other = self._node.snapshot, node.snapshot
        return (
            self._node.prediction is node.prediction
            and (mine.machine is other.machine or mine.machine == other.machine)
            and mine.measurements == other.measurements
            and mine.environment == other.environment
        )

    @property
    def all_reduce(self) -> Cost | None:
        """An all-reduce of 1 GiB over all GPUs; None where nothing is known of it."""
        if ("",) not in self._known:
            self._known["",] = all_reduce_cost(self._node, self._judge)
        return self._known["",]

    def copy(self, src: str, dst: str) -> Cost | None:
        """A large copy of one GPU to another, by their PCI addresses."""
        key = ("copy", src, dst)
        if key not in self._known:
            self._known[key] = self._copy(src, dst)
        return self._known[key]

    def host(self, address: str) -> Cost | None:
        """A large copy from pinned host memory to a GPU."""
        key = ("host", address)
        if key not in self._known:
            found = Measurement(
                probe="host", quantity=quantities.HOST_TO_DEVICE, src=address, variant="pinned"
            )
            self._known[key] = self._of_band(f"host copy {self._name(address)}", found)
        return self._known[key]

    def link(self, src: str, dst: str) -> LinkRates | None:
        """The link of two GPUs of one model, as it should be and as it is."""
        node = self._judge.node
        pair = of_one_model(node, src, dst)
        return None if pair is None else link_of_pair(node, *pair)

    def _name(self, address: str) -> str:
        return self._node.devices.name(address)

    def _copy(self, src: str, dst: str) -> Cost | None:
        found = Measurement(probe="p2p", quantity=quantities.WRITE, src=src, dst=dst)
        return self._of_band(f"copy {self._name(src)} to {self._name(dst)}", found)

    def _of_band(self, what: str, figure: Measurement) -> Cost | None:
        expected = self._judge.expected(figure)
        made = expected.band
        measured = self._measured(figure)
        if made is None and measured is None:
            return None
        reach = None if made is None else made.healthy if made.reach is None else made.reach
        if made is not None and expected.settled:
            reach = None  # the links are gone, and nobody knows what another way gives
        basis = ESTIMATE if measured is None else FigureBasis(measured.basis)
        if made is not None and measured is None:
            basis = ESTIMATE if made.basis == ESTIMATE else TYPICAL
        return Cost(
            what=what,
            healthy=None if made is None else made.healthy,
            here=reach if measured is None else measured.value,
            basis=basis,
            sources=sources_of(made, measured),
            missing=expected.causes,
        )

    def _measured(self, like: Measurement) -> Measurement | None:
        """The newest figure of this kind that can be believed."""
        found = [
            figure
            for figure in self._node.snapshot.measurements
            if (figure.quantity, figure.src, figure.dst) == (like.quantity, like.src, like.dst)
            and (like.variant is None or figure.variant in (like.variant, None))
            and figure.credible
        ]
        return found[-1] if found else None


_costs: Kept[Node, Costs] = Kept(Costs, most=4)


def costs_of(node: Node) -> Costs:
    """The costs of a node, from the cache while it stays as it is.

    The first question about an all-reduce on a node with faults makes a prediction, which takes
    some tenths of a second: the thread that reads the node asks it before the screens do.
    """
    return _costs.of(node)


def worst_copy(node: Node, gpu: Gpu) -> Cost | None:
    """The copy of a GPU to another one that loses most; None where none is known to lose."""
    costs = costs_of(node)
    lost = [
        cost
        for other in node.snapshot.machine.gpus
        if other.address != gpu.address
        and (cost := costs.copy(gpu.address, other.address)) is not None
        and cost.lost
    ]
    return min(lost, key=lambda cost: (cost.here or 0.0) / (cost.healthy or 1.0), default=None)
