"""The probe gemm, simulated: matrix multiplications of each GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gputop.probes.catalog.gemm.cases import cases
from gputop.probes.catalog.gemm.probe import SPEC
from gputop.probes.catalog.gemm.report import GEMM
from gputop.probes.protocol.messages import DeviceRecord, MeasuredValue
from gputop.simulating.node import SimulatedNode, blank
from gputop.simulating.step import SimulatedStep


def steps(
    node: SimulatedNode, devices: Sequence[DeviceRecord], params: Mapping[str, Any]
) -> Iterator[SimulatedStep]:
    """Each case on all GPUs."""
    for case in cases(params["level"]):
        figures: list[MeasuredValue] = []
        for device in devices:
            figures += node.simulated(
                blank(
                    SPEC,
                    GEMM,
                    device.key,
                    engine=case.entry,
                    direction=f"{device.key} multiplies in its own memory",
                    variant=case.name,
                    details={
                        "dtype": case.dtype, "m": case.m, "k": case.k, "n": case.n,
                        "entry": case.entry,
                    },
                )
            )  # fmt: skip
        if figures:
            yield SimulatedStep(case.name, tuple(figures))
