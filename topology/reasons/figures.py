"""What was measured of a pair, beside what a healthy one gives."""

from __future__ import annotations

from ..machine import Gpu
from ..report import Report
from ..snapshot import Measurement
from ..specs import GOOD, LOOK, Figure, sku_for
from ..units import figure, gbs
from ..wiring.paths import Path
from .fact import ASSUMED, MEASURED, READ, Fact

TITLES = {
    "write_bandwidth": "How fast was it, one way?",
    "both_ways_bandwidth": "How fast was it while the other way ran too?",
    "together_bandwidth": "How fast were both ways, added?",
    "read_bandwidth": "How fast was reading, one way?",
    "kernel_write_bandwidth": "How fast did a kernel write there?",
    "kernel_read_bandwidth": "How fast did a kernel read there?",
    "staged_bandwidth": "How fast was it through the host's memory?",
    "concurrent_bandwidth": "How fast was it while others copied?",
    "latency": "How long does a small copy take?",
    "kernel_latency": "How long does a load of a kernel take?",
    "bytes_arrive": "Do bytes arrive?",
    "can_access": "Can one reach the other's memory?",
    "send_receive": "How fast does NCCL or RCCL move data here?",
    "transport": "What did NCCL or RCCL use when it ran?",
}
QUANTITIES = {
    "write_bandwidth": "p2p_uni",
    "both_ways_bandwidth": "p2p_bidir",
    "together_bandwidth": "p2p_bidir",
}
"""What was measured -> the published figure to hold it against."""
WAYS = {"write_bandwidth": 1, "both_ways_bandwidth": 1, "together_bandwidth": 2}
"""Directions that a measured figure adds up."""
PUBLISHED_WAYS = {"p2p_uni": 1, "p2p_bidir": 2}
"""Directions that a published figure adds up."""
SWEEPS = ("write_sweep",)
"""A curve, which is drawn and not told."""
FAST = ("nvlink", "nvswitch", "xgmi")


def measured_facts(report: Report, one: Gpu, other: Gpu, path: Path | None) -> list[Fact]:
    """State every figure that the snapshot holds for a pair, newest kept by the collector."""
    found = [
        item
        for item in report.snapshot.measurements
        if (item.src, item.dst) == (one.address, other.address) and item.quantity not in SWEEPS
    ]
    healthy = _healthy(one, other, path)
    facts = [_measured(item, path, healthy) for item in found]
    if not any(item.quantity in QUANTITIES for item in found):
        facts.append(_expected(healthy, path))
    if not found:
        facts.append(
            Fact(
                question="What was measured?",
                answer="nothing yet",
                because="press p to measure this pair; a grant and a link state prove no transfer",
            )
        )
    return facts


def _healthy(one: Gpu, other: Gpu, path: Path | None) -> dict[str, Figure]:
    """Find published figures of this pair's kind of path; {} where there is no reference."""
    sku = sku_for(one)
    if sku is None or path is None or path.payload_gbs is None or sku != sku_for(other):
        return {}
    if path.kind not in FAST or sku.pair_gbs is None or one.mig_enabled or other.mig_enabled:
        return {}
    found = {name: sku.figure(name) for name in QUANTITIES.values()}
    return {name: item for name, item in found.items() if item and item.fraction is not None}


def _reference(item: Figure, path: Path | None, ways: int) -> tuple[float, str, bool]:
    """Give the figure to expect, its source, and whether it was scaled to fewer links."""
    if path is None or path.payload_gbs is None or item.fraction is None:
        return item.measured, item.source, False
    expected = item.fraction * path.payload_gbs * ways
    published = item.measured / PUBLISHED_WAYS[item.quantity] * ways
    scaled = abs(expected - published) > 0.01 * published
    source = f"{item.kind} figure of {item.source}"
    return expected, source + (", scaled to the links that are up" if scaled else ""), scaled


def _expected(healthy: dict[str, Figure], path: Path | None) -> Fact:
    item = healthy.get("p2p_uni")
    question = "What should a copy reach, one way?"
    if item is None:
        because = "no published figure fits this model and kind of path"
        return Fact(question=question, answer="no reference", because=because)
    value, source, scaled = _reference(item, path, 1)
    return Fact(
        question=question,
        answer=f"about {gbs(value)}",
        because=f"{item.fraction:.0%} of the payload rate, as others measured",
        source=source,
        basis=ASSUMED if scaled else READ,
    )


def _measured(item: Measurement, path: Path | None, healthy: dict[str, Figure]) -> Fact:
    question = TITLES.get(item.quantity, f"{item.quantity}?")
    how = [text for text in (item.engine, item.direction, item.method) if text]
    source = f"probe {item.probe}" + (f" ({', '.join(how)})" if how else "")
    if item.value is None:
        answer = item.verdict or "no figure"
        because = item.why_none or item.why("value") or _verdict(item)
        return Fact(
            question=question, answer=answer, because=because, source=source, basis=MEASURED
        )
    answer = f"{figure(item.value)} {item.unit or ''}".strip()
    if item.low is not None and item.high is not None:
        answer += f" ({figure(item.low)} to {figure(item.high)})"
    parts: list[str] = []
    ways = WAYS.get(item.quantity)
    if item.verdict == "wrong-data":
        parts.append("the data that arrived was wrong, so the speed means nothing")
    elif ways and path is not None and path.payload_gbs and item.unit == "GB/s":
        payload = path.payload_gbs * ways
        parts.append(f"{item.value / payload:.0%} of {gbs(payload)} payload")
        parts.append(_judged(item, path, healthy, ways))
    return Fact(
        question=question, answer=answer, because="; ".join(parts), source=source, basis=MEASURED
    )


def _judged(item: Measurement, path: Path, healthy: dict[str, Figure], ways: int) -> str:
    if "staged" in (item.engine or ""):
        return "staged through the host's memory, which is no P2P: not held against a figure"
    known = healthy.get(QUANTITIES[item.quantity])
    if known is None or item.value is None:
        return "no reference for this model and kind of path"
    expected, source, _ = _reference(known, path, ways)
    share = item.value / expected
    word = "good" if share >= GOOD else "look at it" if share >= LOOK else "low"
    return f"healthy is about {gbs(expected)} ({source}): {word}"


def _verdict(item: Measurement) -> str:
    if item.quantity == "bytes_arrive" and item.verdict == "arrived":
        return "a kernel stored into the other GPU's memory and that GPU read it back, byte by byte"
    return ""
