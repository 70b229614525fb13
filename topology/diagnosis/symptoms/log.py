"""A log with its symptoms, and how far it agrees with the prediction."""

from __future__ import annotations

import msgspec

from ...logs.comparing.overlay import Overlay, lay
from ...logs.report.places import gpus_from, normal
from ...logs.report.report import LogNote, LogReport
from ...model.snapshot import NodeSnapshot
from ..finding import Finding
from .explain import explain, unexplained
from .next_step import next_step


class ReadLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log, its symptoms, and the prediction for it."""

    log: LogReport
    findings: tuple[Finding, ...]
    unexplained: tuple[LogNote, ...]
    next: str
    """What to fetch where no finding names a cause; may be empty."""
    overlay: Overlay


def fits(log: LogReport, snapshot: NodeSnapshot) -> bool:
    """Whether all GPUs that the log names are on this node."""
    here = {normal(gpu.address) for gpu in snapshot.machine.gpus}
    named = gpus_from(log)
    return bool(named) and set(named) <= here


def examine(
    log: LogReport, snapshot: NodeSnapshot | None, *, library: str | None = None
) -> ReadLog:
    """Explain a log and compare it with a node; without one, with that of its own System block."""
    found, left = explain(log), unexplained(log)
    return ReadLog(
        log=log,
        findings=found,
        unexplained=left,
        next=next_step(log, found, left),
        overlay=lay(log, snapshot, library=library),
    )
