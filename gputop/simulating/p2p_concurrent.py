"""The probe p2p-concurrent, simulated: the patterns of copies for which a reference exists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gputop.probes.catalog.p2p.concurrent import SPEC
from gputop.probes.catalog.p2p.patterns import Pattern, patterns
from gputop.probes.catalog.p2p.quantities import CONCURRENT, CONCURRENT_TOTAL
from gputop.probes.protocol.messages import DeviceRecord, MeasuredValue
from gputop.probes.protocol.sizing import MIB
from gputop.simulating.node import SimulatedNode, blank
from gputop.simulating.step import SimulatedStep

_BYTES = 128 * MIB


def steps(
    node: SimulatedNode, devices: Sequence[DeviceRecord], params: Mapping[str, Any]
) -> Iterator[SimulatedStep]:
    """One step for each pattern with a figure."""
    for pattern in patterns(len(devices), params["level"]):
        figures = _figures(node, devices, pattern)
        if figures:
            yield SimulatedStep(_title(pattern, devices), figures)


def _title(pattern: Pattern, devices: Sequence[DeviceRecord]) -> str:
    return pattern.name if pattern.hub is None else f"{pattern.name} ({devices[pattern.hub].key})"


def _figures(
    node: SimulatedNode, devices: Sequence[DeviceRecord], pattern: Pattern
) -> tuple[MeasuredValue, ...]:
    """Each pair's figure and their sum; () where a pair has no reference in this pattern."""
    variant = _title(pattern, devices)
    found: list[MeasuredValue] = []
    for src, dst in pattern.flows:
        a, b = devices[src].key, devices[dst].key
        found += node.simulated(
            blank(
                SPEC,
                CONCURRENT,
                a,
                b,
                engine="copy engine",
                direction=f"{a} writes into {b}: {pattern.name}",
                variant=variant,
                bytes_per_copy=_BYTES,
            )
        )
    if len(found) < len(pattern.flows):
        return ()
    if len(found) > 1:
        hub = "" if pattern.hub is None else devices[pattern.hub].key
        total = blank(
            SPEC,
            CONCURRENT_TOTAL,
            hub if pattern.name == "one to all" else "",
            hub if pattern.name == "all to one" else "",
            engine="copy engine",
            direction=f"{pattern.name}, {len(found)} pairs, at once, until the last is done",
            variant=variant,
            bytes_per_copy=_BYTES,
            details={"pairs": len(found)},
        )
        found.append(node.filled(total, sum(figure.value or 0.0 for figure in found)))
    return tuple(found)
