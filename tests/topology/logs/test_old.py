"""Logs of NCCL 2.3 to 2.9, and what frameworks and terminals leave in a log."""

from __future__ import annotations

import pytest

from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.report import LogReport


def read(*lines: str) -> LogReport:
    return read_log([line.encode() for line in lines])


def labels(report: LogReport) -> dict[tuple[int, int], str]:
    (comm,) = report.communicators
    return {(transport.src, transport.dst): transport.label for transport in comm.transports}


NCCL_2_4 = (
    "NCCL version 2.4.8+cuda10.1",
    "n1:9:30 [0] NCCL INFO Using 256 threads, Min Comp Cap 7, Trees disabled",
    "n1:9:30 [0] NCCL INFO Channel 00 :    0   1   2",
    "n1:9:30 [0] NCCL INFO Ring 00 : 0[0] -> 1[1] via P2P/IPC",
    "n1:10:31 [1] NCCL INFO Ring 00 : 1 -> 2 [send] via NET/AWS Libfabric/0",
    "n2:9:32 [0] NCCL INFO Ring 00 : 1 -> 2 [receive] via NET/AWS Libfabric/0",
    "n1:9:30 [0] NCCL INFO Trees [0] -1->0->1/-1/-1",
    "n1:10:31 [1] NCCL INFO Trees [0] 0->1->2/-1/-1",
    "n1:9:30 [0] NCCL INFO comm 0x7f01 rank 0 nranks 3 cudaDev 0 nvmlDev 0 - Init COMPLETE",
    "n1:10:31 [1] NCCL INFO comm 0x7f02 rank 1 nranks 3 cudaDev 1 nvmlDev 1 - Init COMPLETE",
    "n2:9:32 [0] NCCL INFO comm 0x7f03 rank 2 nranks 3 cudaDev 0 nvmlDev 0 - Init COMPLETE",
    "n1:9:9 [0] NCCL INFO Launch mode Parallel",
)


def test_transports_were_called_rings_until_2_6() -> None:
    report = read(*NCCL_2_4)
    assert (report.unread, report.unknown) == ((), ())
    assert labels(report) == {(0, 1): "P2P/IPC", (1, 2): "NET/AWS Libfabric/0"}
    (comm,) = report.communicators
    assert [ring.order for ring in comm.rings] == [(0, 1, 2)]
    assert [(tree.rank, tree.parent, tree.children) for tree in comm.trees] == [
        (0, -1, (1,)),
        (1, 0, (2,)),
    ]
    ranks = [(rank.rank, rank.host, rank.nvml_dev, rank.bus_id, rank.state) for rank in comm.ranks]
    assert ranks == [
        (0, "n1", 0, None, "ready"),
        (1, "n1", 1, None, "ready"),
        (2, "n2", 0, None, "ready"),
    ]
    assert comm.nranks == 3
    assert not comm.size_seen_only


def test_rings_with_bus_ids_of_2_6() -> None:
    report = read(
        "n:1:2 [2] NCCL INFO Ring 00 : 2[3d000] -> 3[3e000] via direct shared memory",
        "n:1:2 [2] NCCL INFO Ring 01 : 2[3d000] -> 3[3e000] via direct shared memory",
        "n:1:3 [3] NCCL INFO Ring 00 : 3 -> 2 -> 3",
    )
    assert report.unread == ()
    assert labels(report) == {(2, 3): "SHM/direct/direct"}
    assert report.communicators[0].transports[0].channels == (0, 1)


def test_a_communicator_whose_start_was_torn_is_one() -> None:
    # Two processes wrote into one file, and the lines of the start were lost.
    report = read(
        "n1:9:30 [1] NCCL INFO comm 0x949 rank 1 nranks n1:8:31 [0] NCCL INFO comm 0x8fe rank 0",
        "n1:9:30 [1] NCCL INFO Channel 00 : 1[1] -> 0[0] via SHM/direct/direct",
        "n1:9:30 [1] NCCL INFO comm 0x949 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 3000 "
        "commId 0x245d - Init COMPLETE",
        "n1:8:31 [0] NCCL INFO comm 0x8fe rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 2000 "
        "commId 0x245d - Init COMPLETE",
    )
    (comm,) = report.communicators
    assert comm.ident == "245d"
    assert [rank.state for rank in comm.ranks] == ["ready", "ready"]
    assert labels(report) == {(1, 0): "SHM/direct/direct"}


def test_the_version_that_pytorch_names_is_kept_without_a_library() -> None:
    words = (
        "torch.distributed.DistBackendError: NCCL error in: ../c10d/ProcessGroupNCCL.cpp:1970, "
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.20.5"
    )
    versions = read(words).versions
    # PyTorch says NCCL where it runs RCCL.
    assert (versions.library, versions.version) == (None, "2.20.5")
    versions = read(words, "RCCL version : 2.20.5-HEAD:d380693").versions
    assert (versions.library, versions.version, versions.others) == ("rccl", "2.20.5", ())
    versions = read("NCCL version 2.21.5+cuda12.4", words).versions
    assert (versions.version, versions.line) == ("2.21.5", 1)


@pytest.mark.parametrize(
    "line",
    [
        "Epoch 1:  33%|### | 1/3 [00:01<00:02,  1.0it/s]\r{}",
        "{}\r",
        "{}\rEpoch 1:  33%|### | 1/3 [00:01<00:02,  1.0it/s]",
        "{} [repeated 3x across cluster]\rEpoch 1:  33%",
        "> > (WorkerDict pid=9) {}",
    ],
)
def test_progress_bars_and_quotes_do_not_hide_a_line(line: str) -> None:
    text = "n1:9:30 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"
    report = read(line.format(text))
    assert report.unread == ()
    assert labels(report) == {(0, 1): "P2P/CUMEM"}


@pytest.mark.parametrize(
    "line",
    [
        '{{"log":"{}\\n","stream":"stdout","time":"2026-01-01T00:00:00Z"}}',
        '{{"time": 1, "message": "{}"}}',
        '{{"textPayload": "[rank0]: {}", "resource": {{}}}}',
    ],
)
def test_lines_in_json_are_taken_out(line: str) -> None:
    report = read(line.format("n1:9:30 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"))
    assert report.unread == ()
    assert labels(report) == {(0, 1): "P2P/CUMEM"}


@pytest.mark.parametrize(
    "line", ['{"log": 7, "x": "NCCL"}', '{"log": "n1:9:30 [0] NCCL INFO', "{" * 9000 + "NCCL"]
)
def test_other_braces_are_left_alone(line: str) -> None:
    assert read(line).communicators == ()
