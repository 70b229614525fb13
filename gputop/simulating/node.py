"""What a probe would find on a node: the expected figure, with the node's faults and some noise."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from gputop.measuring.runs import to_measurement
from gputop.probes.protocol.messages import DeviceRecord, MeasuredValue
from gputop.probes.protocol.quantity import Quantity
from gputop.probes.protocol.spec import ProbeSpec
from gputop.topology.expectation.judge import Judge
from gputop.topology.model.machine import Gpu
from gputop.topology.model.page import SIMULATED
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.wiring.gpu_names import gpu_label

SAMPLES = 5
_SPREAD = 0.004
"""How far a figure lies from the expected one at most, as a share. Copies over NVLink differ by
0.2 % between pairs and runs (gputop probe p2p on four H100), host copies by more."""
_RESTLESS = 0.001
"""How far the samples of one figure lie from its median."""


class SimulatedNode:
    """One node of a demo; the same question always gets the same answer."""

    def __init__(
        self, snapshot: NodeSnapshot, node: Node | None = None, *, healthy: bool = False
    ) -> None:
        """`node`: the same node with what follows from it, where somebody keeps it.

        `healthy`: answer as a node without faults would, and without noise.
        """
        self.snapshot = msgspec.structs.replace(snapshot, measurements=())
        self._healthy = healthy
        self.judge = Judge(self.snapshot, None if node is None else node.prediction)
        self._seed = ", ".join(snapshot.source)

    def gpu(self, address: str) -> Gpu:
        """The GPU with this address; KeyError where there is none."""
        found = self.snapshot.machine.gpu(address)
        if found is None:
            raise KeyError(address)
        return found

    def device(self, address: str, number: int) -> DeviceRecord:
        """A GPU as a worker names it."""
        gpu = self.gpu(address)
        return DeviceRecord(
            key=address,
            index=number,
            name=gpu.name or gpu_label(gpu),
            pci_address=address,
            uuid=gpu.uuid,
            memory_bytes=gpu.memory_bytes,
        )

    def expected(
        self, figure: MeasuredValue, more: Mapping[str, Any] | None = None
    ) -> float | None:
        """What this node should give, its faults included; None where nothing says so.

        `more`: details that the app adds to what a worker says.
        """
        found = self.judge.expected(_asked(figure, more))
        if found.band is not None and self._healthy:
            return found.band.healthy
        if found.band is None or found.settled:
            # Settled: the link is gone, and no reference is of the path that is left.
            return None
        reach = found.band.reach
        return found.band.healthy if reach is None else reach

    def filled(self, figure: MeasuredValue, value: float) -> MeasuredValue:
        """The figure with its value, which differs a little from the given one, and its samples."""
        name = (self._seed, figure.name, figure.src, figure.dst, figure.variant)
        if self._healthy:
            return dataclasses.replace(figure, value=value)
        value *= 1 + _SPREAD * _noise(*name, figure.bytes_per_copy)
        offsets = (_noise(*name, figure.bytes_per_copy, number) for number in range(SAMPLES))
        samples = sorted(value * (1 + _RESTLESS * offset) for offset in offsets)
        samples = [float(f"{sample:.5g}") for sample in samples]
        return dataclasses.replace(
            figure,
            value=samples[SAMPLES // 2],
            minimum=samples[0],
            maximum=samples[-1],
            samples=tuple(samples),
        )

    def simulated(self, figure: MeasuredValue) -> tuple[MeasuredValue, ...]:
        """The figure with the value that it has or should have; () where nothing says which.

        An answer in words has no unit and stays as it is.
        """
        if figure.unit is None:
            return (figure,)
        value = self.expected(figure) if figure.value is None else figure.value
        return () if value is None else (self.filled(figure, value),)


def template(
    spec: ProbeSpec, quantity: Quantity, src: str = "", dst: str = "", **more: Any
) -> MeasuredValue:
    """A figure of a probe without its value."""
    return MeasuredValue(
        name=quantity.key,
        src=src,
        dst=dst,
        method=f"{spec.method}, {SIMULATED}",
        device_kind=SIMULATED,
        unit=quantity.unit or None,
        **{"counted": quantity.counted, "engine": "", "direction": "", **more},
    )


def _asked(figure: MeasuredValue, more: Mapping[str, Any] | None) -> Measurement:
    return to_measurement(figure, "", None, more)


def _noise(*name: object) -> float:
    """A number from -1 to 1 that depends on the name alone."""
    return zlib.crc32(repr(name).encode()) / 0x7FFFFFFF - 1.0
