"""Made-up findings and events for tests of the app: rules come and go, pictures stay."""

from __future__ import annotations

from typing import Any

from gputop.topology.diagnosis.engine import Diagnosis, Silenced
from gputop.topology.diagnosis.events import Event
from gputop.topology.model.finding import Finding
from gputop.topology.model.page import Fact, Fix
from gputop.topology.model.severity import (
    BROKEN,
    BY_DESIGN,
    CANNOT_TELL,
    NOTICE,
    SLOW,
    Severity,
    Verdict,
)
from gputop.topology.report import Report
from tests.support.app import demo_report

AT = 1_700_000_000.0


def finding(name: str, severity: str, title: str, *devices: str, **more: Any) -> Finding:
    """A finding with all its parts."""
    given: dict[str, Any] = {
        "evidence": (Fact(what=f"what {name} read", value="16 of 18", source="NVML"),),
        "disproof": f"what would disprove {name}",
        "impact": f"what follows of {name}",
        "fix": (Fix(text=f"mend {name}", command=f"fix --{name}", needs_root=True),),
        "sources": ("nccl#1",),
    }
    return Finding.of(
        id=name, severity=Severity(severity), title=title, devices=devices, **{**given, **more}
    )


def sick_findings(report: Report) -> tuple[Finding, ...]:
    """One finding of each severity, about the first GPUs of a node."""
    gpus = [gpu.address for gpu in report.snapshot.machine.gpus]
    return (
        finding(
            "nvlink-down",
            BROKEN,
            "GPU3 has 16 of 18 NVLinks up",
            gpus[3],
            family="D12",
            evidence=(
                Fact(
                    what="NVLinks of GPU3 that are up",
                    value="16 of 18",
                    source="NVML nvmlDeviceGetNvLinkState",
                ),
                Fact(what="NVLinks of the seven others", value="18 of 18", source="NVML, as above"),
            ),
            impact=(
                "All-reduce over 8 GPUs is held to the slowest: about 427 instead of 480 GB/s "
                "busbw (measured figures of healthy nodes, scaled)."
            ),
            fix=(
                Fix(
                    text="Reset the GPU when nothing runs on it; if the links stay down, have the "
                    "board looked at.",
                    command="nvidia-smi --gpu-reset -i 3",
                    needs_root=True,
                ),
            ),
            sources=("azhpc-diagnostics#73", "open-gpu-kernel-modules#1150"),
        ),
        finding("pcie-width", SLOW, "GPU1 and GPU2 run at x8 of x16", *gpus[1:3], family="D07"),
        finding("driver-not-answering", CANNOT_TELL, "GPU5 was not examined", gpus[5]),
        finding("persistence-off", NOTICE, "persistence mode is off on all GPUs", *gpus, fix=()),
        finding("gpu-islands", BY_DESIGN, "NVLink islands: {0,1} {2,3}", *gpus[:4]),
    )


def diagnosis(*findings: Finding, **more: Any) -> Diagnosis:
    """What the rules say together; the verdict is that of the first."""
    verdict = Verdict.of(finding.severity for finding in findings[:1])
    given: dict[str, Any] = {"examined": ("a", "b"), "verdict": verdict}
    return Diagnosis(findings=findings, **{**given, **more})


def events(report: Report, now: float = AT) -> tuple[Event, ...]:
    """A counter that ticks, a state that lasts and one that is over."""
    gpus = [gpu.address for gpu in report.snapshot.machine.gpus]
    return (
        Event(
            device=gpus[3],
            name="GPU3",
            what="NVLink replays",
            harm=SLOW,
            first_at=now - 605,
            last_at=now - 5,
            amount=12,
            parts=(4, 7),
            times=3,
        ),
        Event(
            device=gpus[1],
            name="GPU1",
            what="throttled: hw thermal",
            harm=SLOW,
            first_at=now - 60,
            last_at=now - 60,
            lasting=True,
        ),
        Event(
            device="0000:18:00.0",
            name="mlx5_0",
            what="port 1 not active",
            harm=SLOW,
            first_at=now - 900,
            last_at=now - 800,
            times=2,
        ),
    )


def sick_report(name: str = "sick-h100-8", *, silenced: bool = False) -> Report:
    """A demo node with one finding of each severity and three events, at a fixed time."""
    report = demo_report(name)
    found = sick_findings(report)
    hushed = (Silenced(finding=found[3], reason="known here"),) if silenced else ()
    kept = tuple(finding for finding in found if not silenced or finding is not found[3])
    made = diagnosis(*kept, silenced=hushed, unexamined=("bar1-small",))
    return Report(report.node, made, events(report, report.snapshot.taken_at))
