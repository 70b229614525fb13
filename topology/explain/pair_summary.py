"""What a pair of devices uses and why, in a headline and a few short facts."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from ..hardware.terms import terms_of
from ..model.severity import Word
from ..model.units import figure
from ..nccl.decide.steps import NEAR_ENOUGH
from ..nccl.prediction import NET, NO_TRANSPORT, SHM, PairDecision
from ..node import Node
from ..wiring.paths import Path, path_between, through_host
from ..wiring.relations import relation
from ..wiring.wires import WireKind
from .naming import name
from .nccl import pair_decision, refused_by_rule, why_no_p2p


class PairState(Word):
    """Whether a pair uses P2P; open where the library was not asked or cannot be."""

    P2P = "P2P"
    NO_P2P = "no P2P"
    OPEN = "open"


P2P, NO_P2P, OPEN = PairState
WITHOUT = {
    SHM: "NO P2P: shared memory in the host",
    NET: "NO P2P: over the network",
    NO_TRANSPORT: "NO TRANSPORT: the start fails",
}
"""Transport without P2P -> the headline."""

WIRES = {
    WireKind.NVLINK: "━",
    WireKind.XGMI: "━",
    WireKind.C2C: "━",
    WireKind.PCIE: "─",
    WireKind.SOCKET: "══",
    WireKind.NET: "┄",
}
"""Kind of a wire -> how it is drawn."""


class PairSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one ordered pair."""

    pair: str
    """"GPU0 → GPU5"."""
    state: PairState
    head: str
    """What it uses: "P2P over NVLink: 18 NVLinks", "NO P2P: shared memory in the host"."""
    because: str = ""
    """The evidence for that in one clause."""
    uses: str = ""
    """The transport as the log names it, with its path type; "" without a decision."""
    link_gbs: float | None = None
    """Payload of the narrowest link on the way that the bytes take, GB/s one way."""
    route: str = ""
    """That way, drawn; "" where it is not known."""
    detour: bool = False
    """The bytes take another way than a P2P copy of the two would."""
    by_rule: bool = False
    """No P2P by the library's own default, which is no fault."""


def pair_summary(node: Node, src: str, dst: str) -> PairSummary:
    """Say what two devices use; cheap, from what is known already."""
    decision = pair_decision(node, src, dst)
    relay = None if decision is None else relay_of(node, decision)
    ways = ways_of(node, src, dst)
    path = _narrowest(ways)
    state, head, because = _state(node, decision, path, relay, src, dst)
    direct = path_between(node.graph, src, dst)
    return PairSummary(
        pair=f"{name(node, src)} → {name(node, dst)}",
        state=state,
        head=head,
        because=because,
        uses="" if decision is None else f"{' and '.join(decision.labels)}, path {decision.path}",
        link_gbs=None if path is None else path.payload_gbs,
        route=_route(node, src, dst, ways),
        detour=state == NO_P2P and (direct is None or ways != (direct,)),
        by_rule=decision is not None and refused_by_rule(decision),
    )


def ways_of(node: Node, src: str, dst: str) -> tuple[Path | None, ...]:
    """The ways that the bytes take, one after the other; None for one that is not known.

    They are those of the library's decision, which need not be the best that the machine has.
    """
    decision = pair_decision(node, src, dst)
    relay = None if decision is None else relay_of(node, decision)
    if decision is not None and decision.transport == SHM:
        return (through_host(node.graph, src, dst),)
    if decision is not None and not decision.p2p:
        return (None,)  # nobody knows the network between two NICs
    stops = (src, dst) if relay is None else (src, relay, dst)
    return tuple(path_between(node.graph, start, end) for start, end in pairwise(stops))


def link_gbs(ways: tuple[Path | None, ...]) -> float | None:
    """Payload of the narrowest link on these ways, GB/s one way; None where none is known."""
    path = _narrowest(ways)
    return None if path is None else path.payload_gbs


def _narrowest(ways: tuple[Path | None, ...]) -> Path | None:
    return min(filter(None, ways), key=lambda path: path.payload_gbs or 0.0, default=None)


def relay_of(node: Node, decision: PairDecision) -> str | None:
    """The address of the GPU that passes the bytes on."""
    if decision.via is None or node.prediction is None:
        return None
    return next((p.src_bus_id for p in node.prediction.pairs if p.src == decision.via), None)


def _state(
    node: Node,
    decision: PairDecision | None,
    path: Path | None,
    relay: str | None,
    src: str,
    dst: str,
) -> tuple[PairState, str, str]:
    if decision is None:
        return _undecided(node, src, dst)
    if not decision.p2p:
        return NO_P2P, WITHOUT.get(decision.transport, decision.transport), why_no_p2p(decision)
    over = "" if path is None else _over(path, decision)
    if relay is not None:
        over = f"through {name(node, relay)}"
    near = next((s.because for s in decision.steps if s.question == NEAR_ENOUGH), "")
    return P2P, f"P2P {over}".strip(), near


def _over(path: Path, decision: PairDecision) -> str:
    wire = path.narrowest or path.wires[0]  # the first, where no rate is known
    if path.relayed:
        return "over xGMI, through other GPUs"
    if path.kind is WireKind.XGMI and wire.inside:
        return wire.name()
    if path.kind in (WireKind.NVLINK, WireKind.NVSWITCH, WireKind.XGMI):
        switch = " through NVSwitch" if path.kind is WireKind.NVSWITCH else ""
        return f"over {wire.name()}{switch}"
    return f"over PCIe ({decision.path})"


def _undecided(node: Node, src: str, dst: str) -> tuple[PairState, str, str]:
    """For GPUs: why nothing is decided. For others: how they are connected."""
    found = node.matrix.cell(src, dst) or relation(node.snapshot.machine, src, dst)
    machine = node.snapshot.machine
    if machine.gpu(src) is None or machine.gpu(dst) is None:
        return OPEN, f"{found.code}: {found.meaning}", ""
    library = terms_of(machine.gpus).library
    if not node.decided:
        return OPEN, f"working out what {library} does", ""
    why = node.why_no_prediction or f"{library} would not use both in one communicator"
    return OPEN, "P2P not known", f"no prediction: {why}"


# The way on one line, with GB/s of payload: "GPU0─31.5─sw─63─CPU0══CPU1─63─sw─31.5─GPU5".
def _route(node: Node, src: str, dst: str, ways: tuple[Path | None, ...]) -> str:
    """Draw the way from one device to another; "" where a part of it is not known."""
    drawn = name(node, src)
    for path in ways:
        if path is None:
            return ""
        drawn += _drawn(node, path).removeprefix(name(node, path.nodes[0]))
    return drawn


def _drawn(node: Node, path: Path) -> str:
    """Each chip once: the ports of one PCIe switch, and all that is inside one CPU, are one."""
    chips = [_chip(node, path, place) for place in range(len(path.nodes))]
    # A CPU without a number is the one beside it that has a number.
    steps = list(pairwise(range(len(chips))))
    for beside, place in (*steps, *((after, before) for before, after in reversed(steps))):
        if chips[place] == "CPU" and chips[beside].startswith("CPU"):
            chips[place] = chips[beside]
    drawn = chips[0]
    for place, wire in enumerate(path.wires):
        if not wire.inside or chips[place] != chips[place + 1]:
            line = WIRES.get(wire.kind, "─")
            rate = "" if wire.payload_gbs is None else figure(wire.payload_gbs)
            drawn += f"{line}{rate}{line if rate else ''}{chips[place + 1]}"
    return drawn


def _chip(node: Node, path: Path, place: int) -> str:
    vertex = path.nodes[place]
    kind = node.graph.nodes[vertex]["kind"]
    if place in (0, len(path.nodes) - 1) or kind in ("gpu", "nic"):
        return name(node, vertex)
    if kind == "nvswitch":
        return "NVSwitch"
    sockets = (one for one in (vertex, *node.graph[vertex]) if one.startswith("socket:"))
    if kind in ("numa", "socket") and (socket := next(sockets, "")):
        return f"CPU{socket.removeprefix('socket:')}"
    around = path.wires[place - 1 : place + 1]
    if any(wire.inside and wire.kind is WireKind.PCIE for wire in around):
        return "sw"
    return "CPU"
