"""What ROCm, its packages, tools and containers say is answered by what it means."""

from __future__ import annotations

import pytest

from gputop.topology.diagnosis.symptoms.explain import known_signs
from gputop.topology.diagnosis.symptoms.log import ReadLog, examine
from gputop.topology.logs.reading.read import read_log
from gputop.topology.model.finding import Finding

PLUGIN = """\
I0801 07:00:00.100000       1 main.go:305] AMD GPU device plugin for Kubernetes
I0801 07:00:00.100400       1 manager.go:60] Starting Discovery on new plugins
I0801 07:00:00.100500       1 manager.go:66] Handling incoming signals"""
SAID = {
    "amdgpu-queues-used-up": ("amdgpu: process pid 7 DQM create queue type 1 failed. ret -12",),
    "amdgpu-queue-evicted": (
        "[   61.5] [drm:amdgpu_job_submit [amdgpu]] *ERROR* Trying to push to a killed entity",
    ),
    "rocm-cuda-build": (
        "  Name:                    gfx1102\nRuntimeError: Found no NVIDIA driver on your system. "
        "Please check that you have an NVIDIA GPU",
    ),
    "onnx-provider-missing": (
        "UserWarning: Specified provider 'MIGraphXExecutionProvider' is not in available provider "
        "names.Available providers: 'CPUExecutionProvider'",
    ),
    "jax-no-backend": (
        "RuntimeError: Unknown backend: 'rocm' requested, but no platforms that are instances of "
        "rocm are present. Platforms present are: cpu",
        "jax-rocm60-plugin version 0.4.31 is not compatible with jaxlib 0.4.35",
    ),
    "rocm-target-lacks": (
        "error: '__builtin_amdgcn_wmma_f32_16x16x16_f16_w32' needs target feature gfx11-insts",
        "error: Illegal instruction detected: Operand has incorrect register class.",
    ),
    "hip-source-cuda": ("x.cpp:9:3: error: use of undeclared identifier 'cudaFuncAttributes'",),
    "rocm-library-crashed": (
        "ollama[123]: segfault at 0 ip 00007f12 sp 00007f13 error 6 in "
        "libamdhip64.so.7.1[7f3000+18000]",
        "traps: python3[1] general protection fault ip:7f1 sp:7f2 error:0 in "
        "librocblas.so.4[7f3000+1000]",
    ),
    "amdgpu-user-pages": ("[   91.2] amdgpu: Failed to create process device data",),
    "fp8-other-kind": (
        "ValueError: type fp8e4b8 not supported in this architecture. The supported fp8 dtypes are "
        "('fp8e4nv', 'fp8e5')",
    ),
    "rocm-packages-mixed": (
        " hip-dev : Depends: rocm-core (= 6.3.1.60301-48~24.04) but 5.7.1-2 is to be installed",
        " - nothing provides libdrm-amdgpu-common needed by amdgpu-core-1:6.1.60100.el8.noarch",
    ),
    "rocm-repository": (
        "E: Unable to locate package amdgpu-dkms",
        "Error: Unable to find a match: rock-dkms",
        "Err:7 https://repo.radeon.com/rocm/apt/5.9 jammy Release 404  Not Found",
    ),
    "rocm-host-libraries": (
        "rocBLAS error: Cannot read /.singularity.d/libs/rocblas/library/TensileLibrary.dat: "
        "Illegal seek",
        "OSError: /lib64/libc.so.6: version `GLIBC_2.34' not found (required by "
        "/.singularity.d/libs/libhipblas.so.2)",
    ),
    "rocm-library-missing": (
        "OSError: librocblas.so.4: cannot open shared object file: No such file or directory",
        "a.py:3: UserWarning: not used. Reason: libMIOpen.so.1: cannot open shared object file",
    ),
    "rocm-releases-mixed": (
        "ld.lld: error: undefined reference to `hipStreamBatchMemOp@hip_6.3'",
        "ImportError: /opt/rocm-6.3.0/lib/libamd_smi.so.25: undefined symbol: esmi_errno",
    ),
    "rocm-build-incomplete": (
        "fatal error: 'hip/hip_runtime.h' file not found",
        'Could not find a package configuration file provided by "rocblas" with any of',
    ),
    "rocm-tools-missing": ("sh: 1: amd-smi: not found", "bash: rocminfo: command not found"),
    "kfd-incompatible": ("HSA Error:  Incompatible kernel and userspace, gfx906 disabled.",),
    "hostcall-atomics": ("PCIe atomics not enabled, printf is not supported",),
    "rsmi-mutex": ("pthread_mutex_timedlock() returned 110",),
    "amd-partition-refused": (
        "    COMPUTE_PARTITION: [AMDSMI_STATUS_NO_PERM] Command requires elevation",
        "ERROR: GPU[2]: Failed to set compute partition to CPX",
    ),
    "gim-refused": ("gim error libgv: [0:5:0:0][amdgv_sched_init:88] failed to load VF firmware",),
    "amd-guest-host": ("amdgpu 0000:00:08.0: amdgpu: trn=3 ACK should not assert! wait again !",),
    "amd-plugin-no-gpu": ("I0101 09:00:00.000001 1 plugin.go:136] Found 0 AMDGPUs",),
    "amd-plugin-silent": (PLUGIN,),
    "kmm-module-missing": (
        '"modprobe: ERROR: ctx=0x55 path=/mnt/lib/modules/5.14.0-503.el9/kernel/drivers/gpu/drm/'
        'drm_buddy.ko.xz error=No such file or directory"',
    ),
    "amd-runtime-missing": (
        "docker: Error response from daemon: unknown or invalid runtime name: amd.",
        "Error: stat /dev/kfd: no such file or directory",
        "error: unresolvable CDI devices amd.com/gpu=0",
    ),
    "rocm-module-missing": ("ModuleNotFoundError: No module named 'aiter.ops'",),
    "rocm-feature-missing": ("ValueError: awq_marlin quantization is not supported on ROCm.",),
    "hip-invalid-pointer": (
        "n2:5:9 [3] p2p.cc:188 NCCL WARN HIP failure 'invalid device pointer'",
    ),
    "amd-peer-memory": (
        "rdma.cpp:90 RegisterRdmaMemoryRegion failed! addr:0x7e, size:64, errno:14 (Bad address)",
    ),
    "rvs-no-peers": ("[RESULT] [ 12.5] [p2p_1] p2p 1044 2089 peers:false distance:-1",),
    "amd-small-bar": ("[drm] Detected VRAM RAM=65520M, BAR=256M",),
    "amd-over-temperature": (
        "amdgpu 0000:83:00.0: amdgpu: GPU HBM over temperature range detected!",
    ),
    "amd-memory-full": ("amdgpu: SVM mapping failed, exceeds resident system memory limit",),
    "miopen-cache": ("MIOpen(HIP): Error [Prepare] unable to open database file",),
    "miopen-build": ("RuntimeError: miopenStatusInternalError, MIOpen Error: Build of a kernel",),
    "rocm-apu-memory": (
        "Radeon 890M\ntorch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.00 GiB.",
    ),
    "gfx-pretended": (
        "  Name:                    gfx1100\n  Marketing Name:          AMD Instinct MI100",
    ),
    "rocm-profiler-library": ("Could not load the library librocprofiler-register.so",),
    "amd-tool-failed": (
        'Traceback (most recent call last):\n  File "/opt/rocm-6.2.0/libexec/amdsmi_cli/'
        'amdsmi_commands.py", line 812, in metric_gpu\nIndexError: list index out of range',
    ),
    "variable-ignored": ("n1:1:2 [0] NCCL INFO Ignoring environment variable RCCL_MSCCL_ENABLE",),
    "cray-gtl-ipc": (
        "(GTL DEBUG: 5) hsa_amd_ipc_memory_create: HSA_STATUS_ERROR_OUT_OF_RESOURCES",
    ),
}
"""Row -> texts that show it, none of them one of its own examples."""


def read(text: str) -> ReadLog:
    lines = [line.encode() for line in text.splitlines()]
    return examine(read_log(lines, signs=known_signs(), outputs=True), None)


def finding(text: str, ident: str) -> Finding:
    return next(one for one in read(text).findings if one.id == ident)


@pytest.mark.parametrize("ident", SAID)
def test_each_row_answers_other_lines_of_its_kind(ident: str) -> None:
    for text in SAID[ident]:
        assert ident in [one.id for one in read(text).findings], text


def test_a_warning_of_the_library_breaks_nothing() -> None:
    told = (
        "MIOpen(HIP): Warning [SQLiteBase] Unable to read system database file: gfx942130.kdb "
        "Performance may degrade",
        "/opt/amdgpu/share/libdrm/amdgpu.ids: No such file or directory",
        "UserWarning: Attempting to use hipBLASLt on an unsupported architecture!",
        "open /sys/class/drm/card4/device/product_name: no such file or directory",
        "WARNING 01-01 10:00:00 [custom_all_reduce.py:137] Custom allreduce is disabled because "
        "your platform lacks GPU P2P capability or P2P test failed. To silence this warning, "
        "specify disable_custom_all_reduce=True explicitly.",
    )
    for text in told:
        assert [one.severity.counts for one in read(text).findings] == [False], text


def test_a_plug_in_that_found_gpus_is_not_silent() -> None:
    found = f"{PLUGIN}\nI0801 07:00:00.200000       1 plugin.go:136] Found 8 AMDGPUs"
    assert not any(one.severity.counts for one in read(found).findings)


FIRST = {
    "a variable pretends another GPU": (
        "HSA_OVERRIDE_GFX_VERSION=10.3.0\nhipErrorNoBinaryForGpu: Unable to find code object",
        *("hip-no-code", "HSA_OVERRIDE_GFX_VERSION pretends"),
    ),
    "the processor's graphics": (
        "Device 1: AMD Radeon Graphics, gfx1035\nrocBLAS error: Cannot read "
        "/opt/rocm/lib/rocblas/library/TensileLibrary.dat: No such file for GPU arch : gfx1035",
        *("hip-no-code", "The processor's own graphics"),
    ),
    "AITER on another GPU": (
        "VLLM_ROCM_USE_AITER=1\nRuntimeError: GPU arch gfx1201 is not supported",
        *("hip-no-code", "AITER, which was switched on"),
    ),
    "an override under a fault": (
        "HSA_OVERRIDE_GFX_VERSION=10.3.0 python a.py\nMemory access fault by GPU node-1 (Agent "
        "handle: 0x1) on address 0x2. Reason: Unknown.",
        *("hip-crashed", "HSA_OVERRIDE_GFX_VERSION pretends"),
    ),
    "an override under a hang": (
        "HSA_OVERRIDE_GFX_VERSION: 11.0.0\nHW Exception by GPU node-2 (Agent handle: 0x1) reason "
        ":GPU Hang",
        *("hip-hang", "HSA_OVERRIDE_GFX_VERSION pretends"),
    ),
    "a library that was just installed": (
        "rccl is already the newest version (2.18).\nImportError: librccl.so.1: cannot open shared "
        "object file: No such file or directory",
        *("rocm-library-missing", "ROCm's libraries are not installed"),
    ),
    "a miner": (
        "GPU2 31.2 MH/s\nMemory access fault by GPU node-3 (Agent handle: 0x1) on address 0x2. "
        "Reason: Unknown.",
        *("hip-crashed", "The GPU computes wrongly"),
    ),
    "WSL": (
        "Linux pc 5.15.167.4-microsoft-standard-WSL2\nROCk module is NOT loaded, possibly no GPU "
        "devices",
        *("hip-no-device", "This is WSL"),
    ),
    "a kernel without kfd": (
        "ROCk module version 6.8.5 is loaded\nUnable to open /dev/kfd read-write: No such file or "
        "directory",
        *("hip-no-device", "The kernel's amdgpu runs without"),
    ),
    "a group with another number": (
        "crw-rw---- 1 nobody nogroup 235, 0 Mar  3 09:14 /dev/kfd\nRuntimeError: No HIP GPUs are "
        "available",
        *("hip-no-device", "The user may not open"),
    ),
    "docker's option for another vendor": (
        "c1:00.0 Display controller: Advanced Micro Devices, Inc. [AMD/ATI] Aldebaran\ndocker: "
        'Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
        *("container-runtime-missing", "The machine has AMD GPUs"),
    ),
    "more functions than the mode allows": (
        "gim error libgv: [0:5:0:0][x:1] VF number 2 to be enabled exceeds the vf limit 1.",
        *("gim-refused", "vf_num asks for more"),
    ),
}
"""What it is -> a text, the row, and how the first of its possible causes begins."""


@pytest.mark.parametrize("name", FIRST)
def test_the_text_says_which_cause_comes_first(name: str) -> None:
    text, ident, begins = FIRST[name]
    assert finding(text, ident).candidates[0].cause.startswith(begins)


def test_a_relative_of_the_same_family_is_not_called_pretended() -> None:
    shown = "  Name:                    gfx1030\n  Marketing Name:          AMD Radeon RX 6700 XT"
    assert "gfx-pretended" not in [one.id for one in read(shown).findings]


def test_a_build_for_cuda_on_rocm_lacks_no_driver() -> None:
    lacks = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"
    assert finding(lacks, "cuda-library-missing").severity.counts
    beside = f"PyTorch version: 2.9.0+rocm7.0\n{lacks}"
    assert not finding(beside, "cuda-library-missing").severity.counts


def test_a_number_of_make_or_dpkg_is_no_errno() -> None:
    text = (
        "make[3]: *** [/var/lib/dkms/amdgpu/6.8.5/build/amd/amdgpu/gmc.o] Error 1\n"
        "dpkg: error processing package amdgpu-dkms (--configure): subprocess returned error 2"
    )
    assert not any("EPERM" in one.title or "ENOENT" in one.title for one in read(text).findings)


UNSAID = {
    "a machine with both vendors": (
        "00:02.0 VGA compatible controller: AMD/ATI Radeon\n01:00.0 NVIDIA Corporation GH100\n"
        "RuntimeError: Found no NVIDIA driver on your system.",
        "rocm-cuda-build",
    ),
    "a remark of every JAX": (
        "INFO:jax._src.xla_bridge:Unable to initialize backend 'rocm': NOT_FOUND: Could not find "
        'registered platform with name: "rocm". Available platform names are: CUDA',
        "jax-no-backend",
    ),
    "a database's library": (
        "srv[9]: segfault at 0 ip 00007f12 sp 00007f13 error 4 in librocksdb.so.9[7f3000+1000]",
        "rocm-library-crashed",
    ),
}
"""What it is -> a text, and the row that it does not mean."""


@pytest.mark.parametrize("name", UNSAID)
def test_what_only_sounds_like_it_is_left(name: str) -> None:
    text, ident = UNSAID[name]
    assert ident not in [one.id for one in read(text).findings]


def test_the_access_of_a_segfault_is_no_errno() -> None:
    text = "srv[9]: segfault at 0 ip 00007f12 sp 00007f13 error 4 in libnccl.so.2[7f3000+1000]"
    assert not any("EINTR" in one.title for one in read(text).findings)
