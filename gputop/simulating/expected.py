"""What a probe should find on a healthy node of this kind: shown before anything was measured."""

from __future__ import annotations

import msgspec

from gputop.measuring.runs import request_for, to_measurement, worker_request
from gputop.simulating import NAMES
from gputop.simulating.node import SimulatedNode
from gputop.simulating.session import steps_of
from gputop.topology.model.snapshot import Measurement
from gputop.topology.report import Report

OF_PAIRS = ("p2p", "p2p-concurrent")
OF_ALL = ("collectives",)
"""Probes whose figures depend on how many GPUs take part; of others one GPU or pair is enough."""


def expected_figures(report: Report, probe: str) -> tuple[Measurement, ...]:
    """The figures of one probe on a healthy node like this; () where nothing says what they are."""
    machine = report.snapshot.machine
    gpus = tuple(gpu.address for gpu in machine.gpus)
    if probe not in NAMES or len(gpus) < (2 if probe in (*OF_PAIRS, *OF_ALL) else 1):
        return ()
    if probe not in OF_ALL:
        gpus = gpus[: 2 if probe in OF_PAIRS else 1]
    node = SimulatedNode(report.snapshot, report.node, healthy=True)
    request = request_for(probe, machine, gpus)
    steps = steps_of(node, worker_request(request, 1.0))
    return tuple(
        msgspec.structs.replace(to_measurement(figure, probe, None), taken_at=None)
        for step in steps
        for figure in step.figures
    )
