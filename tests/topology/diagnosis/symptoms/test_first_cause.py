"""Which possible cause stands first: the one for which the text itself speaks."""

from __future__ import annotations

import pytest

from gputop.topology.diagnosis.symptoms.explain import known_signs, table
from gputop.topology.diagnosis.symptoms.log import ReadLog, examine
from gputop.topology.logs.reading.read import read_log
from gputop.topology.model.finding import Finding
from gputop.topology.model.severity import BROKEN, NOTICE

UNHEARD = ("examine", "read_log")
MISMATCH = (
    "n1:7:9 [0] transport/net_ib.cc:1038 NCCL WARN NET/IB : req 0/1 tag 0 peer 192.0.2.6<5> "
    "collective mismatch error, local size 496640 remote size 65536"
)
PROTOCOL = (
    "n1:7:9 [0] NCCL INFO NET/OFI Selected Provider is tcp (found 1 nics)",
    "n1:7:9 [0] NCCL WARN NET/OFI Disabling shared memory failed: Protocol not available",
)
IPC = "The call to cuIpcOpenMemHandle failed. This is an unrecoverable error"
ABSENT = "ERROR:root:Driver not initialized (amdgpu not found in modules)"
SYMBOL = "ImportError: /opt/lib.so: undefined symbol: {}"
REFUSED = "  what():  ibv_reg_mr failed (errno 14) (Ib failure: Bad address)"
UNREACHED = "At least one pair of MPI processes are unable to reach each other for"
LOADED = "cuMemAlloc: 1, dmaBufSupported: 0, nv_peer_mem loaded: yes"
BLACKWELL = "n1:7:9 [0] NCCL INFO ncclMaxSharedMem 82240 exceeds device/fn maxSharedMem 79856"
FAILED = "n1: Test NCCL failure common.cu:1005 'unhandled cuda error (run with NCCL_DEBUG=INFO)'"


def read(*lines: str) -> ReadLog:
    return examine(read_log([line.encode() for line in lines], signs=known_signs()), None)


def harmful(*lines: str) -> Finding:
    return next(one for one in read(*lines).findings if one.candidates)


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ((MISMATCH,), "other settings or versions"),
        (("[Rank 1] Message truncated : NCCL received 2048 bytes instead of 1024",), "programs"),
        (PROTOCOL, "adapter is not in the container"),
        (("$ srun -n 2 --gpus-per-task=1 ./test", IPC), "does not see the other one's GPU"),
        ((IPC,), "separate namespaces"),
        ((SYMBOL.format("hipExtLaunchMultiKernelMultiDevice"),), "newer than the installed ROCm"),
        ((SYMBOL.format("cudaGetDriverEntryPoint"),), "two CUDA releases"),
        ((ABSENT,), "not installed for this kernel or not loaded"),
        (("rdma test", "Couldn't register GPU MR"), "neither nvidia-peermem nor DMA-BUF"),
        (("rdma test", REFUSED), "is not loaded or does not fit"),
        (("rdma test", LOADED, REFUSED), "as DMA-BUF alone"),
        (("[NVIDIA GeForce RTX 4090]", "Couldn't allocate MR"), "offers no GPUDirect RDMA"),
        (
            ("GPU error: [[pulse_test]] Incompatible CUDA compute capability major version: 12",),
            "made before this generation",
        ),
        ((UNREACHED, "  BTLs attempted: vader self"), "do not lead to another host"),
        ((UNREACHED, "  BTLs attempted: self tcp"), "TCP was tried"),
        ((UNREACHED, "  BTLs attempted: self openib"), "An RDMA way was tried"),
    ],
)
def test_the_text_chooses(lines: tuple[str, ...], cause: str) -> None:
    assert cause in harmful(*lines).candidates[0].cause


def test_a_row_states_none_of_its_possible_causes_as_the_cause() -> None:
    assert not [row.id for row in table() if row.cause in {one.cause for one in row.candidate}]


def test_an_echo_stands_behind_a_known_defect_that_ends_jobs() -> None:
    version = "n1:7:9 [0] NCCL INFO NCCL version 2.25.1+cuda12.8"
    first, *_ = found = read(version, BLACKWELL, FAILED).findings
    assert (first.id, first.severity) == ("kernel-needs-too-much", BROKEN)
    (echo,) = [one for one in found if one.id == "reported-by-framework"]
    assert (echo.severity, echo.title) == (NOTICE, "The framework reports that NCCL failed")
    alone, *_ = read(version, BLACKWELL).findings
    assert alone.severity is not BROKEN, "nothing failed"
    later, *_ = read(version.replace("2.25.1", "2.26.2"), BLACKWELL, FAILED).findings
    assert later.id == "reported-by-framework", "this version has not that defect"


@pytest.mark.parametrize(
    "said",
    [
        "API version is incompatible: required >= 1.20, actual 1.18.0 (loaded from /opt/libucp.so)",
        "version is incompatible, required: 1.18, actual: 1.12 (release 1)",
    ],
)
def test_a_program_built_for_another_ucx_is_told(said: str) -> None:
    found = read(f"[17.1] [n1:7:0]  ucp_context.c:2257 UCX  WARN  UCP {said}").findings
    assert [one.id for one in found] == ["ucx-version"]


def test_a_line_of_a_failure_is_not_called_no_failure() -> None:
    assert "of no failure" not in read("ibv_frobnicate 3", "Couldn't frobnicate GPU thing").next
