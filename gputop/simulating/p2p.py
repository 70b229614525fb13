"""The probe p2p, simulated: access, arrival, copies both ways, kernels, and copies by size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gputop.probes.catalog.p2p import quantities as p2p
from gputop.probes.catalog.p2p.plan import PLANS, Kinds, couples, ordered
from gputop.probes.catalog.p2p.probe import SPEC
from gputop.probes.protocol.messages import DeviceRecord, MeasuredValue
from gputop.probes.protocol.quantity import Quantity
from gputop.probes.protocol.sizing import GIB, KIB, MIB
from gputop.simulating.node import SimulatedNode, blank
from gputop.simulating.step import SimulatedStep

COPY_BYTES = 512 * MIB
_COPIES = 16
_STORE_BYTES = 4 * MIB
START_SECONDS = 4.5e-6
"""How long a copy takes before its first byte moves: 4 KiB take 4.5 us between two H200 over NVLink
(gputop probe p2p). Other links start alike within a few us; nobody published theirs."""
_COPY, _KERNEL = "copy engine", "kernel"
_ONE_WAY = (
    (p2p.READ, _COPY, "{src} reads the memory of {dst}, nothing else running"),
    (p2p.KERNEL_WRITE, _KERNEL, "a kernel of {src} writes into {dst}, nothing else running"),
    (p2p.KERNEL_READ, _KERNEL, "a kernel of {src} reads the memory of {dst}, nothing else running"),
)


def steps(
    node: SimulatedNode, devices: Sequence[DeviceRecord], params: Mapping[str, Any]
) -> Iterator[SimulatedStep]:
    """All pairs, in the order of the probe; `params`: those of the request."""
    plan = PLANS[params["level"]]
    pairs = ordered(devices)
    granted = {(src.key, dst.key): _granted(node, src, dst) for src, dst in pairs}
    kinds = Kinds(params.get("kinds"), granted)
    twos = couples(devices)
    both = twos if plan.both_ways_of_all else kinds.samples(twos)
    for a, b in twos:
        for src, dst in ((a, b), (b, a)):
            figures = _one_direction(node, src, dst, granted[src.key, dst.key])
            yield SimulatedStep(f"{src.key} to {dst.key}", figures)
        if (a, b) in both and granted[a.key, b.key]:
            yield SimulatedStep(f"{a.key} and {b.key}, both ways", _both_ways(node, a, b))
    for src, dst in pairs if plan.other_paths else ():
        if granted[src.key, dst.key]:
            what = f"{src.key} to {dst.key}, reading and kernels"
            yield SimulatedStep(what, _other_paths(node, src, dst))
    swept = pairs if plan.extras_of_all else kinds.samples(pairs)
    for src, dst in swept if plan.sweep_factor else ():
        if granted[src.key, dst.key]:
            what = f"{src.key} to {dst.key}, by size"
            yield SimulatedStep(what, tuple(_sweep(node, src, dst, plan.sweep_factor)))


def _granted(node: SimulatedNode, src: DeviceRecord, dst: DeviceRecord) -> bool:
    said = node.snapshot.machine.pair(src.key, dst.key)
    return said is not None and said.p2p_read == "ok" and said.p2p_write == "ok"


def _one_direction(
    node: SimulatedNode, src: DeviceRecord, dst: DeviceRecord, granted: bool
) -> tuple[MeasuredValue, ...]:
    asks = f"{src.key} asks for the memory of {dst.key}"
    stores = f"{src.key} stores into {dst.key}, which reads its own memory"
    access, arrival = ("granted", "arrived") if granted else ("not-granted", "not-granted")
    words = (
        blank(SPEC, p2p.ACCESS, src.key, dst.key, direction=asks, verdict=access),
        blank(
            SPEC,
            p2p.ARRIVAL,
            src.key,
            dst.key,
            engine="kernel store",
            direction=stores,
            verdict=arrival,
            checked_bytes=_STORE_BYTES if granted else None,
            wrong_bytes=0 if granted else None,
        ),
    )
    if not granted:
        return words
    direction = f"{src.key} writes into {dst.key}, nothing else running"
    return (*words, *node.simulated(_copy(p2p.WRITE, src, dst, _COPY, direction, "verified")))


def _both_ways(node: SimulatedNode, a: DeviceRecord, b: DeviceRecord) -> tuple[MeasuredValue, ...]:
    found: list[MeasuredValue] = []
    for src, dst in ((a, b), (b, a)):
        direction = f"{src.key} writes into {dst.key} while {dst.key} writes into {src.key}"
        found += node.simulated(_copy(p2p.BOTH_WAYS, src, dst, _COPY, direction))
    if len(found) == 2:
        direction = f"{a.key} and {b.key} write into each other, both added"
        added = sum(figure.value or 0.0 for figure in found)
        found.append(node.filled(_copy(p2p.TOGETHER, a, b, _COPY, direction), added))
    return tuple(found)


def _other_paths(
    node: SimulatedNode, src: DeviceRecord, dst: DeviceRecord
) -> tuple[MeasuredValue, ...]:
    found: list[MeasuredValue] = []
    for quantity, engine, words in _ONE_WAY:
        direction = words.format(src=src.key, dst=dst.key)
        found += node.simulated(_copy(quantity, src, dst, engine, direction, "verified"))
    chases = f"a kernel of {src.key} follows pointers in the memory of {dst.key}"
    latency = blank(
        SPEC, p2p.KERNEL_LATENCY, src.key, dst.key, engine=_KERNEL, direction=chases,
        bytes_per_copy=8,
    )  # fmt: skip
    return (*found, *node.simulated(latency))


def _sweep(
    node: SimulatedNode, src: DeviceRecord, dst: DeviceRecord, factor: int
) -> Iterator[MeasuredValue]:
    """Copies by size: the start of a copy, then its bytes at the rate of a large one."""
    direction = f"{src.key} writes into {dst.key}, copy after copy of one size"
    rate_gbs = node.expected(_copy(p2p.SWEEP, src, dst, _COPY, direction))
    size = 4 * KIB
    while rate_gbs is not None and size <= GIB:
        seconds = START_SECONDS + size / (rate_gbs * 1e9)
        figure = blank(
            SPEC, p2p.SWEEP, src.key, dst.key, engine=_COPY, direction=direction,
            bytes_per_copy=size, details={"time_us": round(1e6 * seconds, 3)},
        )  # fmt: skip
        yield node.filled(figure, size / seconds / 1e9)
        size *= factor


def _copy(
    quantity: Quantity,
    src: DeviceRecord,
    dst: DeviceRecord,
    engine: str,
    direction: str,
    verdict: str | None = None,
) -> MeasuredValue:
    return blank(
        SPEC,
        quantity,
        src.key,
        dst.key,
        engine=engine,
        direction=direction,
        verdict=verdict,
        bytes_per_copy=COPY_BYTES,
        copies_per_sample=_COPIES,
    )
