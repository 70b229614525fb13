"""A log as blocks of a page."""

from __future__ import annotations

from io import BytesIO

import pytest

from gputop.answers.log import read_stream
from gputop.pages.log import log_page, ranks
from gputop.pages.own_diagnostics import MOST_SHOWN, own_diagnostics, verdicts
from gputop.printing.render import texts
from gputop.topology.diagnosis.symptoms.log import ReadLog, examine
from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.own_diagnostics import DiagnosticsReport, OwnCheck, OwnDiagnostics
from gputop.topology.logs.report.report import LogReport
from gputop.topology.model.severity import NOTICE, Severity


def page_lines(read: ReadLog, width: int) -> list[str]:
    return texts(log_page(read).blocks, width)


LATE = (
    "[rank1]:[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
    "600020 milliseconds before timing out."
)


def first(*lines: str) -> list[str]:
    """What stands above the section Log."""
    read = examine(read_log(line.encode() + b"\n" for line in lines), None)
    text = "\n".join(page_lines(read, 160))
    return [line.strip() for line in text.partition("Log\n")[0].splitlines() if line.strip()]


def test_the_worst_finding_and_its_first_step_come_first() -> None:
    title, *steps = first(LATE)
    assert title == (
        "✗  A collective did not end in time: all-reduce 808 on rank 1, given up after 10 min"
    )
    step = " ".join(steps)
    assert step.startswith("Fix: find the rank that does not come: py-spy dump on each")
    assert "Look: which rank has no such message" in step


NO_WAY = "h:1:1 [0] NCCL WARN no algorithm/protocol available for function x"


def test_the_worst_findings_stand_first_and_further_ones_are_counted() -> None:
    title, *told = first(LATE, NO_WAY)
    assert title == "✗  The variables leave no algorithm to use"
    assert [line.partition(":")[0] for line in told[:2]] == ["Fix", "Cause"]
    assert any("A collective did not end in time" in line for line in told)
    assert "more finding" not in told[-1]


@pytest.mark.parametrize("text", ["nothing known", "h:1:1 [0] NCCL INFO comm 0x1 rank 0"])
def test_without_a_finding_the_version_comes_first(text: str) -> None:
    assert first(text) == []


def read(*lines: str) -> LogReport:
    return read_log([line.encode() for line in lines])


def test_a_size_that_no_line_gives_is_not_made_up() -> None:
    piece = "n1:9:30 [0] NCCL INFO Channel 00/0 : 4[4] -> 3[3] via P2P/IPC"
    (comm,) = read(piece).communicators
    assert comm.size_seen_only
    assert texts(ranks(comm), 80)[0] == "at least 5 ranks"
    shape = "n1:9:30 [0] NCCL INFO comm 0x1 rank 4 nranks 8 cudaDev 4 busId 60 - Init COMPLETE"
    (comm,) = read(piece, shape).communicators
    assert (comm.nranks, comm.size_seen_only) == (8, False)
    assert texts(ranks(comm), 80)[0] == "8 ranks"


def shown(*checks: OwnCheck, ended: int = 1) -> list[str]:
    report = OwnDiagnostics(
        report=DiagnosticsReport.RANKS,
        host="n\x1b1",
        pid=7,
        line=1,
        begun=1,
        ended=ended,
        checks=checks,
    )
    return texts(own_diagnostics([report]), 78)


def check(tag: str, text: str, **more: int) -> OwnCheck:
    return OwnCheck(tag=tag, about="ECC", text=text, line=2, **more)


def test_what_asks_to_be_looked_at_comes_first() -> None:
    head, first, second = shown(check("OK", "fine"), check("INFO", "2 errors", count=3))
    assert head == "! ranks compared: 1 [OK], 1 [INFO] (n\ufffd1:7)"
    assert first == "  [INFO] ECC: 2 errors (3 times)"
    assert second == "  [OK]   ECC: fine"


def test_an_end_that_is_missing_is_no_pass() -> None:
    head, _ = shown(check("OK", "fine"), ended=0)
    assert head.startswith("· ranks compared: 1 [OK], and the end of the report is missing")


def test_long_reports_are_cut() -> None:
    lines = shown(*(check("OK", f"rank {n}") for n in range(MOST_SHOWN + 3)))
    assert lines[-1] == "  and 3 lines more"


def printed(*texts: str) -> list[str]:
    """The page of a log that holds these lines alone."""
    title, end = (
        "=== RAS Diagnostics ===",
        "RAS diagnostics completed in 12.3 ms across 8 RAS peers",
    )
    lines = [f"node042:12345 NCCL DIAG {text}\n".encode() for text in (title, *texts, end)]
    read = examine(read_stream(BytesIO(b"".join(lines)), "diag.txt"), None)
    return page_lines(read, 122)


FINE = "[OK]   ECC: no uncorrected volatile errors across 8 ranks in comm 0x1234"
ODD = "[INFO] NCCL environment: mismatch across 8 ranks in comm 0x1234 for NCCL_DEBUG"


def test_a_log_of_diagnostics_alone_begins_with_what_they_found() -> None:
    title, first, second, *rest = printed(FINE)
    assert (title, first) == (
        "Log",
        "  ✓ NCCL's own diagnostics found no fault: ranks compared: 1 [OK] (node042:12345, 12 ms "
        "across 8 RAS peers)",
    )
    assert second.strip() == "NCCL 2.31 or later, as it prints diagnostics · 3 lines, 1 host"
    page = "\n".join(rest)
    assert "no rule finds a fault in these diagnostics" in page
    assert "none shown" not in page
    assert "nothing in the table of symptoms" not in page


def test_what_they_ask_to_look_at_comes_first_and_is_a_finding() -> None:
    _, first, *rest = printed(FINE, ODD)
    assert first.startswith(
        "  ! NCCL's own diagnostics ask to look: ranks compared: 1 [OK], 1 [INFO]"
    )
    assert any("ranks are not alike" in line for line in rest)


def test_several_reports_are_told_the_worst_first() -> None:
    reports = [
        OwnDiagnostics(
            report=DiagnosticsReport.RANKS,
            host=f"n{number}",
            pid=7,
            line=number,
            begun=1,
            ended=1,
            checks=(check("INFO" if number == 5 else "OK", "text"),),
        )
        for number in range(1, 7)
    ]
    first, *others = texts(verdicts(reports), 120)
    assert first.startswith("! NCCL's own diagnostics ask to look")
    assert "(n5:7)" in first
    assert others[-1] == "  and 2 more reports, 0 of them with [INFO]"
    assert not list(verdicts([]))


def test_rings_beyond_the_first_are_counted() -> None:
    """As a DGX-1V has them: six orders in twelve channels, and no node to compare them with."""
    orders = ("0 1 2 3", "0 2 1 3", "0 1 3 2", "0 2 3 1", "0 3 1 2", "0 3 2 1")
    lines = [
        f"vm:7:7 [0] NCCL INFO Channel {channel:02d}/12 :    {order.replace(' ', '   ')}\n".encode()
        for channel, order in enumerate(orders * 2)
    ]
    shown = page_lines(examine(read_log(lines), None), 100)
    assert [line.strip() for line in shown if "ring" in line.lower()][-5:] == [
        *(f"· ring of 2 channels: {order}" for order in orders[:4]),
        "and 2 rings more",
    ]


FULL = (
    "j:412:412 [0] NCCL INFO NCCL version 2.21.5+cuda12.4",
    *(
        f"j:41{rank}:49{rank} [{rank}] NCCL INFO comm 0x{rank}d rank {rank} nranks 2 "
        f"cudaDev {rank} nvmlDev {rank} busId {19 + rank}000 commId 0x5ab8 - Init START"
        for rank in (0, 1)
    ),
    "j:410:505 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
)
NO_ROOM = (
    "j:410:505 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/n to 96 bytes"
)


@pytest.mark.parametrize("width", range(40, 100, 7))
def test_a_transport_that_failed_is_not_as_it_should_be(width: int) -> None:
    sound, broken = (
        page_lines(examine(read_log(line.encode() + b"\n" for line in lines), None), width)
        for lines in (FULL, (*FULL, NO_ROOM))
    )
    assert any("SHM✓" in line for line in sound)
    assert not any("SHM✓" in line for line in broken)
    assert any("SHM✗" in line for line in broken)
    assert any("df -h /dev/shm" in line for line in broken)
    assert sum("docker run --shm-size=1g" in line for line in broken) == 2, "command on one line"


@pytest.mark.parametrize("text", ["$ ls /dev/dri", "Traceback\nRuntimeError: CUDA error: 700"])
def test_a_text_without_a_line_of_the_library_has_no_empty_chapters(text: str) -> None:
    said = page_lines(examine(read(*text.splitlines()), None), 100)
    assert not {"Environment", "Prediction"} & {line.strip() for line in said}
    assert not any("not compared" in line or "unknown version" in line for line in said)
    with_library = page_lines(examine(read(NO_WAY, *text.splitlines()), None), 100)
    assert {"Environment", "Prediction"} <= {line.strip() for line in with_library}


TABLE = """\
+-------------------------------+----------------------+----------------------+
|   3  NVIDIA A100-PCIE...  On   | 00000000:41:00.0 Off |                    0 |
| N/A  {}    P0   {} / 300W |    593MiB / 81920MiB |      0%      Default |
|                               |                      |             Disabled |
+-------------------------------+----------------------+----------------------+
"""


@pytest.mark.parametrize(
    ("heat", "power", "severity"),
    [("31C", "ERR!", NOTICE), ("ERR!", "60W", NOTICE), ("31C", "60W", None)],
)
def test_a_sensor_without_a_value_is_no_failing_driver(
    heat: str, power: str, severity: Severity | None
) -> None:
    text = TABLE.format(heat, power).encode()
    found = examine(read_stream(BytesIO(text), "table.txt"), None).findings
    failing = [one.severity for one in found if one.id == "driver-fails"]
    assert failing == ([] if severity is None else [severity])
