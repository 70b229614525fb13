"""The probe collectives, simulated: bus bandwidth by message size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from gputop.probes.catalog.collectives.operations import BY_NAME, Operation
from gputop.probes.catalog.collectives.plan import sizes
from gputop.probes.catalog.collectives.probe import SPEC
from gputop.probes.protocol.messages import DeviceRecord, MeasuredValue
from gputop.simulating.node import SimulatedNode, blank
from gputop.simulating.step import SimulatedStep
from gputop.topology.expectation.collectives import COLLECTIVES
from gputop.topology.hardware.vendors import vendor_of
from gputop.topology.model import units


def steps(
    node: SimulatedNode, devices: Sequence[DeviceRecord], params: Mapping[str, Any]
) -> Iterator[SimulatedStep]:
    """Every operation, form and size that a reference or the library's own model covers."""
    forms = 1 if params["level"] == "quick" else None
    addresses = [device.key for device in devices]
    for operation in BY_NAME.values():
        for form in operation.forms[:forms]:
            curve = _Curve(node, operation, form, addresses, dict(params.get("set") or {}))
            for size in sizes(operation.name, params, cpu=False):
                figures = curve.at(size)
                if figures:
                    what = f"{operation.title} of {units.size(size)}, {form}"
                    yield SimulatedStep(what, figures)


class _Curve:
    """One operation over message sizes."""

    def __init__(
        self,
        node: SimulatedNode,
        operation: Operation,
        form: str,
        addresses: list[str],
        variables: dict[str, str],
    ) -> None:
        self._node = node
        self._operation = operation
        self._form = form
        self._addresses = addresses
        self._variables = variables
        self._model = _model(node, operation, addresses)

    def at(self, size: int) -> tuple[MeasuredValue, ...]:
        """The figure at one size; () where nothing says what it should be."""
        figure = self._blank(size)
        value = self._expected(size)
        if value is None:
            # Small messages: the library's model gives the shape, the reference the height.
            for least, there in sorted(self._model.items()):
                height = self._expected(least) if least > size else None
                here = _seconds(self._model, size)
                if height is not None and here:
                    value = height * (size / here) / (least / there)
                    break
        return () if value is None else (self._node.filled(figure, value),)

    def _expected(self, size: int) -> float | None:
        more = {"devices": self._addresses}
        return self._node.expected(self._blank(size), more)

    def _blank(self, size: int) -> MeasuredValue:
        ranks = len(self._addresses)
        return blank(
            SPEC,
            self._operation.quantity,
            engine=vendor_of(self._node.gpu(self._addresses[0])).library,
            direction=f"{self._operation.title} of {units.size(size)}, by all {ranks} ranks",
            verdict="verified",
            variant=self._form,
            bytes_per_copy=size,
            details={"ranks": ranks, "dtype": "float32", "variables": self._variables},
        )


def _model(node: SimulatedNode, operation: Operation, addresses: list[str]) -> dict[int, float]:
    """Bytes -> seconds of one call by the library's own model; {} where it has none."""
    _, collective = COLLECTIVES.get(operation.quantity.key, ("", ""))
    everyone = len(addresses) == len(node.snapshot.machine.gpus)
    made = node.judge.variables.without({}, None if everyone else tuple(addresses))
    if made is None or not collective:
        return {}
    return {
        choice.bytes: choice.time_us * 1e-6
        for choice in made.choices
        if choice.collective == collective and choice.time_us > 0
    }


def _seconds(model: Mapping[int, float], size: int) -> float | None:
    """The model at a size: straight between two of its sizes, and on below the smallest."""
    known = sorted(model.items())
    for (low, before), (high, after) in pairwise(known):
        if size <= high:
            return before + (size - low) / (high - low) * (after - before)
    return None
