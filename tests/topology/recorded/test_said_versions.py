"""Versions in the forms that people paste."""

from __future__ import annotations

import pytest

from gputop.topology.logs.reading.read import read_log
from gputop.topology.model.versions import LibraryName, Product
from gputop.topology.recorded.said_versions import goes_on, versions_in

FORMS = {
    "NCCL version 2.21.5+cuda12.4": "NCCL 2.21.5",
    "node1:11:11 [0] NCCL INFO NCCL version 2.28.9+cuda13.0": "NCCL 2.28.9",
    "NCCL version 2.21.5+hip6.3 HEAD:abc": "RCCL 2.21.5",
    "RCCL version : 2.22.3-develop:1234567": "RCCL 2.22.3",
    "nccl==2.29.7": "NCCL 2.29.7",
    "INFO 11-01 vLLM is using nccl==2.29.7": "NCCL 2.29.7",
    "torch.cuda.nccl.version() (2, 28, 3)": "NCCL 2.28.3",
    "2.10.0a0+gitabc1234 (2, 28, 3)": "NCCL 2.28.3",
    "(2, 21, 5)": "NCCL 2.21.5",
    "# nccl-tests version 2.17.1 nccl-headers=22803 nccl-library=22803": "NCCL 2.28.3",
    "nvidia-nccl-cu12 2.27.3": "NCCL 2.27.3",
    "nvidia-nccl-cu12              2.27.3": "NCCL 2.27.3",
    "[pip3] nvidia-nccl-cu12==2.26.2": "NCCL 2.26.2",
    "[conda] nvidia-nccl-cu12          2.21.5             pypi_0    pypi": "NCCL 2.21.5",
    "Nvidia driver version: 535.129.03": "NVIDIA driver 535.129.03",
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19": (
        "NVIDIA driver 535.129.03"
    ),
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.20  Release Build": (
        "NVIDIA driver 580.126.20"
    ),
    "| NVIDIA-SMI 535.129.03      Driver Version: 535.129.03   CUDA Version: 12.2     |": (
        "NVIDIA driver 535.129.03, CUDA of the driver 12.2"
    ),
    "CUDA runtime version: 12.4.131": "CUDA toolkit 12.4.131",
    "PyTorch version: 2.6.0+cu124": "PyTorch 2.6.0",
    "torch                    2.6.0": "PyTorch 2.6.0",
    "ROCM used to build PyTorch: 6.3.42131-fa1d09cbd": "ROCm 6.3.42131",
    "a:1:1 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.14.0": "aws-ofi-nccl 1.14.0",
    "a:1:1 [0] NCCL INFO NET/OFI Using Libfabric version 1.22": "libfabric 1.22",
    "vLLM Version                 : 0.11.1rc7.dev249+g552cac95b": "vLLM 0.11.1",
    "Linux version 6.8.0-60-generic (buildd@lcy02)": "Linux 6.8.0",
    "	fw_ver:				28.39.1002": "ConnectX firmware 28.39.1002",
    "NVIDIA Container Toolkit CLI version 1.16.1": "NVIDIA Container Toolkit 1.16.1",
    "us-docker.pkg.dev/gce-ai-infra/gpudirect-gib/nccl-plugin-gib-arm64:v1.1.2": "NCCL/gIB 1.1.2",
    "NVSHMEM v3.2.5": "NVSHMEM 3.2.5",
    "ROCM used to build PyTorch: N/A": "",
    "Please pip install nvidia-nccl-cu12==2.26.2": "",
    "fixed in nccl==2.26.2": "",
    "requires nvidia-nccl-cu12==2.26.2": "",
    "torch.Size([2, 28, 3])": "",
    "we trained with NCCL on 2.5 days": "",
}


@pytest.mark.parametrize("line", FORMS)
def test_a_line_names_its_versions(line: str) -> None:
    found = [f"{one.product} {one.version}" for one in versions_in(line)]
    assert ", ".join(found) == FORMS[line]


def test_a_wrapped_line_goes_on_in_the_next_one() -> None:
    log = read_log(
        [b"| NVIDIA-SMI 535.129.03             Driver Version:", b"535.129.03 CUDA Version: 12.2 |"]
    )
    assert [one.version for one in log.versions.beside or ()] == ["535.129.03", "12.2"]
    assert goes_on(">>> print(torch.cuda.nccl.version())")
    assert not goes_on("NCCL version 2.21.5")


@pytest.mark.parametrize("line", [b"(2, 21, 5)", b"[pip3] nvidia-nccl-cu12==2.21.5"])
def test_the_library_is_of_unknown_version_only_where_no_form_names_it(line: bytes) -> None:
    said = read_log([b"ncclSystemError: System call failed.", line]).versions
    assert (said.library, said.version, said.line) == (LibraryName.NCCL, "2.21.5", 2)
    assert read_log([b"ncclSystemError: System call failed."]).versions.version is None


def test_two_versions_of_the_library_leave_it_open() -> None:
    said = read_log([b"nccl==2.21.5", b"nccl==2.29.7"]).versions
    assert said.version is None


def test_what_the_library_prints_comes_before_lists_of_packages() -> None:
    log = read_log([b"[pip3] nvidia-nccl-cu12==2.21.5", b"NCCL version 2.29.7+cuda12.8"])
    assert (log.versions.version, log.versions.built_for) == ("2.29.7", "cuda12.8")


def test_plugins_are_read_from_the_library_s_own_lines() -> None:
    log = read_log([b"n:1:2 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.14.0"])
    (one,) = log.versions.beside or ()
    assert (one.product, one.version) == (Product.AWS_OFI_NCCL, "1.14.0")
