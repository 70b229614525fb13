"""The answer of a check that gave none: it did not end in time, or it failed."""

from __future__ import annotations

import time

from gputop import __version__
from gputop.checking.deadline import Supervised
from gputop.topology.diagnosis.engine import Diagnosis
from gputop.topology.fleet.section import FleetSection, NodeOrigin
from gputop.topology.model.finding import Finding
from gputop.topology.model.machine import Machine
from gputop.topology.model.page import Fact, Fix
from gputop.topology.model.severity import CANNOT_TELL, Verdict
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import Host

LATE, FAILED = "check-late", "check-failed"


def late_diagnosis(
    origin: NodeOrigin, ended: Supervised, seconds: float
) -> tuple[Diagnosis, NodeSnapshot, FleetSection]:
    """The verdict "cannot tell", with what did not answer; and the node, of which that is all."""
    doing = ended.stages[-1] if ended.stages else "starting"
    why = ended.problem or (
        f"{doing} did not end" if ended.timed_out else f"its process ended while {doing}"
    )
    title = (
        f"the check did not end within {seconds:g} s: it was {doing}"
        if ended.timed_out
        else f"the check failed: {why}"
    )
    now = time.time()
    finding = Finding.of(
        id=LATE if ended.timed_out else FAILED,
        severity=CANNOT_TELL,
        title=title,
        evidence=(Fact(what="the check", value=why, source="gputop check --deadline"),),
        disproof="a check that ends in time",
        impact="Nothing was examined, so nothing is called healthy.",
        fix=(
            Fix(text="See which source does not answer", command="gputop doctor"),
            Fix(text="Look for processes in a driver call", command="ps -eo pid,stat,wchan:32,cmd"),
        ),
        sources=("gputop check",),
    )
    machine = Machine(host=Host(hostname=origin.host))
    return (
        Diagnosis(findings=(finding,), verdict=Verdict.CANNOT_TELL),
        NodeSnapshot(gputop=__version__, taken_at=now, machine=machine),
        FleetSection(
            host=origin.host,
            job=origin.job,
            engine=origin.engine,
            rank=origin.rank,
            written_at=now,
        ),
    )
