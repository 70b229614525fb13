"""The decision of NCCL or RCCL about a pair, as facts of an explanation."""

from __future__ import annotations

from ..model.page import Fact, Page
from ..nccl.decide.steps import BY_DEFAULT, NEAR_ENOUGH, NETWORK, SHARED_MEMORY
from ..nccl.decide.summary import library_name
from ..nccl.prediction import NO_TRANSPORT, DecisionStep, PairDecision, Prediction
from ..node import Node

ABOUT = "nccl"


def pair_decision(node: Node, a: str, b: str) -> PairDecision | None:
    """Find the decision for two GPUs by PCI address; None when nothing was predicted for them."""
    prediction = node.prediction
    if prediction is None:
        return None
    return next(
        (pair for pair in prediction.pairs if (pair.src_bus_id, pair.dst_bus_id) == (a, b)), None
    )


def transport_claim(prediction: Prediction, pair: PairDecision) -> str:
    """Say in a sentence what is used: "NCCL 2.28.9 will use P2P/CUMEM (path type NVL)"."""
    name = library_name(prediction)
    if pair.transport == NO_TRANSPORT:
        return f"{name} finds no transport for this pair and stops."
    labels = " and ".join(pair.labels)
    return f"{name} will use {labels} (path type {pair.path})."


def refused_by_rule(pair: PairDecision) -> bool:
    """Whether the library's own default distance refuses P2P: by design, and no fault."""
    step = _refusal(pair)
    return (
        pair.transport != NO_TRANSPORT
        and step is not None
        and step.question == NEAR_ENOUGH
        and BY_DEFAULT in step.because
    )


def why_no_p2p(pair: PairDecision) -> str:
    """The evidence of the last no on the way to a pair without P2P; "" where P2P is used."""
    step = _refusal(pair)
    return "" if step is None else step.because


def _refusal(pair: PairDecision) -> DecisionStep | None:
    if pair.p2p or not pair.steps:
        return None
    asked = [step for step in pair.steps if step.question not in (SHARED_MEMORY, NETWORK)]
    refused = [step for step in asked if step.refuses]
    chosen = [step for step in asked if not step.refuses and step.decides]
    return (refused or chosen or [pair.steps[-1]])[-1]


def transport_facts(node: Node, a: str, b: str) -> list[Fact]:
    """List the library's questions about a pair in its order."""
    pair = pair_decision(node, a, b)
    if pair is None or node.prediction is None:
        return []
    name = node.prediction.library.name.upper()
    return [fact_of(step, f"{name}: ") for step in pair.steps]


def fact_of(step: DecisionStep, lead: str = "") -> Fact:
    """Turn a question of the library into a fact; `lead` stands in front of the question."""
    return Fact(
        what=f"{lead}{step.question}",
        value=step.answer,
        because=step.because,
        source=step.source,
        basis=step.basis,
        flag=step.flag or "",
        decides=step.decides,
        about=ABOUT,
    )


def library_first(why: Page) -> Page:
    """Put the library's questions in front of all others."""
    facts = sorted(why.facts, key=lambda fact: fact.about != ABOUT)
    claim = why.claim
    for name in ("NCCL ", "RCCL "):
        before, found, after = claim.partition(f". {name}")
        if found:
            claim = f"{name}{after} {before}."
            break
    return Page.why(
        title=why.title, claim=claim, facts=tuple(facts), impact=why.impact, fix=why.fix
    )
