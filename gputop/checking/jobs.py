"""Where the jobs of a node stand, as findings of its check."""

from __future__ import annotations

import msgspec

from gputop.simulating.jobs import simulated
from gputop.topology.jobs.asking import ask_live
from gputop.topology.jobs.finding import finding_of
from gputop.topology.model.snapshot import NodeSnapshot


def with_jobs(node: NodeSnapshot, demo: str | None) -> NodeSnapshot:
    """The node with one finding for each job on it: its sentence, what proves it, what to look at.

    Asks what `gputop jobs` asks, NCCL's RAS service of this machine included; of a demo, whose
    jobs nobody runs, the answer is simulated.
    """
    report = simulated(node, demo) if demo else ask_live(node, ras=True)
    found = tuple(map(finding_of, report.jobs))
    return msgspec.structs.replace(node, symptoms=(*node.symptoms, *found))
