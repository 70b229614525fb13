"""The probe memory, simulated: the memory of each GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gputop.probes.catalog.memory import SPEC
from gputop.probes.engine.memory_work import DRIVER_COPY, OPERATIONS
from gputop.probes.protocol.messages import DeviceRecord
from gputop.probes.protocol.sizing import GIB
from gputop.simulating.node import SimulatedNode, blank
from gputop.simulating.step import SimulatedStep

_BYTES = 2 * GIB


def steps(
    node: SimulatedNode, devices: Sequence[DeviceRecord], params: Mapping[str, Any]
) -> Iterator[SimulatedStep]:
    """Every operation on every GPU."""
    for device in devices:
        for operation in OPERATIONS:
            figure = blank(
                SPEC,
                operation.quantity,
                device.key,
                engine="copy engine" if operation is DRIVER_COPY else "kernel",
                direction=f"{device.key} {operation.what} its own memory",
                verdict="verified",
                variant=operation.variant,
                bytes_per_copy=_BYTES,
            )
            found = node.simulated(figure)
            if found:
                words = f"{operation.quantity.key.replace('_', ' ')} {operation.variant}"
                yield SimulatedStep(f"{device.key}: {words}".strip(), found)
