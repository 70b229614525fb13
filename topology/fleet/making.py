"""Makes the part of a node's file that a fleet compares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from ..expectation.judge import Judge
from ..expectation.judgement import TIMES, Band
from ..model.gathered import gathered_by
from ..model.severity import FigureBasis
from ..model.snapshot import Measurement, NodeSnapshot
from ..nccl.prediction import Prediction
from ..node import Node
from ..wiring.codes import Relations
from .facts import digest, digests_of, facts_of, machine_digest, product_of
from .section import EACH_GPU, WHOLE_NODE, FleetFigure, FleetSection, NodeOrigin

HOST_MEMORY = "memory of the host"

MOST_FIGURES = 120
"""As many kinds of figures as a file holds; the probes of a check give about thirty."""
PAIR = "pair"


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
        sizes=sizes_of(snapshot),
        digests=digests_of(facts),
        figures=figures_of(snapshot, prediction),
        simulated=snapshot.is_demo or snapshot.simulated,
        snapshot=snapshot if with_snapshot else None,
    )


def sizes_of(snapshot: NodeSnapshot) -> dict[str, float]:
    """Sizes in GiB that equal nodes have alike but for a little; {} where none was read."""
    host = snapshot.machine.host
    if host is None or not host.memory_bytes or host.memory_bytes < 0:
        return {}
    return {HOST_MEMORY: round(host.memory_bytes / 2**30, 1)}


# Measured figures of a node, few enough for a file that thousands of nodes write.
def figures_of(
    snapshot: NodeSnapshot, prediction: Prediction | None = None
) -> tuple[FleetFigure, ...]:
    """The middle and the worst of each kind of figure, with the healthy band of this hardware.

    Of a curve over message sizes the largest size stands for all: there a bandwidth shows what the
    links can do.
    """
    usable = [figure for figure in snapshot.measurements if _is_usable(figure)]
    largest: dict[tuple[object, ...], int] = {}
    for figure in usable:
        curve = _curve(figure)
        largest[curve] = max(largest.get(curve, 0), figure.bytes_per_copy or 0)
    kept = [figure for figure in usable if (figure.bytes_per_copy or 0) == largest[_curve(figure)]]
    relations = Relations(snapshot.machine)
    places = {address: f"GPU{place}" for place, address in enumerate(relations.gpus)}
    kinds = gathered_by(
        kept, lambda figure: (_key(figure), _kind(figure, relations), figure.unit or "")
    )
    judge = Judge(snapshot, prediction)
    return tuple(
        _joined(key, kind, unit, members, places, judge)
        for (key, kind, unit), members in list(kinds.items())[:MOST_FIGURES]
    )


def _joined(
    key: str,
    kind: str,
    unit: str,
    members: Sequence[Measurement],
    places: dict[str, str],
    judge: Judge,
) -> FleetFigure:
    less_is_better = unit in TIMES
    pick = max if less_is_better else min
    worst = pick(members, key=lambda figure: figure.value or 0.0)
    band: Band | None = judge.expected(worst).band
    return FleetFigure(
        key=key,
        over=kind,
        unit=unit,
        value=_short(median(figure.value or 0.0 for figure in members)),
        worst=_short(worst.value or 0.0),
        at=_place(worst, places) if len(members) > 1 else "",
        count=len(members),
        healthy=None if band is None else _short(band.healthy),
        low=None if band is None else _short(band.low),
        basis=FigureBasis.UNSAID if band is None else band.basis,
    )


def _is_usable(figure: Measurement) -> bool:
    """Whether it is a figure of a GPU, a network or all devices, with a unit and above zero."""
    return figure.credible and 0 < (figure.value or 0.0) < math.inf and bool(figure.unit)


def _curve(figure: Measurement) -> tuple[object, ...]:
    return (_key(figure), figure.src, figure.dst, figure.unit)


def _key(figure: Measurement) -> str:
    """What is measured, alike on equal nodes: in a probe's own words it has devices and sizes."""
    way = figure.way if "pasted" in figure.details else None
    parts = (figure.probe, figure.quantity, figure.variant, way)
    return " ".join(part for part in parts if part)


def _kind(figure: Measurement, relations: Relations) -> str:
    if figure.src is None:
        return WHOLE_NODE
    if figure.dst is None or figure.dst == figure.src:
        return EACH_GPU
    known = figure.src in relations.gpus and figure.dst in relations.gpus
    return relations.between(figure.src, figure.dst).code if known else PAIR


def _place(figure: Measurement, places: dict[str, str]) -> str:
    ends = [places.get(end, end) for end in (figure.src, figure.dst) if end is not None]
    return " to ".join(dict.fromkeys(ends))


def _short(value: float) -> float:
    """Five digits: finer than anything that is measured here."""
    return float(f"{value:.5g}")
