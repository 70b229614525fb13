from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from gputop.live.worst_jobs import WRONG
from gputop.topology.fleet.foreign import (
    ForeignReport,
    Tool,
    _figures,
    read_dcgm,
    read_text,
    read_verdict,
)
from gputop.topology.fleet.merging.growing import read_fleet
from gputop.topology.fleet.record import FileFault
from gputop.topology.jobs.standing import SEVERITIES
from gputop.topology.model.severity import NOTICE, JobVerdict
from gputop.topology.model.snapshot import Measurement
from tests.support.places import RECORDINGS

DCGM_4 = {
    "DCGM Diagnostic": {
        "test_categories": [
            {
                "category": "Deployment",
                "tests": [
                    {
                        "name": "software",
                        "results": [
                            {
                                "entity_id": 0,
                                "status": "Fail",
                                "warnings": [{"warning": "Persistence Mode: it is disabled"}],
                            }
                        ],
                    }
                ],
            },
            {
                "category": "Hardware",
                "tests": [
                    {
                        "name": "memory",
                        "results": [
                            {"entity_id": 0, "status": "Pass"},
                            {
                                "entity_id": 3,
                                "status": "Fail",
                                "warnings": [{"warning": "2 double-bit errors", "error_id": 5}],
                            },
                        ],
                    }
                ],
            },
        ]
    }
}
DCGM_3 = """Successfully ran diagnostic for group.
{"DCGM GPU Diagnostic": {"test_categories": [{"category": "Integration", "tests": [
  {"name": "PCIe", "results": [{"gpu_ids": "1", "status": "FAIL", "warnings": ["replays"]}]}]}]}}
"""
VERDICT = {
    "overall_severity": "CRITICAL",
    "affected_components": [
        {"category": "nvlink", "check_ids": ["nvlink_active"], "entities": ["GPU-3"],
         "max_severity": "CRITICAL"},
        {"category": "gpu", "check_ids": ["gpu_power"], "entities": [], "max_severity": "INFO"},
    ],
}  # fmt: skip


def titles(data: bytes) -> list[tuple[str, str]]:
    found = read_dcgm(data) or read_verdict(data)
    assert found is not None
    return [(item.severity, item.title) for item in found[1]]


def test_what_dcgm_fails_is_said() -> None:
    assert titles(json.dumps(DCGM_4).encode()) == [
        ("broken", "memory failed on GPU 3: 2 double-bit errors")
    ]
    assert titles(DCGM_3.encode()) == [("broken", "PCIe failed on GPU 1: replays")]


def test_diagnostics_that_did_not_run_prove_nothing() -> None:
    assert titles(DCGM_3.replace("FAIL", "Skip").encode())[0][0] == "cannot-tell"
    assert titles(DCGM_3[:90].encode())[0][0] == "cannot-tell"
    assert titles(DCGM_3.replace("FAIL", "PASS").encode()) == []


def test_the_verdict_of_health_validation_is_said() -> None:
    assert titles(json.dumps(VERDICT).encode()) == [
        ("broken", "CRITICAL in nvlink: nvlink_active at GPU-3")
    ]
    assert titles(b'{"overall_severity": "UNKNOWN"}') == [("cannot-tell", "verdict UNKNOWN")]
    assert titles(b'{"overall_severity": "PASS"}') == []
    assert read_verdict(b'{"overall_severity": "spicy"}') is None


def test_what_is_not_documented_is_quoted_and_proves_nothing() -> None:
    part = '{"max_severity": "Odd", "category": 7, "check_ids": "one", "entities": [3]}'
    text = f'{{"overall_severity": "Spicy", "affected_components": [{part}, 5]}}'
    assert titles(text.encode()) == [("cannot-tell", "ODD in 7: one at 3")]
    text = '{"overall_severity": 5, "affected_components": "none"}'
    assert titles(text.encode()) == [("cannot-tell", "verdict 5")]
    named = read_verdict(b'{"overall_severity": "PASS", "node": "g7.site"}')
    assert named == ("g7", [])


@pytest.mark.parametrize("name", ["g3.json", "g3.log"])
def test_a_file_without_a_name_in_it_is_of_the_node_in_its_name(tmp_path: Path, name: str) -> None:
    text = json.dumps(VERDICT)
    if name.endswith(".log"):
        text = "g3:10:10 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n" * 3
        text += "g3:10:12 [0] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with "
        text += "error Connection timed out\n"
    (tmp_path / name).write_text(text)
    fleet = read_fleet(str(tmp_path))
    assert fleet.hosts == ("g3",)
    assert fleet.verdict != "healthy"


def test_what_another_tool_says_keeps_its_fix_or_gets_one(tmp_path: Path) -> None:
    line = "g3:10:10 [0] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left"
    (tmp_path / "g3.log").write_text(f"{line} on device\n")
    (tmp_path / "g4.json").write_text(json.dumps(DCGM_4))
    said = {item.title: item.fix for item in read_fleet(str(tmp_path)).findings}
    (by_log,) = (fix for title, fix in said.items() if "/dev/shm" in title)
    (by_dcgm,) = (fix for title, fix in said.items() if "double-bit" in title)
    assert any("shm" in step.text for step in by_log)
    assert any(step.text for step in by_dcgm)


def test_a_text_that_nothing_reads_accuses_nobody(tmp_path: Path) -> None:
    (tmp_path / "g3.txt").write_text("hello\n")
    fleet = read_fleet(str(tmp_path))
    assert fleet.hosts == ()
    assert "file-foreign" in {item.id for item in fleet.findings}


@pytest.mark.parametrize("logged", [False, True])
def test_a_log_with_figures_in_it_is_a_log(logged: bool) -> None:
    figures = (
        "# nThread 1 nGpus 2 minBytes 8 maxBytes 8589934592 step: 2(factor)\n"
        "#  Rank  0 Group  0 Pid  10 on  g3 device  0 [0000:19:00] NVIDIA H100 80GB HBM3\n"
        "#  Rank  1 Group  0 Pid  10 on  g3 device  1 [0000:2a:00] NVIDIA H100 80GB HBM3\n"
        "#       size  count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
        "  8589934592 2147483648 float sum -1 24000 357.9 357.9 0 24000 357.9 357.9 0\n"
        "# Avg bus bandwidth    : 357.9\n"
    )
    line = "g3:10:10 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n"
    found = read_text("g3.log", ((line * 3 if logged else "") + figures).encode())
    assert isinstance(found, ForeignReport)
    assert found.tool == (Tool.LOG if logged else Tool.MEASUREMENT)


def test_of_a_run_the_middle_and_the_worst_at_its_largest_size_are_compared() -> None:
    def one(value: float | None, unit: str | None, size: int | None = None) -> Measurement:
        quantity = "latency" if unit == "us" else "write_bandwidth"
        return Measurement(
            probe="p2p", quantity=quantity, value=value, unit=unit, bytes_per_copy=size
        )

    times = [one(value, "us") for value in (5.0, 4.0, 9.0)]
    rates = [one(value, "GB/s", 1 << 20) for value in (40.0, 48.0, 47.0)]
    rates.append(one(2.0, "GB/s", 1 << 10))
    odd = [one(value, "GB/s", 1 << 20) for value in (None, 0.0, -1.0, math.inf, math.nan)]
    found = list(_figures([*times, *rates, *odd, one(3.0, ""), one(3.0, None)]))
    assert [(figure.key, figure.unit, figure.value, figure.worst) for figure in found] == [
        ("p2p latency", "us", 5.0, 9.0),
        ("p2p write bandwidth at 1.0 MiB", "GB/s", 47.0, 40.0),
    ]


@pytest.mark.parametrize("saved", ["behind.json", "killed.txt", "stopped.json.txt"])
def test_an_answer_of_ras_names_no_node(saved: str) -> None:
    """It is of a job, on the nodes that it names itself, however somebody calls its file."""
    told = read_text("ras-node07.txt", (RECORDINGS / "ras" / saved).read_bytes())
    assert isinstance(told, ForeignReport) or told.kind is FileFault.FOREIGN
    assert told.host is None or not isinstance(told, ForeignReport)


@pytest.mark.parametrize("verdict", JobVerdict)
def test_a_job_has_one_sign_everywhere(verdict: JobVerdict) -> None:
    severity = SEVERITIES.get(verdict, NOTICE)
    assert (severity.sign, severity.exit_code) == (
        (verdict.sign, verdict.exit_code) if severity.counts else ("•", 0)
    )
    assert severity.counts == (verdict in WRONG)
