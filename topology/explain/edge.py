"""Why an edge is as fast as it is."""

from __future__ import annotations

from ..model.page import ASSUMED, READ, Fact, Page
from ..model.units import UNKNOWN, gbs
from ..node import Node
from ..wiring.wires import PCIE_GENERATION, Wire, WireKind
from .naming import name

RATES = "raw = signalling, payload = after the line code; packet headers take a part of that too"


def why_edge(node: Node, a: str, b: str) -> Page:
    """Explain the edge between two nodes of the graph, or say that they are not neighbours."""
    nodes = node.graph.nodes
    title = f"{name(node, a)} — {name(node, b)}"
    if a not in nodes or b not in nodes or not node.graph.has_edge(a, b):
        return Page.why(title=title, claim="No wire joins the two directly.")
    wire: Wire = node.graph.edges[a, b]["wire"]
    if wire.inside:
        return Page.why(
            title=title,
            claim=f"This step is {wire.name()}: no link of its own, and its rate is not published.",
            facts=(Fact(what="How is it known?", value=wire.source, source="the PCI tree"),),
        )
    facts = [*rate_facts(wire), *_now(node, a, b, wire)]
    return Page.why(title=title, claim=f"{wire.words()}.", facts=tuple(facts))


def rate_facts(wire: Wire, question: str = "What is it?") -> list[Fact]:
    """State what a wire is and what it carries."""
    basis = ASSUMED if wire.assumed else READ
    what = wire.name()
    if wire.kind is WireKind.NVLINK and wire.generation is not None:
        what += f" of version {wire.generation}"
    facts = [Fact(what=question, value=what, because=wire.source, basis=basis, source="")]
    if wire.inside:
        return facts
    if wire.payload_gbs is None:
        why = wire.source or "nothing says how fast it is"
        facts.append(
            Fact(what="How fast is it?", value=UNKNOWN, because=why, basis=basis, source="")
        )
        return facts
    because = RATES
    if wire.kind in (WireKind.NVLINK, WireKind.XGMI, WireKind.C2C):
        because += f"; a data sheet adds both ways: {gbs(2 * wire.payload_gbs)}"
    rate = f"{gbs(wire.payload_gbs)} payload one way"
    if wire.raw_gbs is not None:
        rate = f"{gbs(wire.raw_gbs)} raw, {rate}"
    facts.append(
        Fact(
            what="How fast is it?",
            value=rate,
            because=because,
            basis=basis,
            source="",
        )
    )
    return facts


def _now(node: Node, a: str, b: str, wire: Wire) -> list[Fact]:
    if wire.kind is not WireKind.PCIE:
        return []
    readings = (reading for reading in node.snapshot.readings.pci if reading.address in (a, b))
    speeds = [speed for end in readings if (speed := end.link_speed_gts) is not None]
    facts: list[Fact] = []
    if wire.count and wire.count_max and wire.count < wire.count_max:
        facts.append(
            Fact(
                what="Are all lanes up?",
                value=f"x{wire.count} of x{wire.count_max}",
                because="lanes do not drop while a device sleeps, so this is how it trained",
                source="sysfs current_link_width",
            )
        )
    if speeds and wire.gts is not None:
        low = min(speeds) < wire.gts
        facts.append(
            Fact(
                what="How fast does it run at this moment?",
                value=f"gen{PCIE_GENERATION.get(min(speeds), UNKNOWN)} ({min(speeds)} GT/s)",
                because="an idle link slows down to save power: only a reading under load tells"
                if low
                else "as fast as both ends can do",
                source="sysfs current_link_speed",
            )
        )
    return facts
