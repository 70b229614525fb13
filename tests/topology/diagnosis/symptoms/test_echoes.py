"""Which of several lines is the cause: an echo is reported only where nothing else is."""

from __future__ import annotations

import pytest

from gputop.topology.diagnosis.symptoms.explain import (
    explain,
    known_signs,
    table,
    unexplained,
    without_echoes,
)
from gputop.topology.hardware.faults.catalogue import groups
from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.report import LogReport
from tests.topology.diagnosis.symptoms.log_examples import OTHER_FORMS
from tests.topology.diagnosis.symptoms.shown import SHOWN

N = "n1:7:8 [0] "


def read(*lines: str) -> LogReport:
    return read_log([line.encode() for line in lines])


def symptoms(*lines: str) -> list[str]:
    report = read(*lines)
    assert not unexplained(report)
    return [finding.id for finding in explain(report)]


@pytest.mark.parametrize(
    ("ident", "line"), [(ident, line) for ident, lines in OTHER_FORMS.items() for line in lines]
)
def test_other_versions_say_it_otherwise(ident: str, line: str) -> None:
    assert symptoms(N + line) == [ident]


def test_an_echo_needs_rows_that_exist() -> None:
    known = {row.id for row in table()} | {group.id for group in groups()} | {"broken", "slow"}
    for row in table():
        assert set(row.after) <= known - {row.id}, row.id


def test_of_two_rows_one_is_always_told() -> None:
    # A row that is silent beside none is told beside any.
    rows = [row.id for row in table() if row.after]
    assert len(rows) > 50
    assert all(without_echoes({one, other}) for one in rows for other in rows)


def test_echoes_are_silent_beside_their_cause() -> None:
    full = N + OTHER_FORMS["shm-full"][0]
    assert symptoms(full, *SHOWN["shm-failed"]) == ["shm-full"]
    assert symptoms(full, *SHOWN["proxy-echo"], *SHOWN["reported-by-framework"]) == ["shm-full"]


def test_an_echo_after_an_echo_names_one() -> None:
    lines = (*SHOWN["proxy-echo"], *SHOWN["reported-by-framework"])
    assert symptoms(*lines) == ["proxy-echo"]
    assert symptoms(*SHOWN["reported-by-framework"]) == ["reported-by-framework"]


def test_unknown_words_are_listed_beside_an_echo_and_not_before_a_cause() -> None:
    odd = "torch: gpu 7 exploded, aborting"
    for echo in ("proxy-echo", "reported-by-framework"):
        assert [note.line for note in unexplained(read(odd, *SHOWN[echo]))] == [1]
    full = N + OTHER_FORMS["shm-full"][0]
    assert symptoms(odd, full, *SHOWN["proxy-echo"]) == ["shm-full"]


def test_an_allocation_that_fails_is_not_called_a_lack_of_memory() -> None:
    # enqueue.cc on a GPU that the build has no code for: alloc.h says the same after it.
    lines = (*SHOWN["no-kernel-image"], *SHOWN["cuda-alloc-failed"])
    assert symptoms(*lines) == ["no-kernel-image"]
    assert symptoms(*SHOWN["cuda-alloc-failed"]) == ["cuda-alloc-failed"]
    memory = N + "enqueue.cc:57 NCCL WARN Cuda failure 2 'out of memory'"
    assert symptoms(memory, *SHOWN["cuda-alloc-failed"]) == ["cuda-out-of-memory"]


def test_a_missing_attribute_is_laid_to_a_file_only_where_one_is_used() -> None:
    line = N + "graph/xml.h:57 NCCL WARN Attribute class of node nic not found"
    assert symptoms(line) == ["topology-unreadable"]
    loaded = N + "NCCL INFO Loading topology file /x.xml"
    assert "topology-file-bad" in symptoms(loaded, line)
    assert "topology-unreadable" not in symptoms(loaded, line)
    # NCCL computes these itself, so a file is in use, whoever named it.
    assert symptoms(N + "graph/xml.h:57 NCCL WARN Attribute arch of node cpu not found") == [
        "topology-file-bad"
    ]


def test_words_that_nobody_knows_are_no_silence() -> None:
    failed = "DistBackendError: NCCL error in: x.cpp:9, unhandled system error, NCCL version 2.20.5"
    (silent,) = explain(read(failed))
    assert silent.title.endswith("no line says which")
    (beside,) = explain(read(failed, N + "x.cc:1 NCCL WARN Call to frobnicate failed: 22"))
    assert beside.id == silent.id
    assert "no line" not in beside.title


def test_importing_a_peers_memory_is_not_choosing_a_gpu() -> None:
    line = "Cuda failure 101 'invalid device ordinal'"
    assert symptoms(f"{N}transport/p2p.cc:275 NCCL WARN {line}") == ["ipc-open-failed"]
    assert symptoms(f"{N}init.cc:275 NCCL WARN {line}") == ["gpu-unavailable"]


def test_a_path_that_newer_versions_do_without_is_no_error() -> None:
    text = "Could not find real path of /sys/class/pci_bus/ffff:ff/../../ffff:ff:ff.0"
    assert symptoms(f"{N}NCCL INFO {text}") == []


def test_a_rank_that_is_missing_is_named_and_all_that_wait_are_not_called_missing() -> None:
    first, second = SHOWN["init-stuck"]
    found = {finding.id: finding for finding in explain(read(first, second))}
    assert set(found) == {"init-stuck"}
    assert "rank 1, the last of all 2" in found["init-stuck"].evidence[0].value
    found = {finding.id: finding for finding in explain(read(first))}
    assert set(found) == {"init-unfinished"}
    assert "not in this log: ranks 1 of 2" in [
        item.value for item in found["init-unfinished"].evidence
    ]
    ready = second.replace("START", "COMPLETE")
    assert [finding.id for finding in explain(read(first, ready))] == ["init-unfinished"]


def test_the_source_of_a_warning_is_read_without_a_host() -> None:
    # As people cut the heads off before they post a log.
    line = "[1] misc/shmutils.cc:103 NCCL WARN Cuda failure 'invalid argument'"
    assert symptoms(line) == ["shm-failed"]


def test_a_narrow_end_is_reported_in_the_words_of_its_log_and_a_start_by_where_it_was() -> None:
    lines = [line.replace("NVL[", "XGMI[") for line in SHOWN["nvlink-unequal"]]
    lines = [line.replace("NVS/0-0", "GPU/0-70", 1) for line in lines[:5]] + [
        line.replace("NVS/0-0", "GPU/0-60") for line in lines[5:]
    ]
    found = {finding.id: finding for finding in explain(read(*lines))}["nvlink-unequal"]
    assert found.evidence[0].value == "GPU/0-70 + XGMI[185.4] - GPU/0-60, where others have 370.8"
    assert "amd-smi xgmi" in found.look[0]
    stuck = {finding.id: finding for finding in explain(read(*SHOWN["init-stuck"]))}["init-stuck"]
    assert "on one host P2P" in stuck.cause
    assert any("NCCL_P2P_DISABLE=1" in fix.text for fix in stuck.fix)


def test_the_end_of_a_process_is_an_echo_of_the_timeout_before_it() -> None:
    late = "[rank1]:[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation "
    late += "timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE)"
    end = "[rank1]:[E602 ProcessGroupNCCL.cpp:698] [Rank 1] To avoid data inconsistency, we are "
    end += "taking the entire process down."
    for lines, found in (((late, end), "watchdog-timeout"), ((end,), "taken-down")):
        log = read_log((f"{line}\n".encode() for line in lines), signs=known_signs())
        assert [finding.id for finding in explain(log)] == [found]


def test_ranks_that_never_became_ready_are_no_second_cause() -> None:
    found = without_echoes({"cuda-out-of-memory", "init-stuck", "init-unfinished"})
    assert found == {"cuda-out-of-memory"}
    assert without_echoes({"init-stuck"}) == {"init-stuck"}


def test_a_list_of_xids_is_no_lost_gpu() -> None:
    lines = ("Xid 13: Graphics Engine Exception", "Xid 79: GPU has fallen off the bus")
    assert not explain(read_log([line.encode() for line in lines], signs=known_signs()))
