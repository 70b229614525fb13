"""Answers about one pair of GPUs, and about the NIC and the NUMA node of one GPU."""

from __future__ import annotations

from collections.abc import Iterable

from gputop.answers.question import Answer
from gputop.topology.expectation.cost.costs import costs_of
from gputop.topology.explain.ladder import Rung, ladder
from gputop.topology.explain.nics import gpu_nics
from gputop.topology.explain.pair_summary import PairState, pair_summary
from gputop.topology.model.machine import Gpu
from gputop.topology.model.severity import FigureBasis, RungState
from gputop.topology.node import Node
from gputop.topology.wiring.graph import gpu_numa

_GRANTED = {RungState.YES: True, RungState.NO: False}
_DRIVER = 1
"""Place of the driver's grant on the ladder."""


class P2pAnswer(Answer, frozen=True, kw_only=True, tag="gputop.pair/1"):
    """What one GPU uses to reach another, and why; rates are GB/s of payload, one way."""

    src: str
    """PCI address."""
    dst: str
    granted: bool | None
    """Whether the driver grants P2P, in both directions; None where nobody asked it."""
    uses_p2p: bool | None
    """Whether NCCL or RCCL uses P2P, by its rules; None where there is no prediction."""
    way: str
    """"P2P over 18 NVLinks through NVSwitch", "NO P2P: shared memory in the host"."""
    route: str
    """The way, drawn; "" where it is not known."""
    link_gbs: float | None
    """What the narrowest link on the way carries."""
    healthy_gbs: float | None
    """What a large copy reaches on a healthy node of this kind."""
    expected_gbs: float | None
    """What it should reach here; None where no reference is known."""
    basis: FigureBasis | None
    """How `expected_gbs` is known."""
    references: tuple[str, ...]
    """Where both figures are from."""
    ladder: tuple[Rung, ...]
    """Path, driver, library, data and all-reduce, each answered by itself."""
    why: tuple[str, ...]
    """The reasons, in sentences or clauses."""


class NicAnswer(Answer, frozen=True, kw_only=True, tag="gputop.nic/1"):
    """The NIC of one GPU in a job over several nodes."""

    gpu: str
    """PCI address."""
    nic: str | None
    """"mlx5_3"; None where no NIC is known that it could use."""
    place: str
    """How near it is, in words; "" where that is not known."""
    taken: bool
    """Whether NCCL or RCCL takes it, by its rules; else it is the nearest one."""
    why: tuple[str, ...]


class NumaAnswer(Answer, frozen=True, kw_only=True, tag="gputop.numa/1"):
    """The NUMA node next to one GPU, and its CPUs."""

    gpu: str
    """PCI address."""
    numa_node: int | None
    cpus: str | None
    """"0-31,64-95"."""
    why: tuple[str, ...]
    """Why something is not known."""


def pair_answer(node: Node, src: str, dst: str) -> P2pAnswer:
    """What two GPUs (PCI addresses) use; the node is decided."""
    found, rungs = pair_summary(node, src, dst), ladder(node, src, dst)
    cost = None if found.detour else costs_of(node).copy(src, dst)
    why = [found.because, *(rung.why for rung in rungs), *(cost.missing if cost else ())]
    return P2pAnswer(
        source=node.snapshot.source,
        assumptions=_assumptions(node),
        src=src,
        dst=dst,
        granted=_GRANTED.get(rungs[_DRIVER].state) if rungs else None,
        uses_p2p=None if found.state is PairState.OPEN else found.state is PairState.P2P,
        way=found.head,
        route=found.route,
        link_gbs=found.link_gbs,
        healthy_gbs=None if cost is None else cost.healthy,
        expected_gbs=None if cost is None else cost.here,
        basis=None if cost is None else cost.basis,
        references=() if cost is None else cost.sources,
        ladder=rungs,
        why=_once(why),
    )


def nic_answer(node: Node, gpu: Gpu) -> NicAnswer:
    """The NIC that the library takes for a GPU, else the nearest one; the node is decided."""
    machine = node.machine
    seen = machine.rdma or machine.interfaces or machine.nccl_topology is not None
    # Where no NIC was read, a prediction goes on with a made-up one.
    found = gpu_nics(node).get(gpu.address) if seen else None
    nothing = "no RDMA device of this node has a known place beside this GPU"
    why = (nothing if seen else "no NIC of this node was read",)
    return NicAnswer(
        source=node.snapshot.source,
        assumptions=_assumptions(node),
        gpu=gpu.address,
        nic=None if found is None else found.name,
        place="" if found is None else found.place,
        taken=found is not None and found.taken,
        why=why if found is None else tuple(filter(None, (found.text, found.because))),
    )


def numa_answer(node: Node, gpu: Gpu) -> NumaAnswer:
    """The NUMA node that the kernel or the driver tells for a GPU."""
    number, host = gpu_numa(gpu), node.machine.host
    of_host = (one.cpus for one in (() if host is None else host.numa) if one.node == number)
    cpus = gpu.cpu_affinity if number is None else next(of_host, None) or gpu.cpu_affinity
    unknown = gpu.why("numa_node") or "neither the kernel nor the driver tells it"
    return NumaAnswer(
        source=node.snapshot.source,
        assumptions=node.snapshot.assumptions,
        gpu=gpu.address,
        numa_node=number,
        cpus=cpus,
        why=(unknown,) if number is None else (),
    )


def _assumptions(node: Node) -> tuple[str, ...]:
    predicted = () if node.prediction is None else node.prediction.assumptions
    return tuple(dict.fromkeys((*node.snapshot.assumptions, *predicted)))


def _once(sentences: Iterable[str]) -> tuple[str, ...]:
    """Each sentence once, with its full stop or without."""
    found: dict[str, str] = {}
    for sentence in filter(None, sentences):
        found.setdefault(sentence.rstrip("."), sentence)
    return tuple(found.values())
