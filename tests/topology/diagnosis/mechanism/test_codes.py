from __future__ import annotations

import errno
import signal

import pytest

from gputop.topology.diagnosis.mechanism.codes import (
    MLX5_SYNDROMES,
    Family,
    by_name,
    code_in,
    codes,
)
from tests.support import codes as page

SAID = {
    "exits with return code = -9": "SIGKILL",
    "process 7 exited with code 137": "SIGKILL",
    "exitcode  : -11 (pid: 7)": "SIGSEGV",
    "exit code: 1": "",
    "NET/OFI Unable to insert remote address. RC: -22": "EINVAL",
    "Libfabric error: (-12) Cannot allocate memory": "ENOMEM",
    "connect to 10.0.0.2<4> failed : Connection refused": "ECONNREFUSED",
    "ibv_reg_mr failed with error Cannot allocate memory": "ENOMEM",
    "call failed: ECONNRESET": "ECONNRESET",
    "Got completion with status=12 opcode=0 len=0 vendor err 129": "IBV_WC_RETRY_EXC_ERR",
    "IBV_WC_REM_ACCESS_ERR": "IBV_WC_REM_ACCESS_ERR",
    "CUDA error: operation not supported": "cudaErrorNotSupported",
    "cuMulticastCreate: CUDA_ERROR_NOT_PERMITTED": "cudaErrorNotPermitted",
    "CUDA driver error 802": "cudaErrorSystemNotReady",
    "HIP failure 'out of memory'": "hipErrorOutOfMemory",
    "NCCL error: remote process exited or there was a network error": "ncclRemoteError",
    "NVML_ERROR_GPU_IS_LOST": "NVML_ERROR_GPU_IS_LOST",
    "FI_EAVAIL on the queue": "FI_EAVAIL",
    "Fatal Python error: Segmentation fault": "SIGSEGV",
    "NVRM: nvAssertOkFailedNoLog: Call timed out [NV_ERR_TIMEOUT]": "NV_ERR_TIMEOUT",
    "hsa api call failure at line 900, file: rocminfo.cc. Call returned 4104": (
        "HSA_STATUS_ERROR_OUT_OF_RESOURCES"
    ),
    "AMDSMI_STATUS_DRIVER_NOT_LOADED - Processor driver": "AMDSMI_STATUS_DRIVER_NOT_LOADED",
    "mem_heap.cpp:1509: non-zero status: 2 cuMemCreate failed": "cudaErrorMemoryAllocation",
    "Failed status 4: wr_id 0 syndrom 0x51": "IBV_WC_LOC_PROT_ERR",
    "ibv_exp_query_device(mlx5_0) returned 38: Inappropriate ioctl for device": "ENOTTY",
    "tl_cuda_cache.c:207  UCC  ERROR failed to map memory. err:1": "cudaErrorInvalidValue",
    "mc_rocm.c:91  UCC  ERROR hipMalloc of 64 bytes ret 2": "hipErrorOutOfMemory",
    "tl_ucp_coll.c:120  UCC  ERROR team post failed, status -5": "UCC_ERR_NO_RESOURCE",
    "ucp_worker.c:57  UCX  ERROR progress failed: status -25": "UCS_ERR_CONNECTION_RESET",
    "endpoint error: UCS_ERR_OUT_OF_RANGE": "UCS_ERR_OUT_OF_RANGE",
    "ucc_context_create failed: UCC_ERR_NOT_FOUND": "UCC_ERR_NOT_FOUND",
}
NOTHING = (
    "exit code: 0",
    "error: 0",
    "cudaErrorNotReady",
    "hipErrorPeerAccessAlreadyEnabled",
    "the run has 12 steps",
    "loss (2) error 0.1",
    "the actor was terminated",
    "Failed to register remote memory, rc=-1",
    "ncclNet init returned -1",
    "probe failed (-1)",
    "",
)


@pytest.mark.parametrize("text", SAID)
def test_a_code_is_named(text: str) -> None:
    found = code_in(text)
    assert found is not None
    assert found.name == SAID[text] or (SAID[text] == "" and found.family is Family.EXIT)
    assert found.said


def test_each_syndrome_of_mlx5_is_the_status_of_its_name() -> None:
    """As mlx5dv.h names them and `mlx5_handle_error_cqe` of rdma-core's cq.c translates them."""
    kinds = {
        *{"LOC_LEN": 0x01, "LOC_QP_OP": 0x02, "LOC_PROT": 0x04, "WR_FLUSH": 0x05}.items(),
        *{"MW_BIND": 0x06, "BAD_RESP": 0x10, "LOC_ACCESS": 0x11, "REM_INV_REQ": 0x12}.items(),
        *{"REM_ACCESS": 0x13, "REM_OP": 0x14, "RETRY_EXC": 0x15, "RNR_RETRY_EXC": 0x16}.items(),
        ("REM_ABORT", 0x22),
    }
    assert len(kinds) == len(MLX5_SYNDROMES)
    for kind, syndrome in sorted(kinds):
        found = code_in(f"mlx5_0: got completion with error: syndrome 0x{syndrome:02x}")
        assert found is not None
        assert found.name == f"IBV_WC_{kind}_ERR"


@pytest.mark.parametrize("text", NOTHING)
def test_no_code_is_seen_where_none_is(text: str) -> None:
    assert code_in(text) is None


def test_every_code_of_the_tables_has_a_sentence() -> None:
    for family, numbered in codes().items():
        for number, code in numbered.items():
            assert code.family is family
            assert code.number == number
            assert code.said, code
            if family not in (Family.ERRNO, Family.SIGNAL):
                assert code.meaning, code
                assert code.meaning[-1] != ".", code


def test_names_lead_to_their_codes_and_the_system_knows_them() -> None:
    assert by_name()["ENOSPC"].number == errno.ENOSPC
    assert by_name()["SIGBUS"].number == signal.SIGBUS
    for name in ("CUDA_ERROR_SYSTEM_NOT_READY", "CUDA_ERROR_NOT_SUPPORTED"):
        assert by_name()[name].family is Family.CUDA


def test_the_page_of_codes_is_of_these_tables() -> None:
    assert page.PATH.read_text() == page.document()


@pytest.mark.parametrize(
    "line",
    [
        "ERROR 10-13 09:06:25 [executor.py:597] WorkerProc failed to start.",
        "ERROR 12:03:04 worker failed",
        "error 11/02/2026: it failed",
        "return code 2.1.5 failed",
    ],
)
def test_a_date_or_a_version_is_no_code(line: str) -> None:
    assert code_in(line) is None
