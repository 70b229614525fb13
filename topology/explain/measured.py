"""What was measured between two GPUs, beside what a healthy pair reaches."""

from __future__ import annotations

from ..expectation.judge import Judge
from ..expectation.judgement import ESTIMATE, Expected, Judgement, percent
from ..expectation.pairs import OF_PAIRS, QUANTITIES
from ..model import quantities
from ..model.machine import Gpu
from ..model.page import ASSUMED, READ, Fact
from ..model.snapshot import Measurement
from ..model.units import figure, gbs
from ..node import Node
from ..wiring.paths import Path

TITLES = {
    quantities.WRITE: "How fast was it, one way?",
    quantities.BOTH_WAYS: "How fast was it while the other way ran too?",
    quantities.TOGETHER: "How fast were both ways, added?",
    quantities.READ: "How fast was reading, one way?",
    quantities.KERNEL_WRITE: "How fast did a kernel write there?",
    quantities.KERNEL_READ: "How fast did a kernel read there?",
    quantities.STAGED: "How fast was it through the host's memory?",
    quantities.CONCURRENT: "How fast was it while others copied?",
    quantities.LATENCY: "How long does a small copy take?",
    quantities.KERNEL_LATENCY: "How long does a load of a kernel take?",
    quantities.BYTES_ARRIVE: "Data verified?",
    quantities.CAN_ACCESS: "Can one reach the other's memory?",
    quantities.SEND_RECEIVE: "How fast does NCCL or RCCL move data here?",
    quantities.TRANSPORT: "What did NCCL or RCCL use when it ran?",
}
SWEEPS = (quantities.WRITE_SWEEP,)
"""Curves, which are drawn and not described in words."""


def measured_facts(node: Node, one: Gpu, other: Gpu, path: Path | None) -> list[Fact]:
    """State every figure that the snapshot holds for a pair; the collector keeps the newest."""
    found = [
        item
        for item in node.snapshot.measurements
        if (item.src, item.dst) == (one.address, other.address) and item.quantity not in SWEEPS
    ]
    judge = Judge(node.snapshot, node.prediction)
    judged = zip(found, judge.judge(found), strict=True)
    facts = [_measured(item, path, judgement) for item, judgement in judged]
    if not any(item.quantity in QUANTITIES for item in found):
        asked = Measurement(
            probe="", quantity=quantities.WRITE, src=one.address, dst=other.address, unit="GB/s"
        )
        facts.append(_expected(judge.expected(asked), path))
    if not found:
        facts.append(
            Fact(
                what="What was measured?",
                value="not tested yet",
                because="press p to measure this pair",
                source="",
            )
        )
    return facts


def _expected(expected: Expected, path: Path | None) -> Fact:
    question = "What should a copy reach, one way?"
    made = expected.band
    if made is None:
        return Fact(what=question, value="no reference", because=expected.note, source="")
    parts = []
    if path is not None and path.payload_gbs:
        share = made.healthy / path.payload_gbs
        parts.append(f"{percent(share)} of the payload rate, as others measured")
    if made.reach is not None:
        parts.append(f"{gbs(made.reach)} with what is there")
    parts += made.scaled
    return Fact(
        what=question,
        value=f"about {gbs(made.healthy)}",
        because="; ".join(parts),
        source=f"{made.basis} figure of {made.source}",
        basis=ASSUMED if made.basis == ESTIMATE else READ,
    )


def _measured(item: Measurement, path: Path | None, judgement: Judgement) -> Fact:
    question = TITLES.get(item.quantity, f"{item.quantity}?")
    how = [text for text in (item.engine, item.direction, item.method) if text]
    source = item.source + (f" ({', '.join(how)})" if how else "")
    if item.value is None:
        answer = item.verdict or "no figure"
        because = item.why_none or item.why("value") or _verdict(item)
        return Fact(what=question, value=answer, because=because, source=source, basis=item.basis)
    answer = f"{figure(item.value)} {item.unit or ''}".strip()
    if item.low is not None and item.high is not None:
        answer += f" ({figure(item.low)} to {figure(item.high)})"
    parts: list[str] = []
    _, ways = QUANTITIES.get(item.quantity, ("", None))
    if item.verdict == "wrong-data":
        parts.append("the data that arrived was wrong, so the speed means nothing")
    elif item.quantity in OF_PAIRS:
        if ways and path is not None and path.payload_gbs and item.unit == "GB/s":
            payload = path.payload_gbs * ways
            parts.append(f"{percent(item.value / payload)} of {gbs(payload)} payload")
        parts.append(_judged(judgement))
    return Fact(
        what=question, value=answer, because="; ".join(parts), source=source, basis=item.basis
    )


def _judged(judgement: Judgement) -> str:
    made = judgement.band
    text = judgement.verdict
    text += f" ({judgement.note})" if judgement.note else ""
    text += f", {judgement.cause}" if judgement.cause else ""
    if made is None or made.basis == ESTIMATE:
        return text
    unit = gbs(made.healthy) if made.unit == "GB/s" else f"{figure(made.healthy)} {made.unit}"
    return f"healthy is about {unit} ({made.basis} figure of {made.source}): {text}"


def _verdict(item: Measurement) -> str:
    if item.quantity == quantities.BYTES_ARRIVE and item.verdict == "arrived":
        return "a kernel stored into the other GPU's memory and that GPU read it back, byte by byte"
    return ""
