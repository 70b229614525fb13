"""Makes the part of a node's file that a fleet compares."""

from __future__ import annotations

from ..model.snapshot import NodeSnapshot
from ..nccl.prediction import Prediction
from ..node import Node
from .facts import digest, digests_of, facts_of, machine_digest, product_of
from .figures import figures_of
from .section import FleetSection, NodeOrigin

HOST_MEMORY = "memory of the host"


def section_of(
    node: Node,
    origin: NodeOrigin,
    *,
    prediction: Prediction | None = None,
    written_at: float | None = None,
    with_snapshot: bool = False,
) -> FleetSection:
    """The section of one node; `prediction` judges collectives, where there is one."""
    snapshot = node.snapshot
    facts = facts_of(node)
    host = snapshot.machine.host
    boot_id = None if host is None else host.boot_id
    return FleetSection(
        host=origin.host,
        job=origin.job,
        engine=origin.engine,
        rank=origin.rank,
        boot_id=None if boot_id is None else digest(boot_id),
        machine=machine_digest(snapshot),
        written_at=written_at,
        product=product_of(snapshot.machine),
        facts=facts,
        sizes=_sizes(snapshot),
        digests=digests_of(facts),
        figures=figures_of(snapshot, prediction),
        simulated=snapshot.is_demo or snapshot.simulated,
        snapshot=snapshot if with_snapshot else None,
    )


def _sizes(snapshot: NodeSnapshot) -> dict[str, float]:
    host = snapshot.machine.host
    if host is None or not host.memory_bytes or host.memory_bytes < 0:
        return {}
    return {HOST_MEMORY: round(host.memory_bytes / 2**30, 1)}
